"""Taking machines under management, and the ways out of a failed clean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.flows import verify
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers


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
    rig.ask("do_provisioning_action", node, action="manage")
    assert rig.service.runtime.workers.wait_idle(10)
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
    with pytest.raises(errors.InvalidParameter, match="dance"):
        rig.act("dance", rig.node())


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
