"""Threads for calls, kept off the event loop, with a bound on how many may be in progress or wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from capplan.server.errors import DeadlineTooNearError, OverloadedError, ShuttingDownError

RETRY_DELAY_S = 0.5
"""What a refused caller is told to wait: a few calls' worth of work."""

_Result = TypeVar("_Result")


class WorkPool:
    """A thread pool with a bounded queue.

    A cancelled caller frees its place when its work had not begun; work that has begun runs to its end and holds the
    place until then, because a thread cannot be stopped.
    """

    def __init__(self, kind: str, *, workers: int, queued: int, deadline_reserve_s: float = 0.0) -> None:
        """Start empty.

        Args:
            kind: what the pool works on, for messages and thread names.
            workers: threads.
            queued: most calls that may wait for one.
            deadline_reserve_s: a call whose deadline is nearer than this when its turn comes is not begun.
        """
        self._kind = kind
        self._limit = workers + queued
        self._deadline_reserve_s = deadline_reserve_s
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix=f"capplan-{kind}")
        self._lock = threading.Lock()
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Calls in progress or waiting."""
        return self._in_flight

    async def run(self, work: Callable[[], _Result], time_remaining_s: float | None) -> _Result:
        """The result of ``work``, done in one of the threads.

        Args:
            work: what to do.
            time_remaining_s: seconds to the caller's deadline, ``None`` without one.

        Raises:
            OverloadedError: every place is taken.
            DeadlineTooNearError: too little time is left now, or was when the work's turn came.
            ShuttingDownError: the pool is closed.
        """
        reserve = self._deadline_reserve_s
        if time_remaining_s is not None and time_remaining_s < reserve:
            raise DeadlineTooNearError(reserve)
        last_start = None if time_remaining_s is None else time.monotonic() + time_remaining_s - reserve

        def begin() -> _Result:
            if last_start is not None and time.monotonic() > last_start:
                raise DeadlineTooNearError(reserve)
            return work()

        return await asyncio.wrap_future(self._submit(begin))

    def _submit(self, work: Callable[[], _Result]) -> Future[_Result]:
        with self._lock:
            if self._in_flight >= self._limit:
                raise OverloadedError(self._kind, self._limit, RETRY_DELAY_S)
            self._in_flight += 1
        try:
            future = self._executor.submit(work)
        except RuntimeError:
            self._leave()
            raise ShuttingDownError from None
        future.add_done_callback(lambda _: self._leave())
        return future

    def _leave(self) -> None:
        with self._lock:
            self._in_flight -= 1

    def close(self) -> None:
        """Take no more work and drop what waits; work in progress ends by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)
