"""Silent machines, and the nodes of one project, leave workers and threads to others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.endpoints.thread_shares import ThreadShares
from ironic_lite.conductor.work.workers import Holder
from ironic_lite.core import clock
from ironic_lite.drivers import silence
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import stub
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for
from tests.support.statements import count_statements

ON = "power on"


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
        silence.SILENT.note(node, silent=True)
        return node

    yield make
    for one in known:
        silence.SILENT.note(one, silent=False)


def switch(rig: ConductorFixture, node: str) -> None:
    """Ask for power."""
    rig.ask("change_node_power_state", node, target=ON)


def test_silent_machines_have_a_quarter_of_the_workers(
    rig: ConductorFixture, gate: Gate, silent: Callable[[str], str]
) -> None:
    nodes = [silent(rig.node("active")) for _ in range(6)]
    good = rig.node("active")
    gate.spared = {good, nodes[5]}
    for node in nodes[:5]:
        switch(rig, node)
    before = rig.get(nodes[5])
    for method, args in (("change_node_power_state", {"target": ON}), ("do_node_tear_down", {})):
        with pytest.raises(errors.NoFreeWorker, match="did not answer last time"):
            rig.ask(method, nodes[5], **args)
    assert rig.get(nodes[5]) == before
    assert rig.call("change_node_power_state", good, target=ON)["power_state"] == ON
    silence.SILENT.note(nodes[5], silent=False)  # it has answered the power comparison
    assert rig.call("change_node_power_state", nodes[5], target=ON)["power_state"] == ON


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
        rig.ask("do_node_tear_down", nodes[10])
    assert rig.get(nodes[10]) == before
    for node in (other, nobodys):
        assert rig.call("change_node_power_state", node, target=ON)["power_state"] == ON
    gate.opened.set()
    for node in nodes[:10]:
        rig.settled(node)
    assert rig.call("change_node_power_state", nodes[10], target=ON)["power_state"] == ON


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
            assert gate.inside.acquire(timeout=10)
        with pytest.raises(errors.NoFreeWorker, match="2 of 8 threads"):
            endpoints.get_boot_device(rig.who, node_uuid=nodes[2])
        assert "boot_device" in endpoints.get_boot_device(rig.who, node_uuid=good)
        assert endpoints.get_driver_properties(rig.who, driver="fake-hardware")
        gate.opened.set()
        for one in waiting:
            one.result(10)
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
            rig.ask("change_node_power_state", "33333333-3333-4333-8333-333333333333", target=ON)
    rig.call("change_node_power_state", node, target=ON)
    assert wait_for(lambda: rig.service.runtime.workers.busy == 0)
    for _ in range(10):
        rig.service.runtime.workers.claim(holder=Holder(node, "p"))
