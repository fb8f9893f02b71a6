"""Silent, slow and broken machines leave sweeps, workers and threads to others."""

from __future__ import annotations

import itertools
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent import futures
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.endpoints.interceptors import ThreadShares
from ironic_lite.conductor.engine.runtime import Wakeup
from ironic_lite.conductor.engine.workers import Holder
from ironic_lite.conductor.watch import power_sync, sweep_threads
from ironic_lite.conductor.watch.sweep_threads import Sweep, Sweeps
from ironic_lite.core import clock
from ironic_lite.drivers import deadline
from ironic_lite.drivers.registry import Registry
from ironic_lite.records import Node
from ironic_lite.rpc import stub
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for
from tests.support.statements import count_statements

# Silent, slow and flapping machines do not keep the power comparison of others waiting.

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
    assert bmcs.waiting.acquire(timeout=60)
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
    assert bmcs.waiting.acquire(timeout=60)
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
    assert bmcs.waiting.acquire(timeout=60)
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
    deadline.SILENT.note(silent, silent=True)
    bmcs.silent = {silent}
    bmcs.wake.clear()
    few.service.power.sweep()
    assert bmcs.hurried == []
    wait_for(lambda: resets(few, good) == 1)
    deadline.SILENT.note(silent, silent=False)


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
    assert bmcs.waiting.acquire(timeout=60)
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
    assert bmcs.waiting.acquire(timeout=60)
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
    assert bmcs.waiting.acquire(timeout=60)
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
            limited[name].append(deadline.is_limited())
        if name == "set_power_state":
            switching.release()
            assert done.wait(30)
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    rig = build(registry=registry, conductor__sync_power_state_workers=1)
    nodes = [machine(rig) for _ in range(3)]
    rig.service.power.sweep()
    assert switching.acquire(timeout=60)
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
    monkeypatch.setattr(sweep_threads, "time", SimpleNamespace(monotonic=lambda: now[0]))

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
    sweep_threads.run_all(nodes, lambda _node: wait(together), most=5, halted=threading.Event())


def test_failures_are_remembered_however_long_a_lane_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(sweep_threads, "time", SimpleNamespace(monotonic=lambda: now[0]))
    records = sweep_threads.Records(3)
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
    monkeypatch.setattr(sweep_threads, "threading", rare(2))
    asked: list[str] = []
    queue = iter([Node({"uuid": str(n)}) for n in range(9)])
    sweep_threads.run_all(
        queue, lambda node: asked.append(node.uuid), most=5, halted=threading.Event()
    )
    assert len(asked) == 9


def test_a_lane_that_got_no_thread_gets_one_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    lane = sweep_threads.BackgroundQueue(
        lambda node: asked.append(node.uuid), most=1, halted=threading.Event()
    )
    node = Node({"uuid": "1"})
    with monkeypatch.context() as patched:
        patched.setattr(sweep_threads, "threading", rare(0))
        with pytest.raises(RuntimeError):
            lane.put(node)
    assert lane.wait_idle(0)
    lane.put(node)
    assert lane.wait_idle(60)
    assert asked == ["1"]


def test_a_lane_outlives_what_it_does() -> None:
    asked: list[str] = []

    def act(node: Node) -> None:
        asked.append(node.uuid)
        raise ZeroDivisionError("a bug")

    lane = sweep_threads.BackgroundQueue(act, most=1, halted=threading.Event())
    for uuid in ("1", "2"):
        lane.put(Node({"uuid": uuid}))
        assert lane.wait_idle(60)
    assert asked == ["1", "2"]


def wait(barrier: threading.Barrier) -> None:
    """Wait for the others; fail loudly if they never come."""
    barrier.wait(30)


def test_records_exist_only_for_machines_in_trouble() -> None:
    records = sweep_threads.Records(2)
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
        sweep_threads.run_all(
            broken(), lambda node: asked.append(node.uuid), most=3, halted=threading.Event()
        )
    assert asked == ["1"]


# Threads of the power comparison outlive whatever a driver raises, and so do the sweeps.


def node(name: str) -> Node:
    """Return what lanes need of a node: they ask for its name only."""
    return cast(Node, types.SimpleNamespace(uuid=name))


def test_a_lane_goes_on_after_an_exit() -> None:
    asked: list[str] = []

    def act(node: Node) -> None:
        asked.append(node.uuid)
        raise SystemExit

    lane = sweep_threads.BackgroundQueue(act, most=1, halted=threading.Event())
    for name in ("a", "b"):
        lane.put(node(name))
        assert lane.wait_idle(60)
    assert asked == ["a", "b"]


def test_a_queue_is_worked_through_after_an_exit() -> None:
    asked: list[str] = []

    def act(node: Node) -> None:
        asked.append(node.uuid)
        raise SystemExit

    queue = iter([node(name) for name in "abc"])
    sweep_threads.run_all(queue, act, most=1, halted=threading.Event())
    assert asked == ["a", "b", "c"]


def test_a_sweep_runs_again_after_an_exit() -> None:
    halted, times = threading.Event(), iter(range(3))

    def act() -> None:
        if next(times) == 2:
            halted.set()
        raise SystemExit

    Sweeps(halted, [Sweep("test", 0.001, act)]).start()
    assert halted.wait(60)


def test_a_sweep_that_is_signalled_all_the_time_rests_four_times_as_long_as_it_runs() -> None:
    halted, wakeup = threading.Event(), Wakeup()
    wakeup.armed = True
    spans: list[tuple[float, float]] = []

    def act() -> None:
        began = time.monotonic()
        time.sleep(0.3)
        wakeup.signal()
        spans.append((began, time.monotonic()))
        if len(spans) == 3:
            halted.set()

    wakeup.signal()
    Sweeps(halted, [Sweep("a slow one", 3600, act, wakeup)]).start()
    assert halted.wait(60)
    wait_for(lambda: len(spans) == 3)
    for (began, ended), (following, _) in itertools.pairwise(spans):
        assert following - ended >= 4 * (ended - began) - 0.01


# A driver that hangs while a sweep asks it holds up nobody else.


class Asked:
    """Nodes that were asked; those in ``hangs`` keep their thread until ``opened``."""

    def __init__(self, *hangs: str) -> None:
        self.hangs = hangs
        self.names: list[str] = []
        self.opened = threading.Event()

    def __call__(self, node: Node) -> None:
        self.names.append(node.uuid)
        if node.uuid in self.hangs:
            self.opened.wait(60)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr(sweep_threads, "HANG_SECONDS", 0.2)
    found = Asked("a", "b")
    yield found
    found.opened.set()


def nodes(names: str) -> list[Node]:
    return [Node({"uuid": name}) for name in names]


def test_a_sweep_leaves_threads_behind_that_hang(asked: Asked) -> None:
    hanging: set[str] = set()
    halted = threading.Event()
    for _ in range(2):
        sweep_threads.run_all(iter(nodes("abcde")), asked, most=2, halted=halted, hanging=hanging)
    assert sorted(asked.names) == ["a", "b", *"ccddee"]
    assert hanging == {"a", "b"}
    asked.opened.set()
    wait_for(lambda: not hanging)
    sweep_threads.run_all(iter(nodes("a")), asked, most=2, halted=halted, hanging=hanging)
    assert asked.names[-1] == "a"


def test_a_lane_replaces_threads_that_hang(asked: Asked) -> None:
    lane = sweep_threads.BackgroundQueue(asked, most=2, halted=threading.Event())
    for node in nodes("ab"):
        lane.put(node)
    wait_for(lambda: len(asked.names) == 2)
    threading.Event().wait(sweep_threads.HANG_SECONDS)
    for node in nodes("abc"):
        lane.put(node)
    wait_for(lambda: asked.names[2:] == ["c"])


# Silent machines, and the nodes of one project, leave workers and threads to others.

SWITCHED_ON = "power on"


class Gate:
    """Drivers whose calls ``names`` wait until the gate is opened."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.opened = threading.Event()
        self.inside = threading.Semaphore(0)
        self.spared: set[str] = set()
        """Nodes that do not wait."""

    def around(self, _kind: str, name: str, call: Any) -> Any:
        """Stand between a conductor and its drivers."""
        if name in self.names and call.args[0].node.uuid not in self.spared:
            self.inside.release()
            assert self.opened.wait(30)
        return call()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate for power changes and questions for the boot device."""
    made = Gate("set_power_state", "get_boot_device")
    yield made
    made.opened.set()


@pytest.fixture
def rig(build: Callable[..., ConductorFixture], gate: Gate) -> ConductorFixture:
    """A conductor with 20 workers, of which 5 are for silent machines and 10 for one project."""
    made = crashes.Drivers(drivers(), gate.around, more=("get_boot_device",))
    return build(registry=cast(Registry, made))


@pytest.fixture
def silent() -> Iterator[Callable[[str], str]]:
    """A function that makes a node one whose machine did not answer last time."""
    known = []

    def make(node: str) -> str:
        known.append(node)
        deadline.SILENT.note(node, silent=True)
        return node

    yield make
    for one in known:
        deadline.SILENT.note(one, silent=False)


def switch(rig: ConductorFixture, node: str) -> None:
    """Ask for power."""
    rig.ask("change_node_power_state", node, target=SWITCHED_ON)


def test_silent_machines_have_a_quarter_of_the_workers(
    rig: ConductorFixture, gate: Gate, silent: Callable[[str], str]
) -> None:
    nodes = [silent(rig.node("active")) for _ in range(6)]
    good = rig.node("active")
    gate.spared = {good, nodes[5]}
    for node in nodes[:5]:
        switch(rig, node)
    before = rig.get(nodes[5])
    for method, args in (("change_node_power_state", {"target": SWITCHED_ON}), ("delete", {})):
        with pytest.raises(errors.NoFreeWorker, match="did not answer last time"):
            rig.ask(method, nodes[5], **args)
    assert rig.get(nodes[5]) == before
    assert (
        rig.call("change_node_power_state", good, target=SWITCHED_ON)["power_state"] == SWITCHED_ON
    )
    deadline.SILENT.note(nodes[5], silent=False)  # it has answered the power comparison
    assert (
        rig.call("change_node_power_state", nodes[5], target=SWITCHED_ON)["power_state"]
        == SWITCHED_ON
    )


def test_one_project_leaves_workers_to_others(rig: ConductorFixture, gate: Gate) -> None:
    nodes = [rig.node("active", owner="p") for _ in range(11)]
    other, nobodys = rig.node("active", owner="q"), rig.node("active")
    gate.spared = {other, nobodys}
    for node in nodes[:10]:
        switch(rig, node)
    before = rig.get(nodes[10])
    full = pytest.raises(errors.NoFreeWorker, match="workers_project_percentage")
    with count_statements(rig.database) as sent, full:
        switch(rig, nodes[10])
    assert [line.split()[0] for line in sent if "nodes" in line] == ["SELECT"]  # and no lock
    with pytest.raises(errors.NoFreeWorker, match="project that owns"):
        rig.ask("delete", nodes[10])
    assert rig.get(nodes[10]) == before
    for node in (other, nobodys):
        assert (
            rig.call("change_node_power_state", node, target=SWITCHED_ON)["power_state"]
            == SWITCHED_ON
        )
    gate.opened.set()
    for node in nodes[:10]:
        rig.settled(node)
    assert (
        rig.call("change_node_power_state", nodes[10], target=SWITCHED_ON)["power_state"]
        == SWITCHED_ON
    )


def test_nodes_without_owner_may_take_all_workers(rig: ConductorFixture, gate: Gate) -> None:
    for _ in range(20):
        switch(rig, rig.node("active"))
    with pytest.raises(errors.NoFreeWorker):
        switch(rig, rig.node("active"))
    assert rig.service.runtime.workers.busy == 20


def fill(rig: ConductorFixture, silent: Callable[[str], str]) -> list[Holder]:
    """Take all workers that silent machines may have."""
    holders = [Holder(silent(f"another-{number}")) for number in range(5)]
    for one in holders:
        rig.service.runtime.workers.claim(holder=one)
    return holders


def test_silent_orphans_do_not_hold_others_back(
    rig: ConductorFixture, silent: Callable[[str], str]
) -> None:
    first, second = silent(rig.node("cleaning")), rig.node("cleaning")
    holders = fill(rig, silent)
    rig.service.orphans.sweep()
    assert rig.settled(second)["provision_state"] != "cleaning"
    assert rig.get(first)["provision_state"] == "cleaning"
    for one in holders:
        rig.service.runtime.workers.leave(one)
    rig.service.orphans.sweep()
    assert rig.settled(first)["provision_state"] != "cleaning"


def test_silent_nodes_do_not_hold_back_the_time_outs_of_others(
    build: Callable[..., ConductorFixture], silent: Callable[[str], str]
) -> None:
    rig = build(conductor__clean_callback_timeout=60, conductor__periodic_max_workers=2)
    since = clock.ago(3600)
    for _ in range(3):
        silent(rig.node("clean wait", provision_updated_at=since))
    later = rig.node("clean wait", provision_updated_at=clock.ago(1800))
    holders = fill(rig, silent)
    rig.service.sweeps.plan["time-outs"].act()
    assert rig.reaches(later, "clean failed")
    for one in holders:
        rig.service.runtime.workers.leave(one)


def test_calls_to_silent_machines_leave_threads_to_others(
    rig: ConductorFixture, gate: Gate, silent: Callable[[str], str]
) -> None:
    shares = ThreadShares(50)
    shares.limit(8)
    endpoints = stub.connect(stub.to(rig.endpoints), shares)
    nodes, good = [silent(rig.node("active")) for _ in range(3)], rig.node("active")
    gate.spared = {good}
    with futures.ThreadPoolExecutor(3) as pool:
        waiting = [
            pool.submit(endpoints.get_boot_device, rig.who, node_uuid=node) for node in nodes[:2]
        ]
        for _ in waiting:
            assert gate.inside.acquire(timeout=60)
        with pytest.raises(errors.NoFreeWorker, match="2 of 8 threads"):
            endpoints.get_boot_device(rig.who, node_uuid=nodes[2])
        assert "boot_device" in endpoints.get_boot_device(rig.who, node_uuid=good)
        assert endpoints.get_driver_properties(rig.who, driver="fake-hardware")
        gate.opened.set()
        for one in waiting:
            one.result(60)
    assert "boot_device" in endpoints.get_boot_device(rig.who, node_uuid=nodes[2])


def test_a_slot_is_not_lost_by_a_refusal(
    rig: ConductorFixture, gate: Gate, silent: Callable[[str], str]
) -> None:
    gate.opened.set()
    node = rig.node("active", owner="p")
    for _ in range(3):
        with pytest.raises(errors.InvalidParameter):
            rig.ask("change_node_power_state", node, target="sideways")
        with pytest.raises(errors.NodeNotFound):
            rig.ask(
                "change_node_power_state",
                "33333333-3333-4333-8333-333333333333",
                target=SWITCHED_ON,
            )
    rig.call("change_node_power_state", node, target=SWITCHED_ON)
    assert wait_for(lambda: rig.service.runtime.workers.busy == 0)
    for _ in range(10):
        rig.service.runtime.workers.claim(holder=Holder(node, "p"))
