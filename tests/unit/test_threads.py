"""Threads and slots: pools, shares, turns, and time limits."""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine.workers import Holder, Shares, Workers
from ironic_lite.core import threads
from ironic_lite.core.slots import Slots
from ironic_lite.core.threads import WarmPool
from ironic_lite.drivers import deadline
from ironic_lite.drivers.deadline import SilentMachines
from ironic_lite.drivers.ipmi import tool
from tests.support.thread_limit import no_new_threads

# Slots go to the caller that comes first; nobody waits in vain for long.


class Callers:
    """Threads that ask for a slot, and write down the order in which they get it."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []

    def come(self, name: str, rank: int, waiting: int, key: str | None = None) -> None:
        """Have a caller ask, and return when ``waiting`` callers wait."""

        def ask() -> None:
            with self.slots.hold(key, seconds=60, rank=(rank,)) as held:
                self.order.append(name if held else f"{name} refused")

        self.threads.append(threading.Thread(target=ask))
        self.threads[-1].start()
        until(lambda: self.slots.waiting == waiting)

    def end(self) -> list[str]:
        for each in self.threads:
            each.join(60)
        return self.order


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_callers_of_the_smallest_rank_go_first() -> None:
    callers = Callers(Slots(1))
    with callers.slots.hold():
        for number, (name, rank) in enumerate([("c", 9), ("a", 0), ("d", 9), ("b", 1)], 1):
            callers.come(name, rank, number)
    assert callers.end() == ["a", "b", "c", "d"]


def test_a_full_queue_refuses_who_goes_last() -> None:
    callers = Callers(Slots(1, waiting=2))
    with callers.slots.hold():
        callers.come("flood", 9, 1)
        callers.come("other", 5, 2)
        callers.come("user", 0, 2)
        until(lambda: callers.order == ["flood refused"])
        assert not callers.slots.take(seconds=60, rank=(9,))
    assert callers.end() == ["flood refused", "user", "other"]


def test_a_key_with_its_share_does_not_hold_up_others() -> None:
    callers = Callers(Slots(2, 1))
    with callers.slots.hold("a"):
        callers.come("flood", 9, 1, "a")
        callers.come("user", 9, 1)
        until(lambda: callers.order == ["user"])
    assert callers.end() == ["user", "flood"]


def test_a_caller_who_waits_for_too_long_is_refused() -> None:
    slots = Slots(1)
    with slots.hold():
        assert not slots.take()
        assert not slots.take(seconds=0.01)
        assert slots.waiting == 0
    assert (slots.held, slots.take()) == (0, True)


def test_sizes_and_keys_are_counted_until_they_are_freed() -> None:
    slots = Slots(10, 4)
    assert slots.take("a", size=4)
    assert not slots.take("a")
    assert slots.take("b", size=2)
    assert slots.take(size=4)
    assert not slots.take()
    slots.free("a", size=4)
    assert (slots.held, slots.held_by("a"), slots.held_by("b")) == (6, 0, 2)


# Shares of worker slots: silent machines have a quarter, a project its percentage.


def held(count: int, name: str, owner: str | None = None) -> list[Holder]:
    """Return so many holders."""
    return [Holder(f"{name}{number}", owner) for number in range(count)]


def shares(percent: int = 50, silent: tuple[str, ...] = ("s", "s0", "s1", "s2", "s3")) -> Shares:
    """Return the shares of 16 slots: 4 for silent machines, 8 for one project by default."""
    return Shares(16, "workers", percent, frozenset(silent))


@pytest.mark.parametrize(
    ("holders", "one", "share"),
    [
        (held(3, "s"), Holder("s"), None),
        (held(4, "s"), Holder("s"), "silent machines"),
        (held(4, "s"), Holder("answers"), None),
        (held(15, "n"), Holder("s"), None),
        (held(7, "n", "p"), Holder("n", "p"), None),
        (held(8, "n", "p"), Holder("n", "p"), "project"),
        (held(8, "n", "p"), Holder("n", "q"), None),
        (held(8, "n", "p"), Holder("n"), None),
        (held(15, "n"), Holder("n"), None),
        (held(2, "s", "p"), Holder("s", "p"), "project"),
        (held(2, "s", "p"), Holder("s", "q"), None),
        (held(2, "s", "p"), Holder("n", "p"), None),
    ],
)
def test_a_holder_is_refused_when_its_share_is_full(
    holders: list[Holder], one: Holder, share: str | None
) -> None:
    refusal = shares().refusal(holders, one)
    assert (refusal and refusal.facts["share"]) == share


def test_a_machine_that_answers_again_leaves_the_share_of_silent_ones() -> None:
    assert shares(silent=("s", "s0", "s1", "s2")).refusal(held(4, "s"), Holder("s")) is None


def test_100_percent_set_no_limit() -> None:
    assert shares(100).refusal(held(15, "n", "p"), Holder("n", "p")) is None


def test_even_the_smallest_share_has_a_slot() -> None:
    least = Shares(3, "workers", 1, frozenset({"s"}))
    assert least.refusal([], Holder("s", "p")) is None


def test_a_refusal_names_the_share_and_no_project() -> None:
    silent = shares().refusal(held(4, "s"), Holder("s"))
    project = shares().refusal(held(8, "n", "secret"), Holder("n", "secret"))
    assert silent is not None
    assert silent.message == (
        "Requested action cannot be performed due to lack of free conductor workers: 4 of 16 "
        "workers are at work for nodes whose machine did not answer last time, their share. "
        "Retry later. Check these machines."
    )
    assert project is not None
    assert "8 of 16 workers are at work for nodes of the project that owns node n" in str(project)
    assert "secret" not in str(project)


def test_slots_are_charged_to_an_owner_once_it_is_known() -> None:
    workers = Workers(4, reserve_percent=0, project_percent=50)
    first, second, third = (Holder(name) for name in "abc")
    for one in (first, second, third):
        workers.claim(holder=one)
    assert workers.asks_for_owner
    charged = workers.charge(first, "p")
    assert workers.charge(second, "p") == Holder("b", "p")
    with pytest.raises(errors.NoFreeWorker):
        workers.charge(third, "p")
    workers.leave(third)
    with pytest.raises(errors.NoFreeWorker):
        workers.claim(holder=Holder("d", "p"))
    workers.leave(charged)
    workers.claim(holder=Holder("d", "p"))
    workers.close()


def test_ended_and_hanging_work_leaves_its_share() -> None:
    workers = Workers(4, reserve_percent=0, project_percent=25)
    one = Holder("a", "p")
    workers.claim(holder=one)
    workers.run(lambda: None, one)
    assert workers.wait_idle(60)
    workers.claim(holder=one)
    opened = threading.Event()
    place = workers.run(lambda: cast(None, opened.wait(30)), one)
    place.free_slot()
    workers.claim(holder=one)
    workers.leave(one)
    assert workers.busy == 0
    opened.set()
    workers.close()


def test_silence_lasts_until_the_next_answer() -> None:
    machines = SilentMachines(most=2)
    machines.note("a", silent=False)
    assert "a" not in machines
    machines.note("a", silent=True)
    machines.note("b", silent=True)
    assert "a" in machines
    machines.note("a", silent=False)
    assert "a" not in machines
    machines.note("c", silent=True)
    machines.note("d", silent=True)
    assert [one in machines for one in "bcd"] == [False, True, True]


def test_a_machine_without_its_time_is_not_called_silent() -> None:
    machines = SilentMachines()
    with deadline.limit(0.3):
        machines.note("a", silent=True)
    assert "a" not in machines
    with deadline.limit(deadline.UNHURRIED), deadline.until(10):
        machines.note("a", silent=True)
    assert "a" in machines


def test_programs_for_silent_bmcs_leave_slots_to_others() -> None:
    slots = tool.program_slots(8)
    assert deadline.silent_share(8) == 2
    with (
        slots.hold("silent") as first,
        slots.hold("silent") as second,
        slots.hold("silent") as third,
        slots.hold() as other,
    ):
        assert (first, second, third, other) == (True, True, False, True)
    with slots.hold("silent") as again:
        assert again


# The pool of threads for RPC calls and for the work of a conductor.

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
    assert not threads.defer(lambda: done.append(0))
    with threads.deferring() as deferred:
        assert threads.defer(lambda: done.append(1))
        assert not threads.defer(lambda: done.append(2))
    assert not threads.defer(lambda: done.append(3))
    for work in deferred:
        work()
    assert done == [1]


# Functions that run in parallel hold up their caller for a limited time.


def test_a_hanging_function_does_not_hold_up_the_others_or_the_caller() -> None:
    go, done = threading.Event(), list[int]()
    acts = [go.wait, *(lambda number=number: done.append(number) for number in range(40))]
    try:
        assert not threads.run_within(acts, 1.0, "test")
    finally:
        go.set()
    assert sorted(done) == list(range(40))


def test_an_error_is_logged_and_the_others_still_run(caplog: pytest.LogCaptureFixture) -> None:
    done = list[int]()
    acts = [lambda: done.append(1), lambda: done[5], lambda: done.append(2)]
    assert not threads.run_within(acts, 60, "test")
    assert sorted(done) == [1, 2]
    assert "A part of the test failed" in caplog.text
    assert threads.run_within(acts[:1], 60, "test")


def test_the_caller_runs_the_functions_if_there_is_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    names = list[str]()
    acts = [lambda: names.append(threading.current_thread().name)] * 2
    assert threads.run_within(acts, 60, "test")
    assert names == [threading.current_thread().name] * 2
