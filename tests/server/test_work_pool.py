"""A pool refuses what it has no place for, begins nothing too late, and counts its places right whatever happens."""

from __future__ import annotations

import asyncio
import threading

import pytest

from capplan.server.errors import DeadlineTooNearError, OverloadedError, ShuttingDownError
from capplan.server.work_pool import WorkPool

LIMIT_S = 10.0


@pytest.fixture
def release():
    """Lets the work of a test end; set at the end in any case, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


def blocking(release: threading.Event, began: threading.Event | None = None):
    def work() -> str:
        if began is not None:
            began.set()
        assert release.wait(LIMIT_S)
        return "done"

    return work


async def settled(pool: WorkPool, in_flight: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while pool.in_flight != in_flight:
            await asyncio.sleep(0.001)


async def test_work_is_done_in_another_thread() -> None:
    pool = WorkPool("test", workers=1, queued=0)
    assert await pool.run(threading.get_ident, None) != threading.get_ident()
    pool.close()


async def test_an_error_of_the_work_reaches_the_caller_and_frees_the_place() -> None:
    pool = WorkPool("test", workers=1, queued=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 // 0, None)
        await settled(pool, 0)
    pool.close()


async def test_beyond_workers_and_queue_calls_are_refused_at_once(release: threading.Event) -> None:
    pool = WorkPool("test", workers=1, queued=2)
    waiting = [asyncio.create_task(pool.run(blocking(release), None)) for _ in range(3)]
    await settled(pool, 3)
    with pytest.raises(OverloadedError, match="3 test calls") as refusal:
        await pool.run(blocking(release), None)
    assert refusal.value.retry_delay_s > 0
    release.set()
    assert await asyncio.gather(*waiting) == ["done"] * 3
    await settled(pool, 0)
    pool.close()


async def test_a_deadline_that_is_too_near_is_refused_before_any_work() -> None:
    pool = WorkPool("test", workers=1, queued=0, deadline_reserve_s=0.05)
    with pytest.raises(DeadlineTooNearError):
        await pool.run(lambda: pytest.fail("the work was begun"), 0.01)
    assert pool.in_flight == 0
    assert await pool.run(lambda: "done", 5.0) == "done"
    pool.close()


async def test_work_whose_turn_comes_too_late_is_not_begun(release: threading.Event) -> None:
    pool = WorkPool("test", workers=1, queued=1)
    began = threading.Event()
    first = asyncio.create_task(pool.run(blocking(release, began), None))
    await settled(pool, 1)
    late = asyncio.create_task(pool.run(lambda: pytest.fail("the work was begun"), 1e-9))
    await settled(pool, 2)
    release.set()
    assert await first == "done"
    with pytest.raises(DeadlineTooNearError):
        await late
    pool.close()


async def test_a_cancelled_caller_frees_its_place_in_the_queue(release: threading.Event) -> None:
    pool = WorkPool("test", workers=1, queued=1)
    began = threading.Event()
    first = asyncio.create_task(pool.run(blocking(release, began), None))
    assert await asyncio.to_thread(began.wait, LIMIT_S)
    second = asyncio.create_task(pool.run(lambda: pytest.fail("the work was begun"), None))
    await settled(pool, 2)
    second.cancel()
    await settled(pool, 1)
    release.set()
    assert await first == "done"
    with pytest.raises(asyncio.CancelledError):
        await second
    pool.close()


async def test_begun_work_holds_its_place_when_its_caller_is_gone(release: threading.Event) -> None:
    pool = WorkPool("test", workers=1, queued=0)
    began = threading.Event()
    caller = asyncio.create_task(pool.run(blocking(release, began), None))
    assert await asyncio.to_thread(began.wait, LIMIT_S)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert pool.in_flight == 1
    with pytest.raises(OverloadedError):
        await pool.run(lambda: "done", None)
    release.set()
    await settled(pool, 0)
    pool.close()


async def test_a_closed_pool_says_so_and_keeps_no_place() -> None:
    pool = WorkPool("test", workers=1, queued=0)
    pool.close()
    for _ in range(2):
        with pytest.raises(ShuttingDownError):
            await pool.run(lambda: "done", None)
    assert pool.in_flight == 0
