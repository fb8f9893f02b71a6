"""Power: the comparison of records and machines, orders, failed runs, parents and children."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import ownership
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, sweeps
from ironic_lite.domain import history
from ironic_lite.drivers.redfish import power
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.drivers.registry import Registry
from tests.emulators import bmc
from tests.flows.test_children import hold, on_children
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed
from tests.support.statements import count_statements

# The power comparison: which nodes, which side wins, and what a silent machine comes to.

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


def test_an_unknown_power_state_is_learned(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    node = machine(rig, None, ON)
    with caplog.at_level("INFO"):
        act(rig)
    assert (rig.get(node)["power_state"], real(rig, node)) == (ON, ON)
    (said,) = (one for one in caplog.records if "its power is" in one.getMessage())
    assert said.levelname == "INFO"  # the machine has not changed


def test_power_that_was_changed_outside_is_a_warning(
    build: Callable[..., ConductorFixture], caplog: pytest.LogCaptureFixture
) -> None:
    rig = build(conductor__force_power_state_during_sync=False)
    node = machine(rig, ON, OFF)
    act(rig)
    (said,) = (one for one in caplog.records if "its power is" in one.getMessage())
    assert (said.levelname, said.getMessage()) == (
        *("WARNING",),
        f"Node {node}: its power is power off, it was power on",
    )


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


def healths(rig: ConductorFixture, node: str) -> list[tuple[str | None, str | None]]:
    """Return the changes of health in the node's history."""
    return [(event["before"], event["after"]) for event in rig.events(node, "health")]


def test_health_is_recorded_once_for_each_change(rig: ConductorFixture) -> None:
    node = machine(rig, ON, ON)
    told = ("OK", "OK", "Critical", "Critical", None)
    for health in told:
        rig.edit(node, driver_info={"fake_health": health} if health else {})
        act(rig)
        assert (rig.get(node)["health"], rig.get(node)["reservation"]) == (health, None)
    assert healths(rig, node) == [(None, "OK"), ("OK", "Critical"), ("Critical", None)]
    entries = [history.entry(cast(Any, event)) for event in rig.events(node, "health")]
    assert {(one["event_type"], one["severity"]) for one in entries} == {("monitoring", "INFO")}
    assert entries[1]["event"] == "The health of the machine is Critical; it was OK."


def test_health_changes_beside_a_difference_of_the_power(rig: ConductorFixture) -> None:
    node = machine(rig, ON, OFF, fake_health="Warning")
    act(rig)
    row = rig.get(node)
    assert (row["power_state"], row["health"], real(rig, node)) == (ON, "Warning", ON)
    assert healths(rig, node) == [(None, "Warning")]


def test_health_of_a_machine_between_on_and_off_is_recorded(
    build: Callable[..., ConductorFixture],
) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return None if name == "get_power_state" else call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = machine(rig, ON, OFF, fake_health="OK")
    act(rig)
    assert (rig.get(node)["power_state"], rig.get(node)["health"]) == (ON, "OK")


@pytest.mark.parametrize("kept", [{"maintenance": True}, {"retired": True}, {"state": "enroll"}])
def test_health_of_a_node_outside_the_sweep_stays(
    rig: ConductorFixture, kept: dict[str, Any]
) -> None:
    node = machine(rig, ON, ON, health="OK", fake_health="Critical", **kept)
    act(rig)
    assert (rig.get(node)["health"], healths(rig, node)) == ("OK", [])


def test_health_stays_if_it_is_not_monitored(build: Callable[..., ConductorFixture]) -> None:
    rig = build(
        conductor__enable_health_monitoring=False, conductor__power_state_sync_max_retries=1
    )
    node = machine(rig, ON, OFF, health="OK", fake_health="Critical")
    silent = rig.node("active", power_state=ON, health="OK", fake_fail_power="cable cut")
    for _ in range(3):
        act(rig)
    assert (rig.get(node)["power_state"], rig.get(node)["health"]) == (ON, "OK")
    assert (rig.get(silent)["fault"], rig.get(silent)["health"]) == ("power failure", "OK")


def test_health_of_a_lost_machine_is_unknown_until_it_answers(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__power_state_sync_max_retries=0)
    node = rig.node("active", power_state=ON, health="OK", fake_fail_power="cable cut")
    act(rig)
    assert (rig.get(node)["fault"], rig.get(node)["health"]) == ("power failure", None)
    rig.edit(node, driver_info={"fake_health": "Warning"})
    act(rig, "power recovery")
    assert (rig.get(node)["fault"], rig.get(node)["health"]) == (None, "Warning")
    assert healths(rig, node) == [("OK", None), (None, "Warning")]


def test_health_of_a_redfish_machine_costs_no_request(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    rig = build(registry=cast(Registry, crashes.Replaced(drivers(), power=power.RedfishPower())))
    with bmc.serve() as served:
        served.tree[served.system] |= {"PowerState": "On", "Status": {"Health": "OK"}}
        node = rig.node("active", power_state=ON, driver_info=dict(served.driver_info))
        act(rig)
        assert rig.get(node)["health"] == "OK"
        for status, health in (("OK", "OK"), ("Critical", "Critical"), ("Critical", "Critical")):
            served.tree[served.system]["Status"]["Health"] = status
            before = len(served.log)
            act(rig)
            assert rig.get(node)["health"] == health
            assert served.log[before:] == [f"GET {served.system}"]
    assert healths(rig, node) == [(None, "OK"), ("OK", "Critical")]


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
    monkeypatch.setattr("ironic_lite.conductor.watch.ownership._CANDIDATES_PAGE", 20)
    monkeypatch.setattr("ironic_lite.conductor.watch.ownership._WHOLE_PAGE", 25)
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
    found = ownership.read_own(rig.database, question, rig.service.ownership.mine)
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


# The time of the last power change that an operator ordered, in driver_internal_info.

NOTE = "last_power_state_change"


def changed_at(row: dict[str, Any]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(row["driver_internal_info"][NOTE])


@pytest.mark.parametrize(
    ("target", "before"),
    [
        ("power on", "power off"),
        ("power off", "power on"),
        ("rebooting", "power on"),
        ("soft power off", "power on"),
        ("soft rebooting", "power on"),
    ],
)
def test_power_change_notes_its_time(rig: ConductorFixture, target: str, before: str) -> None:
    node = rig.node("active", power_state=before)
    begun = clock.now()
    row = rig.call("change_node_power_state", node, target=target)
    assert row["last_error"] is None
    assert begun <= changed_at(row) <= clock.now()


def test_each_power_change_notes_a_later_time(rig: ConductorFixture) -> None:
    node = rig.node("active", power_state="power off")
    first = changed_at(rig.call("change_node_power_state", node, target="power on"))
    assert changed_at(rig.call("change_node_power_state", node, target="power off")) > first


def test_power_change_that_fails_leaves_the_time(rig: ConductorFixture) -> None:
    then = "2026-01-02T03:04:05"
    node = rig.node(
        "active", power_state="power on", fake_fail_power="dark", driver_internal_info={NOTE: then}
    )
    row = rig.call("change_node_power_state", node, target="power off")
    assert "dark" in row["last_error"]
    assert row["driver_internal_info"][NOTE] == then


# What becomes of a machine's power when its clean, deployment or service has failed.

POWERED: dict[str, Any] = {"power_state": "power on"}
STEPS = {
    "clean": "deploy.erase_devices",
    "deploy": "deploy.write_image",
    "service": "bios.factory_reset",
}
PHASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "clean": ("manageable", "clean", {"clean_steps": listed(STEPS["clean"])}),
    "deploy": ("available", "deploy", {}),
    "service": ("active", "service", {"service_steps": listed(STEPS["service"])}),
}
OPTIONS = {
    "clean": "conductor__poweroff_in_cleanfail",
    "deploy": "deploy__power_off_after_deploy_failure",
    "service": "conductor__poweroff_in_servicefail",
}


def failed(rig: ConductorFixture, phase: str, **more: Any) -> dict[str, Any]:
    state, method, args = PHASES[phase]
    node = rig.node(state, fake_fail_steps={STEPS[phase]: "smoke"}, **{**POWERED, **more})
    return rig.call(method, node, **args)


@pytest.mark.parametrize(
    ("phase", "power"), [("clean", "on"), ("deploy", "off"), ("service", "on")]
)
def test_only_a_failed_deployment_powers_off_unless_told_otherwise(
    rig: ConductorFixture, phase: str, power: str
) -> None:
    row = failed(rig, phase)
    assert (row["provision_state"], row["power_state"]) == (f"{phase} failed", f"power {power}")
    assert "smoke" in row["last_error"]


@pytest.mark.parametrize(("phase", "off"), [("clean", True), ("deploy", False), ("service", True)])
def test_an_option_says_otherwise(
    build: Callable[..., ConductorFixture], phase: str, off: bool
) -> None:
    row = failed(build(**{OPTIONS[phase]: off}), phase)
    assert row["provision_state"] == f"{phase} failed"
    assert row["power_state"] == ("power off" if off else "power on")


@pytest.mark.parametrize("phase", PHASES)
def test_machine_stays_on_after_a_failed_step_that_writes_firmware(
    build: Callable[..., ConductorFixture], phase: str
) -> None:
    rig = build(**{OPTIONS[phase]: True})
    state, method, _ = PHASES[phase]
    (step,) = listed("firmware.update")
    step["args"] = {"settings": [{"component": "bios", "url": "http://any/bios.bin"}]}
    step |= {"priority": 150} if phase == "deploy" else {}
    node = rig.node(state, fake_fail_steps={"firmware.update": "smoke"}, **POWERED)
    row = rig.call(method, node, **{f"{phase}_steps": [step]})
    assert (row["provision_state"], row["power_state"]) == (f"{phase} failed", "power on")


def test_a_machine_that_must_never_be_off_stays_on(rig: ConductorFixture) -> None:
    assert failed(rig, "deploy", disable_power_off=True)["power_state"] == "power on"


def test_an_aborted_deployment_powers_off_too(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_async_steps=["*"], fake_step_seconds=3600, **POWERED)
    rig.call("deploy", node)
    row = rig.act("abort", node)
    assert (row["provision_state"], row["power_state"]) == ("deploy failed", "power off")
    assert row["last_error"] == "By request, the deploy operation was aborted."


def test_power_that_cannot_be_switched_off_is_told_besides_the_failure(
    rig: ConductorFixture,
) -> None:
    row = failed(rig, "deploy", fake_fail_power="stuck")
    assert row["provision_state"] == "deploy failed"
    assert "smoke" in row["last_error"]
    assert "Also, switching the machine off failed" in row["last_error"]


# Power of parent and child nodes: a parent on before its child, children off before the parent.

DEDICATED = {"has_dedicated_power_supply": True}


class House:
    """A parent, its children, and a grandchild, with the order of all power changes."""

    def __init__(self, build: Callable[..., ConductorFixture], **settings: Any) -> None:
        self.changes: list[tuple[str, str]] = []
        self.rig = build(
            registry=cast(Registry, crashes.Drivers(drivers(), self._record)), **settings
        )
        self.names: dict[str, str] = {}

    def add(self, name: str, parent: str | None = None, power: str = OFF, **more: Any) -> str:
        more["driver_internal_info"] = {"driver_notes": {"fake_power_state": power}}
        uuid = self.rig.node("manageable", parent_node=parent, power_state=power, **more)
        self.names[uuid] = name
        return uuid

    def _record(self, kind: str, name: str, call: Any) -> Any:
        found = call()
        if kind == "power" and name in ("set_power_state", "reboot"):
            uuid = call.args[0].node.uuid
            self.changes.append((self.names.get(uuid, uuid), (*call.args[1:], "reboot")[0]))
        return found

    def switch(self, uuid: str, target: str) -> dict[str, Any]:
        self.rig.ask("change_node_power_state", uuid, target=target)
        return self.rig.settled(uuid)

    def powers(self) -> dict[str, Any]:
        return {name: self.rig.get(uuid)["power_state"] for uuid, name in self.names.items()}


@pytest.fixture
def house(build: Callable[..., ConductorFixture]) -> House:
    return House(build, conductor__node_locked_retry_attempts=1)


@pytest.mark.parametrize("target", [ON, "rebooting", "soft rebooting"])
def test_parents_are_switched_on_before_their_child(house: House, target: str) -> None:
    top = house.add("top")
    middle = house.add("middle", top)
    low = house.add("low", middle)
    house.add("sibling", top)
    row = house.switch(low, target)
    assert row["last_error"] is None
    assert house.powers() == {"top": ON, "middle": ON, "low": ON, "sibling": OFF}
    assert [name for name, _ in house.changes][:3] == ["top", "middle", "low"]
    for uuid in (top, middle):
        told = [(one["event"], one["after"]) for one in house.rig.events(uuid, "power")]
        assert [one for one in told if one[0] != "changed"] == [("start", ON), ("end", ON)]
        assert house.rig.get(uuid)["target_power_state"] is None
        assert house.rig.get(uuid)["reservation"] is None


@pytest.mark.parametrize("target", [OFF, "soft power off"])
def test_children_are_switched_off_before_their_parent(house: House, target: str) -> None:
    top = house.add("top", power=ON)
    middle = house.add("middle", top, ON)
    house.add("low", middle, ON)
    house.add("sibling", top, ON)
    house.add("off", top, OFF)
    assert house.switch(top, target)["last_error"] is None
    assert set(house.powers().values()) == {OFF}
    assert house.changes == [(name, target) for name in ("low", "middle", "sibling", "top")]


def test_child_with_its_own_supply_is_independent(house: House) -> None:
    top = house.add("top", power=ON)
    own = house.add("own", top, ON, driver_info=DEDICATED)
    text = house.add("text", top, ON, driver_info={"has_dedicated_power_supply": "True"})
    house.switch(top, OFF)
    assert house.powers() == {"top": OFF, "own": ON, "text": ON}
    house.switch(own, OFF)
    house.switch(own, ON)
    assert house.switch(text, ON)["last_error"] is None
    assert house.powers()["top"] == OFF


def test_reboot_of_a_parent_leaves_its_children(house: House) -> None:
    top = house.add("top", power=ON)
    house.add("low", top, ON)
    house.switch(top, "rebooting")
    assert [name for name, _ in house.changes] == ["top"]
    assert house.powers() == {"top": ON, "low": ON}


def test_parent_that_is_on_needs_no_lock(house: House) -> None:
    top = house.add("top", power=ON)
    low = house.add("low", top)
    with house.rig.tasks.lock(house.rig.who, top):
        assert house.switch(low, ON)["last_error"] is None
    assert house.powers() == {"top": ON, "low": ON}


@pytest.mark.parametrize("fault", ["locked", "power", "driver"])
@pytest.mark.parametrize("target", [ON, OFF])
def test_node_whose_relative_cannot_be_switched_stays_as_it_is(
    house: House, target: str, fault: str
) -> None:
    power = OFF if target == ON else ON
    top, low = house.add("top", power=power), None
    low = house.add("low", top, power)
    house.add("sibling", top, power)
    asked, other = (low, top) if target == ON else (top, low)
    if fault == "power":
        house.rig.edit(other, driver_info={"fake_fail_power": "no current"})
    elif fault == "driver":
        house.rig.edit(other, driver="no-such")
    if fault == "locked":
        with house.rig.tasks.lock(house.rig.who, other):
            row = house.switch(asked, target)
    elif fault == "driver" and target == OFF:
        with pytest.raises(errors.Error, match=other):
            house.switch(asked, target)
        row = {**house.rig.get(asked), "last_error": other}
    else:
        row = house.switch(asked, target)
    assert other in row["last_error"]
    assert (row["power_state"], row["target_power_state"]) == (power, None)
    assert house.changes == []
    assert set(house.powers().values()) == {power}


@pytest.mark.parametrize("why", ["hold", "stay on", "clean wait"])
def test_child_that_may_not_be_switched_off_refuses_its_parent_at_once(
    house: House, why: str
) -> None:
    top = house.add("top", power=ON)
    low = house.add("low", top, ON)
    if why == "hold":
        hold(house.rig, low, "power")
    elif why == "stay on":
        house.rig.edit(low, disable_power_off=True)
    else:
        house.rig.edit(low, provision_state="clean wait")
    before = house.rig.get(top)
    with pytest.raises((errors.NodeHeld, errors.Conflict, errors.InvalidState), match=low):
        house.switch(top, OFF)
    after = house.rig.get(top)
    assert {**after, "updated_at": None} == {**before, "updated_at": None}
    assert house.powers() == {"top": ON, "low": ON}


def test_hold_of_a_parent_keeps_it_off_and_its_child_too(house: House) -> None:
    top = house.add("top")
    low = house.add("low", top)
    hold(house.rig, top, "power")
    row = house.switch(low, ON)
    assert "case 12" in row["last_error"]
    assert house.powers() == {"top": OFF, "low": OFF}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("target", [ON, OFF])
def test_ring_of_an_older_release_is_named(house: House, size: int, target: str) -> None:
    power = OFF if target == ON else ON
    nodes = [house.add(str(n), power=power) for n in range(size)]
    for n, uuid in enumerate(nodes):
        house.rig.edit(uuid, parent_node=nodes[(n + 1) % size])
    row = house.switch(nodes[0], target)
    assert "parents of each other" in row["last_error"]
    assert [house.rig.get(uuid)["reservation"] for uuid in nodes] == [None] * size


def test_parent_that_is_gone_does_not_stop_its_child(house: House) -> None:
    low = house.add("low", "00000000-0000-4000-8000-000000000000")
    assert house.switch(low, ON)["last_error"] is None


@pytest.mark.parametrize("verb", ["deploy", "delete", "clean", "reboot"])
def test_other_operations_switch_the_relatives_too(house: House, verb: str) -> None:
    top = house.add("top", power=OFF)
    low = house.add("low", top, OFF)
    if verb == "deploy":
        house.rig.edit(low, provision_state="available")
        house.rig.call("deploy", low)
        assert house.powers() == {"top": ON, "low": ON}
    elif verb == "delete":
        house.rig.edit(top, provision_state="active", power_state=ON)
        house.switch(low, ON)
        house.changes.clear()
        house.rig.call("delete", top)
        assert house.powers() == {"top": OFF, "low": OFF}
        assert house.changes[:2] == [("low", OFF), ("top", OFF)]
    elif verb == "clean":
        step = {"interface": "power", "step": "power_on"}
        house.rig.call("clean", low, clean_steps=[step])
        assert house.powers() == {"top": ON, "low": ON}
        step = {"interface": "power", "step": "power_off"}
        house.rig.call("clean", top, clean_steps=[step])
        assert house.powers() == {"top": OFF, "low": OFF}
    else:
        step = {"interface": "power", "step": "reboot"}
        house.rig.call("clean", low, clean_steps=[step])
        assert house.powers() == {"top": ON, "low": ON}


def test_step_on_children_switches_its_own_parent_on_first(house: House) -> None:
    top = house.add("top")
    house.add("low", top)
    house.add("sibling", top)
    row = house.rig.call("clean", top, clean_steps=[on_children("power.power_on")])
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert house.powers() == {"top": ON, "low": ON, "sibling": ON}
    assert [name for name, _ in house.changes] == ["top", "low", "sibling"]
    row = house.rig.call("clean", top, clean_steps=[on_children("power.power_off")])
    assert house.powers() == {"top": ON, "low": OFF, "sibling": OFF}


def test_power_sync_that_switches_a_child_on_switches_its_parent_on(
    build: Callable[..., ConductorFixture],
) -> None:
    house = House(build, conductor__force_power_state_during_sync=True)
    top = house.add("top")
    low = house.add("low", top)
    house.rig.edit(low, power_state=ON)
    house.rig.service.power.sweep()
    assert house.rig.service.power.settle(30)
    assert house.powers() == {"top": ON, "low": ON}
    assert [name for name, _ in house.changes] == ["top", "low"]


def test_deleted_parent_leaves_its_children_in_lists(house: House) -> None:
    top = house.add("top")
    low = house.add("low", top)
    before = house.rig.get(low)
    house.rig.ask("destroy_node", top)
    after = house.rig.get(low)
    assert (after["parent_node"], after["generation"]) == (None, before["generation"] + 1)
    (event,) = house.rig.events(low, "node_updated")
    change = {"path": "parent_node", "old": top, "new": None}
    assert event["data"] == {"fields": ["parent_node"], "changes": [change]}
