"""Service steps, and the steps that belong to no driver: hold, wait, and the power's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for


def service(rig: ConductorFixture, node: str, *titles: str) -> dict[str, Any]:
    return rig.call("do_node_service", node, service_steps=listed(*titles))


def step(name: str, **args: Any) -> dict[str, Any]:
    return {"interface": "power", "step": name, **({"args": args} if args else {})}


def test_service_runs_its_list_and_the_instance_stays(rig: ConductorFixture) -> None:
    node = rig.node("active", instance_info={"image": "x"})
    row = service(rig, node, "vendor.log_passthrough", "vendor.log_passthrough")
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["instance_info"] == {"image": "x"}
    assert row["service_step"] is None
    assert row["driver_internal_info"]["service_steps"] is None
    assert not {"service_step_index", "service_disable_ramdisk"} & set(row["driver_internal_info"])
    assert rig.path(node) == ["servicing", "active"]
    assert rig.started(node) == ["vendor.log_passthrough"] * 2


def test_a_failed_service_is_a_fault_and_may_be_repeated(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_fail_steps={"vendor.log_passthrough": "no pen"})
    row = service(rig, node, "vendor.log_passthrough")
    assert (row["provision_state"], row["target_provision_state"]) == ("service failed", "active")
    assert row["last_error"] == "Service step vendor.log_passthrough failed: no pen"
    assert (row["maintenance"], row["fault"]) == (True, "service failure")
    rig.edit(node, driver_info={}, maintenance=False, fault=None)
    row = service(rig, node, "vendor.log_passthrough")
    assert (row["provision_state"], row["last_error"]) == ("active", None)


def test_an_unknown_service_step_fails_before_anything_runs(rig: ConductorFixture) -> None:
    node = rig.node("active")
    row = service(rig, node, "vendor.log_passthrough", "vendor.no_such")
    assert row["provision_state"] == "service failed"
    assert "does not support" in row["last_error"]
    assert rig.started(node) == []


def test_boot_mode_that_a_boot_has_changed_is_read_at_the_end(rig: ConductorFixture) -> None:
    notes = {"driver_notes": {"fake_boot_mode": "bios", "fake_secure_boot": True}}
    node = rig.node("active", boot_mode="uefi", driver_internal_info=notes)
    row = service(rig, node, "vendor.log_passthrough")
    assert (row["boot_mode"], row["secure_boot"]) == ("bios", True)
    fresh = rig.node("available", boot_mode="uefi", driver_internal_info=notes)
    row = rig.call("do_node_deploy", fresh)
    assert (row["provision_state"], row["boot_mode"], row["secure_boot"]) == (
        "active",
        "bios",
        True,
    )


# -- steps of nobody -------------------------------------------------------------------------

KINDS = {
    "clean": ("manageable", "clean hold", "manageable", "do_node_clean", "clean_steps"),
    "deploy": ("available", "deploy hold", "active", "do_node_deploy", "deploy_steps"),
    "service": ("active", "service hold", "active", "do_node_service", "service_steps"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_hold_stops_until_unhold(rig: ConductorFixture, kind: str) -> None:
    start, held, end, method, key = KINDS[kind]
    steps = [step("power_on"), step("hold"), step("power_off")]
    if kind == "deploy":
        steps = [
            {**one, "args": {}, "priority": place}
            for one, place in zip(steps, (10, 5, 1), strict=True)
        ]
    node = rig.node(start)
    row = rig.call(method, node, **{key: steps})
    assert row["provision_state"] == held
    assert row[f"{kind}_step"]["step"] == "hold"
    assert row["power_state"] == "power on"
    assert row["wake_at"] is None
    assert rig.run(node)["state"] == "waiting"
    rig.act("unhold", node)
    row = rig.reaches(node, end)
    assert row["power_state"] == "power off"
    assert rig.run(node)["state"] == "done"
    assert set(rig.step_states(node)) == {"done"}


def test_a_lone_hold_is_kept(rig: ConductorFixture) -> None:
    node = rig.node()
    row = rig.call("do_node_clean", node, clean_steps=[step("hold")])
    assert (row["provision_state"], row["target_provision_state"]) == ("clean hold", "manageable")


def test_power_steps_leave_the_power_as_they_say(rig: ConductorFixture) -> None:
    node = rig.node()
    assert rig.clean(node, "power.power_on")["power_state"] == "power on"
    assert rig.clean(node, "power.power_off")["power_state"] == "power off"
    assert rig.clean(node, "deploy.reboot")["power_state"] == "power on"
    powers = [event["after"] for event in rig.events(node, "power")]
    assert powers == ["power on", "power off", "power on"]


def test_a_machine_that_must_stay_on_is_not_powered_off_by_a_step(rig: ConductorFixture) -> None:
    node = rig.node(disable_power_off=True)
    row = rig.clean(node, "power.power_off")
    assert row["provision_state"] == "clean failed"
    assert "disable_power_off" in row["last_error"]


def test_a_short_wait_sleeps_and_a_long_one_sets_a_timer(rig: ConductorFixture) -> None:
    node = rig.node()
    steps = [step("wait", seconds=0.01), step("wait", seconds=3600)]
    row = rig.call("do_node_clean", node, clean_steps=steps)
    assert row["provision_state"] == "clean wait"
    assert row["driver_internal_info"]["clean_step_index"] == 1
    assert row["wake_at"] is not None
    rig.ring(node)
    rig.reaches(node, "manageable")


def test_a_wait_without_time_goes_on_when_somebody_says_so(rig: ConductorFixture) -> None:
    node = rig.node()
    row = rig.call("do_node_clean", node, clean_steps=[step("wait"), step("power_on")])
    assert (row["provision_state"], row["wake_at"]) == ("clean wait", None)
    row = rig.call("continue_node_clean", node)
    assert (row["provision_state"], row["power_state"]) == ("manageable", "power on")


def test_an_old_timer_does_not_end_a_later_step(rig: ConductorFixture) -> None:
    node = rig.node()
    rig.call("do_node_clean", node, clean_steps=[step("wait", seconds=3600), step("wait")])
    rig.ring(node)
    wait_for(lambda: len(rig.started(node)) == len(["wait", "wait"]))
    assert rig.reaches(node, "clean wait")["wake_at"] is None


def test_a_timer_of_a_step_that_did_not_wait_ends_no_other(
    build: Callable[..., ConductorFixture],
) -> None:
    def around(_kind: str, name: str, call: Any) -> Any:
        if name == "execute_clean_step":
            call.args[0].wake_after(0)
        return call()

    rig = build(registry=crashes.Drivers(drivers(), around))
    node = rig.node()
    row = rig.clean(node, "bios.factory_reset", "power.wait")
    assert (row["provision_state"], row["wake_at"]) == ("clean wait", None)


def test_service_may_start_afresh_from_its_hold(rig: ConductorFixture) -> None:
    node = rig.node("active")
    service(rig, node, "vendor.log_passthrough", "power.hold")
    assert rig.get(node)["provision_state"] == "service hold"
    row = service(rig, node, "vendor.log_passthrough")
    assert (row["provision_state"], row["service_step"]) == ("active", None)
    first, second = rig.runs(node)
    assert (first["state"], second["state"]) == ("aborted", "done")
    assert [one["state"] for one in first["steps"]] == ["done", "aborted"]
