"""Taking machines under management, maintenance, and interfaces that are missing."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.flows import verify
from ironic_lite.conductor.watch import orphans, power_sync, timeouts
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, sweeps
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import management
from ironic_lite.drivers.registry import Registry, Settings
from tests.emulators import bmc
from tests.support import conductor_fixture, crashes
from tests.support.conductor_fixture import ConductorFixture, drivers

# Taking machines under management, and the ways out of a failed clean.


def test_manage_asks_the_machine_and_ends_manageable(rig: ConductorFixture) -> None:
    node = rig.node("enroll", last_error="an old one")
    row = rig.act("manage", node)
    assert row["provision_state"] == "manageable"
    assert row["target_provision_state"] is None
    assert row["power_state"] == "power off"
    assert row["last_error"] is None
    assert rig.path(node) == ["verifying", "manageable"]
    run = rig.run(node)
    assert (run["verb"], run["state"], run["error"]) == ("manage", "done", None)
    assert (run["requester"], run["conductor"]) == ("tester", "here")
    assert run["request_id"].startswith("req-test-")
    assert row["run_uuid"] is None


def test_boot_mode_and_secure_boot_are_recorded(rig: ConductorFixture) -> None:
    notes = {"driver_notes": {"fake_boot_mode": "uefi", "fake_secure_boot": True}}
    row = rig.act("manage", rig.node("enroll", driver_internal_info=notes))
    assert (row["provision_state"], row["boot_mode"], row["secure_boot"]) == (
        "manageable",
        "uefi",
        True,
    )


def test_a_bmc_that_cannot_tell_how_it_boots_leaves_what_is_noted(rig: ConductorFixture) -> None:
    node = rig.node("enroll", management_interface="noop", secure_boot=True)
    row = rig.act("manage", node)
    assert (row["provision_state"], row["secure_boot"]) == ("manageable", True)


@pytest.mark.parametrize("name", ["get_boot_mode", "detect_vendor"])
def test_verification_that_lost_the_node_records_and_switches_nothing(
    build: Callable[..., ConductorFixture], name: str
) -> None:
    calls: list[str] = []

    def around(_kind: str, called: str, call: Callable[[], Any]) -> Any:
        calls.append(called)
        if called == name:
            raise errors.LockLost(node="n")
        return call()

    more = (name, "set_power_state")
    lost = cast(Registry, crashes.Drivers(drivers(), around, more=more))
    rig = build(registry=lost, conductor__power_off_after_verify=True)
    node = rig.node("enroll", power_state="power on")
    rig.ask("manage", node)
    assert rig.service.runtime.workers.wait_idle(60)
    assert name in calls
    assert "set_power_state" not in calls
    assert rig.get(node)["provision_state"] == "verifying"


@pytest.mark.parametrize(
    ("properties", "told", "noted"),
    [
        ({"cpus": 4}, "Fake Machines", {"cpus": 4, "vendor": "Fake Machines"}),
        ({"vendor": "mine"}, "Fake Machines", {"vendor": "mine"}),
        ({"cpus": 4}, None, {"cpus": 4}),
    ],
)
def test_vendor_is_recorded_unless_it_is_set(
    rig: ConductorFixture, properties: dict[str, object], told: str | None, noted: dict[str, object]
) -> None:
    given = {} if told is None else {"fake_vendor": told}
    row = rig.act("manage", rig.node("enroll", properties=properties, **given))
    assert (row["provision_state"], row["properties"]) == ("manageable", noted)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"fake_fail_power": "no route to BMC"}, "no route to BMC"),
        ({"fake_step_seconds": -1}, "driver_info/fake_step_seconds"),
    ],
)
def test_a_machine_that_does_not_answer_goes_back_to_enroll(
    rig: ConductorFixture, told: dict[str, object], said: str
) -> None:
    node = rig.node("enroll", **told)
    row = rig.act("manage", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("enroll", None)
    assert "Failed to verify" in row["last_error"]
    assert said in row["last_error"]
    assert not row["maintenance"]
    assert rig.run(node)["state"] == "failed"


def test_verification_may_end_with_the_power_off(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__power_off_after_verify=True)
    on = {"driver_notes": {"fake_power_state": "power on"}}
    node = rig.node("enroll", driver_internal_info=on)
    spared = rig.node("enroll", driver_internal_info=on, disable_power_off=True)
    assert rig.act("manage", node)["power_state"] == "power off"
    assert rig.act("manage", spared)["power_state"] == "power on"


@pytest.mark.parametrize("state", ["available", "inspect failed", "adopt failed"])
def test_manage_leaves_a_state_at_rest_without_work(rig: ConductorFixture, state: str) -> None:
    node = rig.node(state)
    row = rig.act("manage", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("manageable", None)
    assert rig.path(node) == ["manageable"]


def test_manage_from_clean_failed_changes_the_state_only(rig: ConductorFixture) -> None:
    kept = {
        "last_error": "it broke",
        "maintenance": True,
        "maintenance_reason": "it broke",
        "fault": "clean failure",
    }
    node = rig.node("clean failed", target_provision_state="available", **kept)
    row = rig.act("manage", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("manageable", None)
    assert {name: row[name] for name in kept} == kept


@pytest.mark.parametrize("verb", ["provide", "cleaned"])
def test_a_failed_clean_can_be_repeated_although_in_maintenance(
    rig: ConductorFixture, verb: str
) -> None:
    node = rig.node(
        "clean failed",
        target_provision_state="manageable",
        maintenance=True,
        driver_internal_info={"clean_steps": [{"interface": "raid", "step": "old"}]},
    )
    row = rig.act(verb, node)
    assert (row["provision_state"], row["target_provision_state"]) == ("available", None)
    assert rig.started(node) == ["deploy.erase_devices_metadata", "deploy.erase_devices"]


def test_a_failed_clean_can_be_skipped(rig: ConductorFixture) -> None:
    node = rig.node("clean failed", target_provision_state="available", maintenance=True)
    row = rig.act("available", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("available", None)
    assert rig.started(node) == []


@pytest.mark.parametrize("verb", ["provide", "cleaned", "available"])
def test_a_retired_node_is_not_made_available(rig: ConductorFixture, verb: str) -> None:
    node = rig.node("clean failed", retired=True)
    before = rig.get(node)
    with pytest.raises(errors.NodeRetired):
        rig.act(verb, node)
    assert rig.get(node) == before


@pytest.mark.parametrize("verb", ["provide", "cleaned"])
def test_an_option_keeps_nodes_in_maintenance_from_cleaning(
    build: Callable[..., ConductorFixture], verb: str
) -> None:
    rig = build(conductor__allow_provisioning_in_maintenance=False)
    node = rig.node("manageable", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.act(verb, node)
    assert rig.get(node)["provision_state"] == "manageable"


def test_adoption_takes_in_a_running_machine(rig: ConductorFixture) -> None:
    node = rig.node()
    row = rig.act("adopt", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["power_state"] == "power off"
    assert rig.path(node) == ["adopting", "active"]


def test_a_failed_adoption_says_why_and_can_be_repeated(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_verbs={"adopt": "no instance"})
    row = rig.act("adopt", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("adopt failed", "active")
    assert "no instance" in row["last_error"]
    rig.edit(node, driver_info={})
    row = rig.act("adopt", node)
    assert (row["provision_state"], row["last_error"]) == ("active", None)


@pytest.mark.parametrize("state", ["active", "cleaning", "clean wait", "deploying", "deleting"])
def test_an_impossible_verb_changes_nothing(rig: ConductorFixture, state: str) -> None:
    node = rig.node(state)
    before = rig.get(node)
    with pytest.raises(errors.InvalidState):
        rig.act("manage", node)
    assert rig.get(node) == before
    assert rig.events(node) == []


def test_an_unknown_action_is_refused(rig: ConductorFixture) -> None:
    node = rig.node()
    with pytest.raises(errors.InvalidParameter, match="dance"):
        rig.endpoints.start_verb(rig.who, node_uuid=node, event="dance", body={})


def test_a_machine_that_does_not_say_whether_it_is_on_is_not_taken(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_PAUSES", (0.0, 0.0))
    mute = crashes.Drivers(
        drivers(),
        lambda kind, name, call: None if name == "get_power_state" else call(),
    )
    rig = build(registry=cast(Registry, mute))
    node = rig.node("enroll")
    row = rig.act("manage", node)
    assert row["provision_state"] == "enroll"
    assert "does not report whether the machine is on or off" in row["last_error"]


# Maintenance: what stops a node's clock, and what ends where nothing may go on during it.
#
# Maintenance that a fault has set must not keep a node waiting for ever (C31).


def _overdue(database: Database) -> list[str]:
    rows = database.read(
        lambda conn: sweeps.overdue(conn, state="clean wait", before=clock.now(), limit=10)
    )
    return [row["uuid"] for row in rows]


@pytest.mark.parametrize(
    ("maintenance", "fault", "times_out"),
    [(False, None, True), (True, None, False), (True, "clean failure", True)],
    ids=["at work", "set by an operator", "set by a fault"],
)
def test_cause_of_the_maintenance_decides_about_the_time_out(
    sqlite_database: Database, *, maintenance: bool, fault: str | None, times_out: bool
) -> None:
    node: dict[str, Any] = {
        "uuid": str(uuid.uuid4()),
        "driver": "fake-hardware",
        "provision_state": "clean wait",
        "provision_updated_at": clock.now() - datetime.timedelta(hours=1),
        "maintenance": maintenance,
        "fault": fault,
    }
    sqlite_database.write(lambda conn: nodes.insert(conn, node))
    assert _overdue(sqlite_database) == ([node["uuid"]] if times_out else [])


# -- [conductor]allow_provisioning_in_maintenance = false ------------------------------------

ABORTABLE = "deploy.erase_devices"
STUBBORN = "bios.factory_reset"
HOUR: dict[str, Any] = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
TOKEN = "t" * 43


@pytest.fixture
def strict(build: Callable[..., ConductorFixture]) -> ConductorFixture:
    """A conductor that goes on with nothing during maintenance."""
    return build(conductor__allow_provisioning_in_maintenance=False)


def put_aside(rig: ConductorFixture, node: str) -> None:
    rig.edit(node, maintenance=True, maintenance_reason="a smell of smoke")


def test_a_timer_ends_the_clean_of_a_node_in_maintenance(strict: ConductorFixture) -> None:
    node = strict.node(**HOUR)
    strict.clean(node, ABORTABLE, STUBBORN)
    put_aside(strict, node)
    strict.ring(node)
    row = strict.reaches(node, "clean failed")
    assert row["last_error"] == (
        f'The clean operation was aborted at the step "{ABORTABLE}": the node is in maintenance, '
        "and [conductor]allow_provisioning_in_maintenance is false."
    )
    assert (row["maintenance_reason"], row["fault"]) == ("a smell of smoke", "clean failure")
    assert strict.started(node) == [ABORTABLE]
    run = strict.run(node)
    assert (run["state"], run["error"]["step"]) == ("failed", ABORTABLE)


def test_a_step_that_must_not_be_cut_short_ends_before_maintenance_stops_the_rest(
    strict: ConductorFixture,
) -> None:
    node = strict.node(**HOUR)
    strict.clean(node, STUBBORN, ABORTABLE)
    put_aside(strict, node)
    strict.ring(node)
    row = strict.reaches(node, "clean failed")
    assert f'at the step "{STUBBORN}"' in row["last_error"]
    assert strict.step_states(node) == ["done", "skipped"]


def test_run_goes_on_in_maintenance_if_allowed(rig: ConductorFixture) -> None:
    node = rig.node(**HOUR)
    rig.clean(node, ABORTABLE)
    put_aside(rig, node)
    rig.ring(node)
    assert rig.reaches(node, "manageable")["maintenance"]


@pytest.mark.parametrize(
    ("state", "end"),
    [
        ("clean wait", "clean failed"),
        ("wait call-back", "deploy failed"),
        ("service wait", "service failed"),
        ("rescue wait", "rescue failed"),
    ],
)
def test_a_heartbeat_in_maintenance_ends_what_the_node_was_doing(
    strict: ConductorFixture, state: str, end: str
) -> None:
    node = strict.node(state, driver_internal_info={"agent_secret_token": TOKEN})
    put_aside(strict, node)
    told = {"callback_url": "https://192.0.2.1:9999", "agent_version": "13", "agent_token": TOKEN}
    strict.ask("heartbeat", node, **told)
    row = strict.reaches(node, end)
    assert "the node is in maintenance" in row["last_error"]
    assert row["driver_internal_info"].get("agent_url") is None


def test_run_held_in_maintenance_fails_when_unheld(strict: ConductorFixture) -> None:
    node = strict.node()
    strict.clean(node, "power.hold", ABORTABLE)
    put_aside(strict, node)
    strict.act("unhold", node)
    strict.reaches(node, "clean failed")
    assert strict.started(node) == ["power.hold"]


def test_a_ramdisk_in_maintenance_may_still_report_what_it_has_found(
    strict: ConductorFixture,
) -> None:
    node = strict.node("inspect wait")
    put_aside(strict, node)
    strict.ring(node)
    strict.reaches(node, "manageable")


def test_deleting_an_instance_in_maintenance_does_not_clean(strict: ConductorFixture) -> None:
    node = strict.node("active", instance_info={"image": "x"})
    put_aside(strict, node)
    strict.ask("delete", node)
    row = strict.reaches(node, "clean failed")
    assert "clean operation can't be performed" in row["last_error"]
    assert strict.started(node) == []


def test_step_of_a_dead_conductor_is_not_repeated_in_maintenance(
    build: Callable[..., ConductorFixture], sqlite_database: Database
) -> None:
    first = build()
    steps = [{"interface": "deploy", "step": "erase_devices"}]
    node = first.node(
        "cleaning",
        target_provision_state="manageable",
        maintenance=True,
        reservation="here",
        lock_token="of an earlier life",
        clean_step=steps[0],
        driver_internal_info={"clean_steps": steps, "clean_step_index": 0},
    )
    build(conductor__allow_provisioning_in_maintenance=False)
    row = first.reaches(node, "clean failed")
    assert "the node is in maintenance" in row["last_error"]


# A conductor starts again without an interface that nodes have: they are told, and not lost.

GONE = "retro"
WAY = "To use retro, add it to [DEFAULT]enabled_deploy_interfaces and restart the conductor."

Build = Callable[..., ConductorFixture]


def lease(rig: ConductorFixture, node: str, *, seconds: float) -> None:
    """Let a node seem to be held by an earlier life of this conductor."""

    def write(conn: Any) -> bool:
        expires = clock.after(seconds)
        return nodes.lock(conn, uuid=node, host="here", token="t" * 36, expires=expires, steal=None)

    assert rig.database.write(write)


@pytest.mark.parametrize("kind", base.KINDS)
def test_at_rest_it_keeps_the_name_and_verbs_are_refused(rig: ConductorFixture, kind: str) -> None:
    node = rig.node("manageable", **{f"{kind}_interface": GONE})
    before = rig.get(node)
    for ask in (
        lambda: rig.ask("provide", node),
        lambda: rig.ask("change_node_power_state", node, target="power on"),
        lambda: rig.endpoints.validate_driver_interfaces(rig.who, node_uuid=node),
        lambda: rig.ask("destroy_node", node),
    ):
        with pytest.raises(errors.InterfaceNotFound) as refusal:
            ask()
        assert f"[DEFAULT]enabled_{kind}_interfaces" in refusal.value.message
    assert rig.get(node) == {**before, "generation": rig.get(node)["generation"]}
    assert rig.get(node)["reservation"] is None


def test_named_anew_it_works_again(rig: ConductorFixture) -> None:
    node = rig.node("manageable", deploy_interface=GONE)
    rig.edit(node, deploy_interface="fake")
    assert rig.act("provide", node)["provision_state"] == "available"


BUSY = {
    "cleaning": "clean failed",
    "deploying": "deploy failed",
    "deleting": "error",
    "inspecting": "inspect failed",
    "rescuing": "rescue failed",
    "unrescuing": "unrescue failed",
    "servicing": "service failed",
    "verifying": "enroll",
    "adopting": "adopt failed",
}


@pytest.mark.parametrize(("state", "end"), BUSY.items(), ids=BUSY)
def test_in_the_middle_of_something_it_fails_and_says_why(
    build: Build, sqlite_database: Database, state: str, end: str
) -> None:
    before = build()
    everything = {f"{kind}_interface": GONE for kind in base.KINDS}
    node = before.node(state, target_provision_state="available", **everything)
    lease(before, node, seconds=60)
    after = build(sqlite_database)
    ended = after.reaches(node, end)
    assert GONE in ended["last_error"]
    assert "Valid interfaces are" in ended["last_error"]
    assert ended["reservation"] is None


def test_a_lock_of_an_earlier_life_does_not_outlive_its_interface(
    build: Build, sqlite_database: Database
) -> None:
    before = build()
    node = before.node("manageable", deploy_interface=GONE, target_power_state="power on")
    lease(before, node, seconds=60)
    after = build(sqlite_database)
    found = conductor_fixture.wait_for(lambda: (row := after.settled(node))["last_error"] and row)
    assert found["target_power_state"] is None
    after.edit(node, deploy_interface="fake")


def test_a_hardware_type_that_is_gone_ends_as_its_interfaces_do(
    build: Build, sqlite_database: Database
) -> None:
    before = build()
    node = before.node("cleaning", target_provision_state="available", driver="steam-engine")
    lease(before, node, seconds=60)
    ended = build(sqlite_database).reaches(node, "clean failed")
    assert "steam-engine" in ended["last_error"]


def test_a_timer_that_rings_ends_the_wait(rig: ConductorFixture) -> None:
    node = rig.node(
        "clean wait", target_provision_state="available", deploy_interface=GONE, wake_at=clock.now()
    )
    rig.service.timers.set(node, clock.now())
    ended = rig.reaches(node, "clean failed")
    assert WAY in ended["last_error"]
    assert (
        "Also, tearing down cleaning failed: This conductor lacks its deploy interface."
        in (ended["last_error"])
    )
    assert (ended["maintenance"], ended["fault"]) == (True, "clean failure")


def test_a_wait_that_takes_too_long_ends(build: Build) -> None:
    rig = build(conductor__clean_callback_timeout=1)
    node = rig.node(
        "clean wait",
        target_provision_state="available",
        deploy_interface=GONE,
        provision_updated_at=clock.after(-60),
    )
    timeouts.Timeouts(rig.tasks, rig.service.ownership).sweep()
    assert "Timeout reached" in rig.reaches(node, "clean failed")["last_error"]


def test_no_sweep_stumbles_over_it(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    rig = build(conductor__force_power_state_during_sync=False)
    gone = rig.node("available", power_interface=GONE, power_state="power off")
    there = rig.node("available", power_state="power on", driver_info={})
    power = power_sync.PowerSync(rig.tasks, rig.service.ownership)
    power.sweep()
    assert power.settle(30)  # on a slow machine, what was slow is compared apart
    orphans.Orphans(rig.tasks, rig.service.ownership).sweep()
    assert rig.get(there)["power_state"] == "power off"
    assert rig.get(gone)["maintenance"] is False
    assert not [record for record in caplog.records if record.exc_info]


def test_incomplete_driver_refuses_only_calls_of_missing_interfaces() -> None:
    settings = dataclasses.replace(
        Settings.read(conductor_fixture.configure()), hardware_types=["fake-hardware"]
    )
    found = Registry.load(settings)
    whole = found.driver_for("fake-hardware", {})
    left = found.remains("fake-hardware", {"deploy": GONE})
    for kind in set(base.KINDS) - {"deploy"}:
        assert left.interface(kind) is whole.interface(kind)
    with pytest.raises(errors.InterfaceNotFound, match="lacks its deploy interface"):
        left.deploy.clean_up(None)  # type: ignore[arg-type]  # it refuses before it looks


# -- the machine that answers ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "failed"),
    [
        (("manage", "clean"), "clean failed"),
        (("manage", "provide"), "clean failed"),
        (("manage", "provide", "active"), "deploy failed"),
    ],
)
def test_another_machine_at_the_address_is_neither_erased_nor_deployed_until_manage(
    build: Callable[..., ConductorFixture], path: tuple[str, ...], failed: str
) -> None:
    redfish: Any = crashes.Replaced(drivers(), management=management.RedfishManagement())
    rig = build(registry=cast(Registry, redfish))

    def ask(verb: str) -> dict[str, Any]:
        if verb == "clean":
            return rig.clean(node, "deploy.erase_devices")
        return rig.act(verb, node)

    with bmc.serve() as mine, bmc.serve() as other:
        mine[mine.places.system].update(SerialNumber="A1", UUID=str(uuid.UUID(int=0)))
        other[other.places.system].update(SerialNumber="B2", UUID=str(uuid.uuid4()))
        node = rig.node("enroll", driver_info=dict(mine.driver_info))
        *before, verb = path
        for one in before:
            ask(one)
        rig.edit(node, driver_info=dict(other.driver_info))
        row = ask(verb)
        assert (row["provision_state"], other.changes()) == (failed, [])
        assert "its SerialNumber is B2, that of the node's machine A1." in row["last_error"]
        if failed == "clean failed":
            rig.edit(node, maintenance=False, fault=None)
            assert ask("manage")["provision_state"] == "manageable"
            assert ask(verb)["last_error"] is None
            known = rig.get(node)["driver_internal_info"]["machine_identity"]
            system = other[other.places.system]
            assert known == {key: system[key] for key in ("SerialNumber", "UUID")}
