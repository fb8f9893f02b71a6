"""The threads of requests: results, errors, bounds, and threads that nobody needs."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ironic_lite import errors
from ironic_lite.api.traffic import thread_pool

T = TypeVar("T")
PATIENCE = 60.0


def run(
    work: Callable[[thread_pool.ThreadPool], Awaitable[T]], most: int = 4, idle: float = 600.0
) -> T:
    async def main() -> T:
        pool = thread_pool.ThreadPool(most, idle_seconds=idle)
        try:
            return await work(pool)
        finally:
            pool.close()

    return asyncio.run(main())


def test_results_and_errors_come_back() -> None:
    def fail() -> None:
        raise ValueError("told")

    async def work(pool: thread_pool.ThreadPool) -> list[int]:
        with pytest.raises(ValueError, match="told"):
            await pool.run(fail)
        numbers = (functools.partial(int, n) for n in range(1000))
        return await asyncio.gather(*map(pool.run, numbers))

    assert run(work) == list(range(1000))


def test_no_result_is_lost_when_threads_end_at_the_same_moment() -> None:
    async def caller(pool: thread_pool.ThreadPool) -> None:
        for _ in range(300):
            await asyncio.wait_for(pool.run(int), PATIENCE)

    async def work(pool: thread_pool.ThreadPool) -> None:
        await asyncio.gather(*(caller(pool) for _ in range(16)))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        run(work, most=16)
    finally:
        sys.setswitchinterval(before)


def test_calls_beyond_the_bound_wait() -> None:
    go, begun = threading.Event(), threading.Semaphore(0)

    def block() -> str:
        begun.release()
        assert go.wait(PATIENCE)
        return threading.current_thread().name

    async def work(pool: thread_pool.ThreadPool) -> int:
        calls = [asyncio.create_task(pool.run(block)) for _ in range(10)]
        for _ in range(2):
            assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE)
        assert pool.threads == 2
        assert not begun.acquire(timeout=0.1)
        go.set()
        return len(set(await asyncio.gather(*calls)))

    assert run(work, most=2) == 2


def test_one_thread_is_enough_for_calls_one_after_the_other() -> None:
    async def work(pool: thread_pool.ThreadPool) -> int:
        for _ in range(100):
            await pool.run(int)
        return pool.threads

    assert run(work) == 1


def test_threads_that_nobody_needs_end() -> None:
    barrier = threading.Barrier(4)

    async def work(pool: thread_pool.ThreadPool) -> None:
        before = threading.active_count()
        await asyncio.gather(*(pool.run(lambda: barrier.wait(PATIENCE)) for _ in range(4)))
        assert pool.threads == 4
        end = asyncio.get_running_loop().time() + PATIENCE
        while threading.active_count() > before:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.02)
        assert await pool.run(lambda: "again") == "again"

    run(work, idle=0.05)


def test_a_call_that_is_given_up_frees_its_thread() -> None:
    go = threading.Event()

    async def work(pool: thread_pool.ThreadPool) -> str:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.run(lambda: go.wait(PATIENCE)), 0.05)
        go.set()
        return await pool.run(lambda: "served")

    assert run(work, most=1) == "served"


def test_calls_are_served_when_threads_could_not_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, allowed = threading.Thread.start, [False, True, False]

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("request-") and not (not allowed or allowed.pop(0)):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)

    async def work(pool: thread_pool.ThreadPool) -> None:
        with pytest.raises(errors.Unavailable):
            await pool.run(int)
        # One thread serves both.
        assert not any(await asyncio.gather(pool.run(int), pool.run(int)))
        assert pool.threads == 1
        while pool.threads:
            await asyncio.sleep(0.02)
        for _ in range(3):
            assert await asyncio.wait_for(pool.run(int), PATIENCE) == 0

    run(work, idle=0.05)


def test_result_of_a_finishing_call_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that begin to wait or to stream return one."""
    monkeypatch.setattr(thread_pool, "LATEST", 600.0)

    async def work(pool: thread_pool.ThreadPool) -> str:
        return await asyncio.wait_for(pool.finish(lambda: "later"), PATIENCE)

    assert run(work) == "later"


def test_a_late_result_comes_with_the_next_call_or_by_itself() -> None:
    async def work(pool: thread_pool.ThreadPool) -> None:
        done = threading.Event()
        late = asyncio.ensure_future(pool.finish(done.set))
        await asyncio.sleep(0)
        assert await pool.run(lambda: done.wait(PATIENCE))
        await late
        called: list[int] = []
        for number in range(3):
            await pool.finish(functools.partial(called.append, number))
        assert called == [0, 1, 2]
        with pytest.raises(ValueError, match="invalid literal"):
            await pool.finish(lambda: int("x"))
        assert pool.threads == 1

    run(work, most=1)
