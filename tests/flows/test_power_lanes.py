"""Silent, slow and flapping machines do not keep the power comparison of others waiting."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import node_queue, power_sync
from ironic_lite.drivers import deadline, silence
from ironic_lite.drivers.registry import Registry
from ironic_lite.records import Node
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for

ON, OFF = "power on", "power off"


class Clock(threading.local):
    """A clock for each thread: the time that a BMC wastes passes at once."""

    wasted = 0.0  # seconds, of each thread

    def monotonic(self) -> float:
        """Stand for the clock."""
        return time.monotonic() + self.wasted


class Bmcs:
    """The BMCs of some nodes: some are silent or slow, and any may hold whoever has time."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.silent: set[str] = set()
        self.slow: set[str] = set()
        self.late: set[str] = set()  # answer who has more time than a hurried one
        self.refusing: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.hurried: list[float] = []
        """Seconds that silent machines had in the queue of trusted ones."""
        self.waiting = threading.Semaphore(0)
        self.wake = threading.Event()
        self.wake.set()

    def around(self, _kind: str, name: str, call: Any) -> Any:
        """Stand between a conductor and its drivers."""
        if name != "get_power_state":
            return call()
        node = call.args[0].node.uuid
        self.asked[node] += 1
        if node in self.slow:
            self.clock.wasted += 3.0
        if node in self.late and deadline.within(60.0) <= power_sync.QUICK:
            self.clock.wasted += power_sync.QUICK
            raise errors.BmcUnreachable(address="192.0.2.1", reason="late")
        if node in self.refusing:
            raise errors.BmcUnreachable(address="192.0.2.1", reason="connection refused")
        if node in self.silent:
            self.clock.wasted += deadline.within(60.0)
            if deadline.within(60.0) <= power_sync.QUICK:
                self.hurried.append(deadline.within(60.0))
            else:
                self.waiting.release()
                assert self.wake.wait(30)
            raise errors.BmcUnreachable(address="192.0.2.1", reason="silent")
        return call()


@pytest.fixture
def bmcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bmcs]:
    made = Bmcs()
    monkeypatch.setattr(power_sync, "time", made.clock)
    yield made
    made.wake.set()


@pytest.fixture
def few(build: Callable[..., ConductorFixture], bmcs: Bmcs) -> ConductorFixture:
    """A conductor that asks two machines at a time, and one that is doubtful beside them."""
    registry = cast(Registry, crashes.Drivers(drivers(), bmcs.around))
    return build(registry=registry, conductor__sync_power_state_workers=2)


def machine(rig: ConductorFixture) -> str:
    """Add a node that is recorded as on, and off: a comparison shows in its power state."""
    notes = {"driver_notes": {"fake_power_state": OFF}}
    return rig.node("active", power_state=ON, driver_internal_info=notes)


def resets(rig: ConductorFixture, node: str) -> int:
    """Return how often the machine was compared and put right."""
    return [one["event"] for one in rig.events(node, "power")].count("reset")


def test_silent_machines_hold_no_thread_of_the_others(few: ConductorFixture, bmcs: Bmcs) -> None:
    nodes = [machine(few) for _ in range(12)]
    bmcs.silent = set(nodes[::3])
    bmcs.wake.clear()  # whoever gives a silent machine its time, waits until the test's end
    few.service.power.sweep()
    assert bmcs.waiting.acquire(timeout=10)
    well = [node for node in nodes if node not in bmcs.silent]
    wait_for(lambda: [resets(few, node) for node in well] == [1] * len(well))
    before = bmcs.asked.copy()
    few.service.power.sweep()
    assert {node for node in nodes if bmcs.asked[node] > before[node]} == set(well)
    assert not few.service.power.settle(0)


def test_a_machine_that_was_hurried_is_given_its_time_before_a_failure_counts(
    few: ConductorFixture, bmcs: Bmcs
) -> None:
    few.service.runtime.conf.set_override("power_state_sync_max_retries", 0, "conductor")
    hurried, refusing = machine(few), machine(few)
    bmcs.silent, bmcs.refusing = {hurried}, {refusing}
    bmcs.wake.clear()
    few.service.power.sweep()
    assert bmcs.waiting.acquire(timeout=10)
    assert few.get(refusing)["maintenance"]
    assert not few.get(hurried)["maintenance"]
    bmcs.wake.set()
    assert few.service.power.settle(10)
    assert few.get(hurried)["fault"] == "power failure"
    assert bmcs.asked == {hurried: 2, refusing: 1}


def test_a_silent_machine_fails_once_in_a_sweep(few: ConductorFixture, bmcs: Bmcs) -> None:
    few.service.runtime.conf.set_override("power_state_sync_max_retries", 1, "conductor")
    node = machine(few)
    bmcs.silent = {node}
    for asked, fault in ((2, None), (3, "power failure")):
        few.service.power.sweep()
        assert few.service.power.settle(10)
        assert (bmcs.asked[node], few.get(node)["fault"]) == (asked, fault)


def test_a_slow_machine_is_compared_in_its_own_lane_until_it_is_quick_again(
    few: ConductorFixture, bmcs: Bmcs
) -> None:
    slow = machine(few)
    few.service.power.sweep()
    assert few.service.power.settle(10)
    bmcs.slow = {slow}
    assert lanes_of(few, bmcs, slow) == ["quick", "doubtful", "doubtful"]
    assert few.get(slow)["power_state"] == ON
    assert not few.get(slow)["maintenance"]
    bmcs.slow.clear()
    assert lanes_of(few, bmcs, slow, 4) == ["doubtful"] * power_sync.CALM + ["quick"]


def lanes_of(rig: ConductorFixture, bmcs: Bmcs, node: str, rounds: int = 3) -> list[str]:
    """Return, for each of some sweeps, which lane asked a node."""
    power, found = rig.service.power, []
    for _ in range(rounds):
        doubtful = power.records.doubtful(node)
        before = bmcs.asked[node]
        power.sweep()
        assert power.settle(10)
        assert bmcs.asked[node] == before + 1
        found.append("doubtful" if doubtful else "quick")
    return found


def test_a_flapping_machine_stays_doubtful_and_out_of_maintenance(
    few: ConductorFixture, bmcs: Bmcs
) -> None:
    few.service.runtime.conf.set_override("power_state_sync_max_retries", 1, "conductor")
    node = machine(few)
    for told in ({node}, set(), {node}, set()):
        bmcs.refusing = set(told)
        few.service.power.sweep()
        assert few.service.power.settle(10)
        assert few.service.power.records.doubtful(node)
    assert not few.get(node)["maintenance"]
    bmcs.refusing = {node}
    for _ in range(2):
        few.service.power.sweep()
        assert few.service.power.settle(10)
    assert few.get(node)["fault"] == "power failure"
    bmcs.refusing = set()
    few.service.power.recover()
    assert not few.get(node)["maintenance"]
    assert few.service.power.records.doubtful(node)


def test_a_flapping_machine_that_answers_does_not_wait_for_silent_ones(
    few: ConductorFixture, bmcs: Bmcs
) -> None:
    flapping, silent = machine(few), machine(few)
    bmcs.refusing = {flapping}
    few.service.power.sweep()
    bmcs.refusing = set()
    few.service.power.sweep()  # it answers, and stays doubtful
    assert few.service.power.settle(10)
    assert few.service.power.records.doubtful(flapping)
    bmcs.silent = {silent}
    bmcs.wake.clear()
    few.service.power.sweep()
    assert bmcs.waiting.acquire(timeout=10)
    before = bmcs.asked[flapping]
    few.service.power.sweep()
    wait_for(lambda: bmcs.asked[flapping] > before)


def test_many_that_fall_silent_at_once_take_half_the_interval(
    few: ConductorFixture, bmcs: Bmcs
) -> None:
    few.service.runtime.conf.set_override("sync_power_state_interval", 10, "conductor")
    nodes = [machine(few) for _ in range(40)]
    bmcs.silent = set(nodes[:-1])
    bmcs.wake.clear()
    few.service.power.sweep()
    assert len(bmcs.hurried) == 39
    # Two threads have five seconds each, and each may have begun a longer wait before.
    most = 2 * 5 + 2 * power_sync.QUICK + 39 * power_sync.HASTY
    assert sum(bmcs.hurried) <= most
    wait_for(lambda: resets(few, nodes[-1]) == 1)


def test_a_machine_that_was_silent_to_a_verb_is_asked_beside_the_others(
    few: ConductorFixture, bmcs: Bmcs
) -> None:
    silent, good = machine(few), machine(few)
    silence.SILENT.note(silent, silent=True)
    bmcs.silent = {silent}
    bmcs.wake.clear()
    few.service.power.sweep()
    assert bmcs.hurried == []
    wait_for(lambda: resets(few, good) == 1)
    silence.SILENT.note(silent, silent=False)


def lost(rig: ConductorFixture) -> str:
    """Add a node whose power could not be read for long."""
    why = {"maintenance_reason": "cable cut", "last_error": "cable cut"}
    return rig.node("active", maintenance=True, fault="power failure", **why)


def test_a_machine_that_is_back_does_not_wait_for_silent_ones(
    few: ConductorFixture, bmcs: Bmcs
) -> None:
    silent, back = [lost(few) for _ in range(4)], lost(few)
    bmcs.silent = set(silent)
    bmcs.wake.clear()
    few.service.power.recover()
    assert bmcs.waiting.acquire(timeout=10)
    assert not few.get(back)["maintenance"]
    assert all(few.get(node)["maintenance"] for node in silent)
    held = next(node for node in silent if bmcs.asked[node] == 2)
    later = [node for node in silent if node != held]
    few.edit(later[0], maintenance=False, fault=None)  # an operator was quicker
    few.ask("destroy_node", later[1])
    bmcs.silent = {held}
    bmcs.wake.set()
    assert few.service.power.settle(10)
    assert [bmcs.asked[node] for node in later] == [1, 1, 2]
    assert few.get(held)["maintenance"]
    assert not few.get(later[2])["maintenance"]


def test_a_lost_machine_that_is_slow_is_given_its_time(few: ConductorFixture, bmcs: Bmcs) -> None:
    node = lost(few)
    bmcs.late = {node}
    few.service.power.recover()
    assert few.service.power.settle(10)
    assert (few.get(node)["maintenance"], bmcs.asked[node]) == (False, 2)


def test_a_node_that_was_put_into_maintenance_meanwhile_is_not_judged(
    few: ConductorFixture, bmcs: Bmcs
) -> None:
    first, second = machine(few), machine(few)
    bmcs.silent = {first, second}
    bmcs.wake.clear()
    few.service.power.sweep()
    assert bmcs.waiting.acquire(timeout=10)
    later = next(node for node in (first, second) if bmcs.asked[node] == 1)
    few.edit(later, maintenance=True)
    bmcs.wake.set()
    assert few.service.power.settle(10)
    assert bmcs.asked[later] == 1


def test_a_stopping_service_asks_no_more(few: ConductorFixture, bmcs: Bmcs) -> None:
    nodes = [machine(few) for _ in range(3)]
    bmcs.silent = set(nodes)
    bmcs.wake.clear()
    few.service.power.sweep()
    assert bmcs.waiting.acquire(timeout=10)
    few.service.runtime.draining.set()
    bmcs.wake.set()
    assert few.service.power.settle(10)
    assert sorted(bmcs.asked.values()) == [1, 1, 2]


def test_a_machine_that_is_long_in_switching_holds_no_thread_of_the_others(
    build: Callable[..., ConductorFixture],
) -> None:
    switching, done = threading.Semaphore(0), threading.Event()
    limited: dict[str, list[bool]] = {"set_power_state": [], "get_power_state": []}

    def around(_kind: str, name: str, call: Any) -> Any:
        if name in limited:
            limited[name].append(deadline.limited())
        if name == "set_power_state":
            switching.release()
            assert done.wait(30)
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    rig = build(registry=registry, conductor__sync_power_state_workers=1)
    nodes = [machine(rig) for _ in range(3)]
    rig.service.power.sweep()
    assert switching.acquire(timeout=10)
    done.set()
    assert rig.service.power.settle(10)
    assert [resets(rig, node) for node in nodes] == [1, 1, 1]
    # To be switched is no matter of two seconds; to be read again must not keep the lock for long.
    assert limited["set_power_state"] == [False] * 3
    assert limited["get_power_state"] == [True] * 6


def test_a_sweep_is_spread_over_a_share_of_its_interval(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = build(conductor__sync_power_state_workers=1)
    for _ in range(5):
        machine(rig)
    rig.service.power.sweep()
    assert rig.service.power.settle(10)
    rig.service.runtime.conf.set_override("sync_power_state_interval", 100, "conductor")
    begun: list[float] = []
    now = [0.0]
    monkeypatch.setattr(node_queue, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def wait(seconds: float) -> bool:
        now[0] += seconds
        begun.append(now[0])
        return False

    monkeypatch.setattr(rig.service.runtime.draining, "wait", wait)
    rig.service.power.sweep()
    assert [int(at // 4) for at in begun] == [0, 1, 2, 3, 4]  # 20 s, a share of 4 s for each


def test_threads_begin_as_long_as_there_is_somebody_to_ask() -> None:
    together = threading.Barrier(3)
    nodes = iter([Node({"uuid": str(n)}) for n in range(3)])
    node_queue.go_through(nodes, lambda _node: wait(together), most=5, halted=threading.Event())


def test_failures_are_remembered_however_long_a_lane_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(node_queue, "time", SimpleNamespace(monotonic=lambda: now[0]))
    records = node_queue.Records(3)
    for count in (1, 2, 3):
        assert records.doubtful("ill") is (count > 1)  # a sweep puts it into the lane, and ends
        records.forget(3600)
        assert records.failed("ill") == count
        now[0] += 10_000
    records.forget(3600)
    assert len(records) == 0


def rare(threads: int) -> SimpleNamespace:
    """Stand for the module threading on a system that gives so many threads."""
    left = iter(range(threads))

    class Thread(threading.Thread):
        def start(self) -> None:
            if next(left, None) is None:
                raise RuntimeError("can't start new thread")
            super().start()

    names = ("Lock", "Condition", "Event", "current_thread")
    kept = {name: getattr(threading, name) for name in names}
    return SimpleNamespace(Thread=Thread, **kept)


def test_fewer_threads_than_wanted_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_queue, "threading", rare(2))
    asked: list[str] = []
    queue = iter([Node({"uuid": str(n)}) for n in range(9)])
    node_queue.go_through(
        queue, lambda node: asked.append(node.uuid), most=5, halted=threading.Event()
    )
    assert len(asked) == 9


def test_a_lane_that_got_no_thread_gets_one_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    lane = node_queue.BackgroundQueue(
        lambda node: asked.append(node.uuid), most=1, halted=threading.Event()
    )
    node = Node({"uuid": "1"})
    with monkeypatch.context() as patched:
        patched.setattr(node_queue, "threading", rare(0))
        with pytest.raises(RuntimeError):
            lane.put(node)
    assert lane.wait_idle(0)
    lane.put(node)
    assert lane.wait_idle(10)
    assert asked == ["1"]


def test_a_lane_outlives_what_it_does() -> None:
    asked: list[str] = []

    def act(node: Node) -> None:
        asked.append(node.uuid)
        raise ZeroDivisionError("a bug")

    lane = node_queue.BackgroundQueue(act, most=1, halted=threading.Event())
    for uuid in ("1", "2"):
        lane.put(Node({"uuid": uuid}))
        assert lane.wait_idle(10)
    assert asked == ["1", "2"]


def wait(barrier: threading.Barrier) -> None:
    """Wait for the others; fail loudly if they never come."""
    barrier.wait(30)


def test_records_exist_only_for_machines_in_trouble() -> None:
    records = node_queue.Records(2)
    records.answered("well", quick=True)
    assert len(records) == 0
    assert [records.failed("ill"), records.failed("ill")] == [1, 2]
    records.answered("ill", quick=True)
    assert records.doubtful("ill")
    records.answered("ill", quick=True)
    assert len(records) == 0
    records.hurried("gone")
    records.forget(3600)
    assert records.doubtful("gone")
    records.forget(-1)
    assert not records.doubtful("gone")


def test_a_queue_that_breaks_off_is_the_business_of_who_asked_for_it() -> None:
    def broken() -> Iterator[Node]:
        yield Node({"uuid": "1"})
        raise errors.Unavailable("The database does not answer.")

    asked: list[str] = []
    with pytest.raises(errors.Unavailable):
        node_queue.go_through(
            broken(), lambda node: asked.append(node.uuid), most=3, halted=threading.Event()
        )
    assert asked == ["1"]
