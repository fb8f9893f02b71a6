"""The pool of threads for RPC calls and for the work of a conductor."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Iterator

import pytest

from ironic_lite.core import warm_pool
from ironic_lite.core.warm_pool import WarmPool
from tests.support.thread_limit import no_new_threads

SECONDS = 30.0


class Work:
    """Work that ends when it is told to, and names its thread."""

    def __init__(self) -> None:
        self.begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.gate = threading.Event()

    def __call__(self) -> None:
        self.begun.put(threading.current_thread().name)
        self.gate.wait(SECONDS)


@pytest.fixture
def pool() -> Iterator[WarmPool]:
    """A pool of two threads."""
    made = WarmPool(2, "test")
    yield made
    assert made.drain(SECONDS)


def start(pool: WarmPool) -> tuple[Work, str]:
    """Return work that has begun, and the name of its thread."""
    work = Work()
    pool.run(work)
    return work, work.begun.get(timeout=SECONDS)


def end(pool: WarmPool, work: Work) -> None:
    """End work, and wait until its thread has no work."""
    before = pool.idle
    work.gate.set()
    pause = threading.Event()
    while pool.idle == before:
        pause.wait(0.001)


def test_the_thread_that_has_worked_last_works_next(pool: WarmPool) -> None:
    (first, one), (second, other) = start(pool), start(pool)
    assert one != other
    end(pool, second)
    end(pool, first)
    for _ in range(3):
        work, name = start(pool)
        assert name == one
        end(pool, work)


def test_work_without_a_thread_waits_in_order(pool: WarmPool) -> None:
    busy, done = [start(pool)[0] for _ in range(2)], queue.SimpleQueue[int]()
    for number in range(5):
        pool.run(functools.partial(done.put, number))
    assert (pool.threads, done.qsize()) == (2, 0)
    end(pool, busy[0])
    assert [done.get(timeout=SECONDS) for _ in range(5)] == [0, 1, 2, 3, 4]
    busy[1].gate.set()


def test_a_thread_survives_the_error_of_its_work(
    pool: WarmPool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    pool.run(fail)
    end(pool, start(pool)[0])
    assert pool.drain(SECONDS)  # a second thread may still log
    assert "broken" in caplog.text


def test_an_unused_thread_ends() -> None:
    pool = WarmPool(1, "test", idle_seconds=0.01)
    start(pool)[0].gate.set()
    pause = threading.Event()
    while pool.threads:
        pause.wait(0.001)
    start(pool)[0].gate.set()
    assert pool.drain(SECONDS)


def test_threads_of_a_pool_have_different_names(pool: WarmPool) -> None:
    long = Work()
    pool.run(lambda: pool.step_out(long))
    outside = long.begun.get(timeout=SECONDS)
    others = [start(pool) for _ in range(2)]
    assert len({outside, *(name for _, name in others)}) == 3
    for work in (long, *(work for work, _ in others)):
        work.gate.set()


def test_a_closed_pool_refuses_work_and_forgets_what_waits() -> None:
    pool, done = WarmPool(1, "test"), queue.SimpleQueue[str]()
    work, _ = start(pool)
    pool.run(lambda: done.put("waited"))
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.run(lambda: done.put("late"))
    work.gate.set()
    assert pool.drain(SECONDS)
    assert done.empty()


def test_a_drained_pool_has_done_what_waited() -> None:
    pool, done = WarmPool(1, "test"), queue.SimpleQueue[str]()
    work, _ = start(pool)
    pool.run(lambda: done.put("waited"))
    assert not pool.drain(0)
    work.gate.set()
    assert pool.drain(SECONDS)
    assert done.get(timeout=SECONDS) == "waited"


def test_a_thread_that_steps_out_leaves_its_place_to_work_that_waits() -> None:
    pool, done, long = WarmPool(1, "test"), queue.SimpleQueue[str](), Work()
    pool.run(lambda: pool.step_out(long))
    long.begun.get(timeout=SECONDS)
    pool.run(lambda: done.put("next"))
    assert done.get(timeout=SECONDS) == "next"
    assert pool.drain(SECONDS), "work of another pool is not waited for"
    long.gate.set()


def test_work_that_waits_begins_when_the_thread_before_it_steps_out() -> None:
    pool, done, (long, first) = WarmPool(1, "test"), queue.SimpleQueue[str](), (Work(), Work())

    def step_out() -> None:
        first()
        pool.step_out(long)

    pool.run(step_out)
    first.begun.get(timeout=SECONDS)
    pool.run(lambda: done.put("next"))
    first.gate.set()
    assert done.get(timeout=SECONDS) == "next"
    long.gate.set()
    assert pool.drain(SECONDS)


def test_first_thread_that_the_system_refuses_is_an_error(pool: WarmPool) -> None:
    done = queue.SimpleQueue[int]()
    with no_new_threads(), pytest.raises(RuntimeError, match="thread"):
        pool.run(lambda: done.put(0))
    pool.run(lambda: done.put(1))
    assert done.get(timeout=SECONDS) == 1
    assert pool.drain(SECONDS)
    assert done.empty()


def test_work_that_waited_for_a_refused_thread_begins_first(pool: WarmPool) -> None:
    (busy, _), waited, last = start(pool), Work(), Work()
    with no_new_threads():
        pool.run(waited)
    pool.run(last)
    waited.begun.get(timeout=SECONDS)
    assert last.begun.empty()
    for work in (busy, waited, last):
        work.gate.set()


@pytest.mark.parametrize("late", [False, True])
def test_refused_thread_of_one_that_steps_out_leaves_the_order_and_the_drain_waits(
    late: bool,
) -> None:
    pool, done = WarmPool(1, "test"), queue.SimpleQueue[int]()
    first, long = Work(), Work()

    def step_out() -> None:
        first()
        with no_new_threads():
            pool.step_out(long)

    pool.run(step_out)
    first.begun.get(timeout=SECONDS)
    for number in range(2):
        pool.run(functools.partial(done.put, number))
    first.gate.set()
    long.begun.get(timeout=SECONDS)
    if late:
        pool.run(functools.partial(done.put, 2))
    assert not pool.drain(0.01), "work waits"
    long.gate.set()
    assert pool.drain(SECONDS)
    assert [done.get_nowait() for _ in range(2 + late)] == list(range(2 + late))


def test_thread_survives_the_exit_of_its_work() -> None:
    single, work, done = WarmPool(1, "test"), Work(), queue.SimpleQueue[str]()

    def leave() -> None:
        work()
        raise SystemExit

    single.run(leave)
    single.run(lambda: done.put("next"))
    work.gate.set()
    assert done.get(timeout=SECONDS) == "next"
    assert single.drain(SECONDS)


def test_one_piece_of_work_is_left_to_the_thread_that_asks_for_it() -> None:
    done: list[int] = []
    assert not warm_pool.defer(lambda: done.append(0))
    with warm_pool.deferring() as deferred:
        assert warm_pool.defer(lambda: done.append(1))
        assert not warm_pool.defer(lambda: done.append(2))
    assert not warm_pool.defer(lambda: done.append(3))
    for work in deferred:
        work()
    assert done == [1]
