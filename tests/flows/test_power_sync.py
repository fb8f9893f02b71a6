"""The power comparison: which nodes, which side wins, and what a silent machine comes to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import own_nodes
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, sweeps
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers
from tests.support.statements import count_statements

ON, OFF = "power on", "power off"


def machine(
    rig: ConductorFixture, recorded: str | None, real: str, state: str = "active", **more: Any
) -> str:
    """Add a node whose database and machine may differ."""
    notes = {"driver_notes": {"fake_power_state": real}}
    return rig.node(state, power_state=recorded, driver_internal_info=notes, **more)


def act(rig: ConductorFixture, name: str = "power sync") -> None:
    """Run one sweep of the conductor's plan once, with what it leaves to the doubtful lane."""
    rig.sweep(name)
    assert rig.service.power.settle(10)


def real(rig: ConductorFixture, node: str) -> str:
    """Return what the machine is."""
    found: str = rig.get(node)["driver_internal_info"]["driver_notes"]["fake_power_state"]
    return found


def test_a_machine_is_brought_back_to_what_the_database_says(rig: ConductorFixture) -> None:
    node = machine(rig, ON, OFF)
    act(rig)
    assert (rig.get(node)["power_state"], real(rig, node)) == (ON, ON)
    assert [event["event"] for event in rig.events(node, "power")] == ["start", "reset"]
    assert rig.get(node)["reservation"] is None


def test_a_machine_that_cannot_be_brought_back_is_told_of_in_history(
    build: Callable[..., ConductorFixture],
) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "set_power_state":
            raise ZeroDivisionError("a bug")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = machine(rig, ON, OFF)
    act(rig)
    start, fail = rig.events(node, "power")
    assert (start["event"], start["before"], start["after"]) == ("start", OFF, ON)
    assert fail["event"] == "fail"
    assert "set power back to 'power on': Unexpected ZeroDivisionError" in fail["data"]["error"]
    assert (rig.get(node)["power_state"], rig.get(node)["last_error"]) == (ON, None)


def test_the_database_follows_if_so_configured(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__force_power_state_during_sync=False)
    node = machine(rig, ON, OFF)
    act(rig)
    assert (rig.get(node)["power_state"], real(rig, node)) == (OFF, OFF)


def test_an_unknown_power_state_is_learned(rig: ConductorFixture) -> None:
    node = machine(rig, None, ON)
    act(rig)
    assert (rig.get(node)["power_state"], real(rig, node)) == (ON, ON)


def test_a_machine_that_must_stay_on_is_not_switched_off(rig: ConductorFixture) -> None:
    node = machine(rig, OFF, ON, disable_power_off=True)
    act(rig)
    assert (rig.get(node)["power_state"], real(rig, node)) == (ON, ON)


@pytest.mark.parametrize(("recorded", "now"), [(OFF, ON), (ON, OFF)])
@pytest.mark.parametrize(("interface", "spared"), [("firmware", True), ("bios", False)])
def test_machine_whose_firmware_step_failed_is_not_switched(
    rig: ConductorFixture, recorded: str, now: str, interface: str, spared: bool
) -> None:
    """Its BMC may have switched it, and may still write."""
    step = {"interface": interface, "step": "update", "args": {}, "priority": 150}
    node = machine(rig, recorded, now, "deploy failed", deploy_step=step)
    act(rig)
    kept = now if spared else recorded
    assert (rig.get(node)["power_state"], real(rig, node)) == (kept, kept)


def test_a_machine_that_will_not_stay_as_it_is_set_wins_after_some_tries(
    build: Callable[..., ConductorFixture],
) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return None if name == "set_power_state" else call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    rig = build(registry=registry, conductor__power_state_sync_max_retries=2)
    node = machine(rig, ON, OFF)
    for _ in range(2):
        act(rig)
        assert rig.get(node)["power_state"] == ON
    act(rig)
    assert rig.get(node)["power_state"] == OFF
    assert not rig.get(node)["maintenance"]


@pytest.mark.parametrize(
    "spared",
    [
        {"state": "enroll"},
        {"state": "clean wait"},
        {"state": "wait call-back"},
        {"state": "adopt failed"},
        {"maintenance": True},
        {"retired": True},
        {"conductor_group": "elsewhere"},
    ],
    ids=str,
)
def test_some_nodes_are_left_alone(rig: ConductorFixture, spared: dict[str, Any]) -> None:
    node = machine(rig, ON, OFF, **spared)
    before = rig.get(node)
    act(rig)
    assert rig.get(node) == before


def test_a_silent_machine_goes_into_maintenance_and_comes_back_by_itself(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__power_state_sync_max_retries=2)
    node = rig.node("active", power_state=ON, fake_fail_power="cable cut")
    for _ in range(2):
        act(rig)
        assert not rig.get(node)["maintenance"]
    act(rig)
    row = rig.get(node)
    assert (row["maintenance"], row["fault"], row["power_state"]) == (True, "power failure", None)
    assert "cable cut" in row["last_error"]
    assert row["maintenance_reason"] == row["last_error"]
    act(rig, "power recovery")
    assert rig.get(node)["maintenance"]
    rig.edit(node, driver_info={})
    act(rig, "power recovery")
    row = rig.get(node)
    assert (row["maintenance"], row["maintenance_reason"], row["fault"]) == (False, None, None)
    assert (row["power_state"], row["last_error"]) == (OFF, None)
    assert [event["event"] for event in rig.events(node, "fault")] == [
        "power failure",
        "recovered",
    ]


def test_machine_that_was_not_asked_has_not_failed(build: Callable[..., ConductorFixture]) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "get_power_state":
            raise errors.BmcUnreachable(address="bmc", reason="crowded", asked=False)
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    rig = build(registry=registry, conductor__power_state_sync_max_retries=1)
    node = machine(rig, ON, ON)
    for _ in range(4):
        act(rig)
    assert not rig.get(node)["maintenance"]


def test_failures_count_only_in_a_row(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__power_state_sync_max_retries=1)
    node = rig.node("active", power_state=OFF)
    for told in ({"fake_fail_power": "x"}, {}, {"fake_fail_power": "x"}):
        rig.edit(node, driver_info=told)
        act(rig)
    assert not rig.get(node)["maintenance"]


def test_maintenance_of_another_kind_is_not_ended(rig: ConductorFixture) -> None:
    node = machine(rig, ON, ON, maintenance=True, fault="clean failure")
    act(rig, "power recovery")
    assert rig.get(node)["maintenance"]


def test_a_driver_with_a_bug_does_not_keep_others_from_being_compared(
    build: Callable[..., ConductorFixture],
) -> None:
    broken = ""

    def around(_kind: str, name: str, call: Any) -> Any:
        if name == "get_power_state" and call.args[0].node.uuid == broken:
            raise ZeroDivisionError("a bug")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    nodes = [machine(rig, ON, OFF) for _ in range(4)]
    nodes.insert(2, rig.node("active", bios_interface="no-such-interface"))
    broken = nodes[0]
    act(rig)
    assert [real(rig, node) for node in (nodes[1], nodes[3], nodes[4])] == [ON] * 3


def test_a_machine_between_on_and_off_is_not_judged(build: Callable[..., ConductorFixture]) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return None if name == "get_power_state" else call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = machine(rig, ON, OFF)
    for _ in range(5):
        act(rig)
    row = rig.get(node)
    assert (row["power_state"], row["maintenance"]) == (ON, False)


def test_many_nodes_that_agree_cost_two_statements_a_page(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = build(conductor__hash_ring_reset_interval=3600)
    monkeypatch.setattr("ironic_lite.conductor.watch.own_nodes._PAGE", 20)
    monkeypatch.setattr("ironic_lite.conductor.watch.own_nodes._WHOLE", 25)
    for _ in range(50):
        machine(rig, ON, ON)
    rig.service.ownership.members()
    with count_statements(rig.database) as sent:
        rig.sweep("power sync")
    asked = [text for text in sent if "conductors" not in text]
    assert len(asked) == 3 + 2, str(sent)


def test_nodes_of_other_conductors_are_not_read_whole(rig: ConductorFixture) -> None:
    mine = machine(rig, ON, ON)
    machine(rig, ON, ON, conductor_group="elsewhere")
    question = functools.partial(sweeps.for_power_sync, skip_states=())
    assert len(rig.database.read(functools.partial(question, limit=9))) == 2
    found = own_nodes.read(rig.database, question, rig.service.ownership.mine)
    assert [node.uuid for node in found] == [mine]


def test_node_that_is_locked_after_the_question_is_left_alone(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = build()
    node = machine(rig, ON, OFF)
    whole = sweeps.whole

    def lock_first(conn: Connection, ids: list[int]) -> Any:
        nodes.lock(conn, node, host="there", token="other", expires=clock.after(60))
        return whole(conn, ids=ids)

    monkeypatch.setattr(sweeps, "whole", lock_first)
    rig.sweep("power sync")
    assert rig.service.power.settle(10)
    assert (rig.get(node)["power_state"], rig.get(node)["lock_token"]) == (ON, "other")


def test_power_changes_on_request(rig: ConductorFixture) -> None:
    node = rig.node("active", last_error="an old one")
    targets = [(ON, ON), (OFF, OFF), ("rebooting", ON), ("soft power off", OFF)]
    for target, end in targets:
        row = rig.call("change_node_power_state", node, target=target)
        assert (row["power_state"], row["target_power_state"]) == (end, None)
        assert row["last_error"] is None
    assert real(rig, node) == OFF


@pytest.mark.parametrize("bug", [False, True])
def test_a_refused_power_change_is_told(build: Callable[..., ConductorFixture], bug: bool) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if bug and name == "set_power_state":
            raise KeyError("a bug")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node("wait call-back", power_state=OFF, fake_fail_power="fuse")
    row = rig.call("change_node_power_state", node, target=ON)
    assert (row["power_state"], row["target_power_state"]) == (OFF, None)
    assert ("Unexpected KeyError" if bug else "fuse") in row["last_error"]
    assert row["provision_state"] == "wait call-back"
