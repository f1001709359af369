"""From a request's bytes to an answer's bytes: the cache, the thread pools, the deadline.

The handlers take and give bytes, not messages. A request that does not decode is then the caller's error like any
other (gRPC itself would report it as the server's), and a cached answer goes out without being built or encoded again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, cast

import grpc
import grpc.aio

from capplan.server.answer_cache import AnswerCache, AnswerKey
from capplan.server.methods import Method
from capplan.server.work_pool import WorkPool

Handler = Callable[[bytes, "grpc.aio.ServicerContext[Any, Any]"], Awaitable[bytes]]


class CacheObserver(Protocol):
    """Told of every look into the cache."""

    def looked_up(self, *, hit: bool) -> None:
        """An answer was looked for."""


class Dispatcher:
    """Answers calls."""

    def __init__(
        self,
        *,
        revision: Callable[[], int],
        planning: WorkPool,
        reading: WorkPool,
        cache: AnswerCache,
        observer: CacheObserver,
    ) -> None:
        """Put the parts together.

        Args:
            revision: the catalogue's revision now.
            planning: threads for methods that plan.
            reading: threads for all others.
            cache: answers given before.
            observer: told of hits and misses.
        """
        self._revision = revision
        self._planning = planning
        self._reading = reading
        self._cache = cache
        self._observer = observer

    async def answer(self, method: Method, request: bytes, time_remaining_s: float | None) -> bytes:
        """The encoded answer.

        Raises:
            CapplanError: the request cannot be answered, or not now.
        """
        revision = self._revision()
        key = AnswerKey(revision, method.full_name, request)
        cached = self._cache.get(key)
        self._observer.looked_up(hit=cached is not None)
        if cached is not None:
            return cached
        pool = self._planning if method.plans else self._reading
        answer = await pool.run(lambda: method.answer_bytes(request), time_remaining_s)
        # A revision that is still current was current all along, because it only grows: the answer holds for it.
        if self._revision() == revision:
            self._cache.put(key, answer)
        return answer

    def handler(self, method: Method) -> Handler:
        """A gRPC handler of one method."""

        async def handle(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
            return await self.answer(method, request, time_remaining_s(context))

        return handle


def time_remaining_s(context: grpc.aio.ServicerContext[Any, Any]) -> float | None:
    """Seconds to the caller's deadline, ``None`` without one (which the stubs of gRPC leave out)."""
    return cast("float | None", context.time_remaining())


def generic_handlers(dispatcher: Dispatcher, methods: Iterable[Method]) -> tuple[grpc.GenericRpcHandler, ...]:
    """GRPC's view of the methods, one handler for each service."""
    by_service: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
    for method in methods:
        # Without (de)serialisers gRPC passes bytes through.
        by_service.setdefault(method.service, {})[method.name] = grpc.unary_unary_rpc_method_handler(
            dispatcher.handler(method)
        )
    return tuple(grpc.method_handlers_generic_handler(name, handlers) for name, handlers in by_service.items())
