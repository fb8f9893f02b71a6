"""Cleaning, automated and manual: states, targets, and what the wire shows at each moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.work.workers import Place
from tests.support.conductor_fixture import ConductorFixture, listed

AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]


def test_provide_cleans_by_priority_and_ends_available(rig: ConductorFixture) -> None:
    node = rig.node(last_error="an old one")
    row = rig.act("provide", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("available", None)
    assert rig.path(node) == ["cleaning", "available"]
    assert rig.started(node) == AUTOMATED
    assert row["clean_step"] is None
    assert row["driver_internal_info"]["clean_steps"] is None
    assert row["driver_internal_info"].keys() == {"clean_steps"}
    assert row["last_error"] is None


def test_a_manual_clean_runs_the_list_as_it_is_and_ends_manageable(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["bios.factory_reset"], fake_step_seconds=3600)
    row = rig.clean(node, "bios.factory_reset", "deploy.erase_devices", "power.cycle")
    assert (row["provision_state"], row["target_provision_state"]) == ("clean wait", "manageable")
    info = row["driver_internal_info"]
    assert info["clean_step_index"] == 0
    assert info["declarative_cleaning"] is True
    assert info["cleaning_disable_ramdisk"] is False
    assert [step["step"] for step in info["clean_steps"]] == [
        "factory_reset",
        "erase_devices",
        "cycle",
    ]
    assert row["clean_step"] == info["clean_steps"][0]
    assert row["clean_step"] == {
        "interface": "bios",
        "step": "factory_reset",
        "abortable": False,
        "priority": 0,
    }
    assert row["reservation"] is None
    assert rig.step_states(node) == ["waiting", "pending", "pending"]
    assert rig.run(node)["state"] == "waiting"
    rig.ring(node)
    row = rig.reaches(node, "manageable")
    assert row["target_provision_state"] is None
    assert row["clean_step"] is None
    assert row["driver_internal_info"]["clean_steps"] is None
    assert not {"clean_step_index", "declarative_cleaning", "cleaning_disable_ramdisk"} & set(
        row["driver_internal_info"]
    )
    assert rig.path(node) == ["cleaning", "clean wait", "cleaning", "manageable"]
    assert rig.started(node) == ["bios.factory_reset", "deploy.erase_devices", "power.cycle"]
    run = rig.run(node)
    assert (run["verb"], run["state"]) == ("clean", "done")
    assert [(step["state"], step["attempt"]) for step in run["steps"]] == [("done", 1)] * 3
    assert row["power_state"] == "power on"


def test_at_its_start_a_clean_shows_an_empty_step_and_a_null_index(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = rig.node(
        "clean failed",
        driver_internal_info={"clean_steps": listed("raid.old"), "clean_step_index": 4},
    )
    seen: list[dict[str, Any]] = []
    workers = rig.service.runtime.workers
    run = workers.run

    def look_first(work: Callable[[], None], *share: Any) -> Place:
        seen.append(rig.get(node))
        return run(work, *share)

    monkeypatch.setattr(workers, "run", look_first)
    rig.act("provide", node)
    assert seen[0]["provision_state"] == "cleaning"
    assert seen[0]["clean_step"] == {}
    assert seen[0]["driver_internal_info"]["clean_step_index"] is None
    assert seen[0]["target_provision_state"] == "available"
    assert seen[0]["reservation"] == "here"


def test_arguments_reach_the_step(rig: ConductorFixture) -> None:
    node = rig.node()
    settings = [{"name": "turbo", "value": "on"}]
    step = {"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}
    row = rig.call("do_node_clean", node, clean_steps=[step])
    assert row["provision_state"] == "manageable"
    assert row["driver_internal_info"]["driver_notes"] == {"fake_bios_settings": settings}
    assert rig.run(node)["steps"][0]["args"] == {"settings": settings}


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (listed("bios.factory_reset", "bios.apply_configuration"), "settings (List of"),
        (listed("bios.factory_reset", "raid.no_such"), "raid"),
        (
            [*listed("bios.factory_reset"), {**listed("power.cycle")[0], "args": {"x": 1}}],
            "unexpected arguments: x",
        ),
    ],
)
def test_nothing_runs_unless_the_whole_list_is_right(
    rig: ConductorFixture, steps: list[dict[str, Any]], said: str
) -> None:
    node = rig.node()
    row = rig.call("do_node_clean", node, clean_steps=steps)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean failed", "manageable")
    assert row["last_error"].startswith(f"Cannot clean node {node}")
    assert said in row["last_error"]
    assert row["clean_step"] == {}
    assert (row["maintenance"], row["fault"]) == (True, "clean failure")
    assert rig.started(node) == []


def test_a_step_that_finds_bad_arguments_fails_and_earlier_steps_stand(
    rig: ConductorFixture,
) -> None:
    node = rig.node()
    bad = {"interface": "bios", "step": "apply_configuration", "args": {"settings": "none"}}
    row = rig.call("do_node_clean", node, clean_steps=[*listed("power.cycle"), bad])
    assert row["provision_state"] == "clean failed"
    assert "bios.apply_configuration" in row["last_error"]
    assert rig.step_states(node) == ["done", "failed"]
    assert row["power_state"] == "power on"


def test_steps_that_need_a_ramdisk_are_refused_without_one(rig: ConductorFixture) -> None:
    node = rig.node()
    row = rig.clean(node, "deploy.erase_devices", disable_ramdisk=True)
    assert row["provision_state"] == "clean failed"
    assert "requires booting a ramdisk" in row["last_error"]
    other = rig.node()
    assert rig.clean(other, "power.cycle", disable_ramdisk=True)["provision_state"] == "manageable"


def test_a_failed_clean_keeps_its_list_and_target_and_the_power(rig: ConductorFixture) -> None:
    node = rig.node(
        power_state="power on",
        driver_internal_info={"driver_notes": {"fake_power_state": "power on"}},
        fake_fail_steps={"deploy.erase_devices": "disk on fire"},
    )
    row = rig.clean(node, "bios.factory_reset", "deploy.erase_devices", "power.cycle")
    assert (row["provision_state"], row["target_provision_state"]) == ("clean failed", "manageable")
    assert row["last_error"] == "Clean step deploy.erase_devices failed: disk on fire"
    assert row["maintenance_reason"] == row["last_error"]
    assert (row["maintenance"], row["fault"]) == (True, "clean failure")
    assert row["clean_step"] == {}
    info = row["driver_internal_info"]
    assert [step["step"] for step in info["clean_steps"]][1] == "erase_devices"
    assert not {"clean_step_index", "declarative_cleaning"} & set(info)
    assert row["power_state"] == "power on"
    assert info["driver_notes"] == {"fake_power_state": "power on"}
    run = rig.run(node)
    assert run["state"] == "failed"
    assert run["error"]["step"] == "deploy.erase_devices"
    assert run["error"]["code"] == "CleanStepFailed"
    assert rig.step_states(node) == ["done", "failed", "skipped"]


def test_a_reason_for_maintenance_that_is_there_stays(rig: ConductorFixture) -> None:
    node = rig.node(
        maintenance=True,
        maintenance_reason="rack move",
        fake_fail_steps={"deploy.erase_devices": "no"},
    )
    row = rig.act("provide", node)
    assert row["provision_state"] == "clean failed"
    assert (row["maintenance_reason"], row["fault"]) == ("rack move", "clean failure")


@pytest.mark.parametrize(("option", "own"), [(False, None), (True, False), (False, False)])
def test_automated_cleaning_can_be_switched_off(
    build: Callable[..., ConductorFixture], option: bool, own: bool | None
) -> None:
    rig = build(conductor__automated_clean_enable=option)
    node = rig.node(automated_clean=own)
    row = rig.act("provide", node)
    assert row["provision_state"] == "available"
    assert rig.started(node) == []
    assert row["clean_step"] is None


def test_a_node_may_ask_for_cleaning_where_it_is_off_and_a_manual_clean_always_runs(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__automated_clean_enable=False)
    node = rig.node(automated_clean=True)
    rig.act("provide", node)
    assert rig.started(node) == AUTOMATED
    other = rig.node()
    rig.clean(other, "power.cycle")
    assert rig.started(other) == ["power.cycle"]


def test_configured_priorities_order_and_leave_out_steps(
    build: Callable[..., ConductorFixture],
) -> None:
    override = [{"deploy.erase_devices": 0, "bios.factory_reset": 200, "power.cycle": 0.5}]
    rig = build(conductor__clean_step_priority_override=override)
    node = rig.node()
    rig.act("provide", node)
    assert rig.started(node) == [
        "bios.factory_reset",
        "deploy.erase_devices_metadata",
        "power.cycle",
    ]


@pytest.mark.parametrize("own", [None, False])
def test_a_node_retired_while_cleaning_ends_manageable(
    rig: ConductorFixture, own: bool | None
) -> None:
    node = rig.node("active", fake_async_steps=["*"], fake_step_seconds=3600, retired=True)
    rig.edit(node, automated_clean=own)
    rig.ask("do_node_tear_down", node)
    if own is None:
        rig.reaches(node, "clean wait")
        rig.edit(node, driver_info={})
        rig.ring(node)
    row = rig.reaches(node, "manageable")
    assert row["target_provision_state"] is None
    assert "available" not in rig.path(node)


def test_a_node_retired_in_clean_wait_ends_manageable(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["deploy.erase_devices_metadata"], fake_step_seconds=3600)
    row = rig.act("provide", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean wait", "available")
    rig.edit(node, retired=True)
    rig.ring(node)
    rig.reaches(node, "manageable")


def test_a_manual_clean_is_refused_in_maintenance(rig: ConductorFixture) -> None:
    node = rig.node(maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.clean(node, "power.cycle")


def test_bad_settings_refuse_any_clean_at_once(rig: ConductorFixture) -> None:
    node = rig.node(fake_step_seconds=-1)
    with pytest.raises(errors.InvalidRequest, match="fake_step_seconds"):
        rig.clean(node, "power.cycle")
    with pytest.raises(errors.InvalidRequest, match="fake_step_seconds"):
        rig.act("provide", node)
    assert rig.get(node)["provision_state"] == "manageable"


def test_a_second_clean_knows_nothing_of_a_failed_first(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_steps={"power.cycle": "no"})
    rig.clean(node, "power.cycle")
    rig.edit(node, driver_info={}, maintenance=False, fault=None)
    rig.act("manage", node)
    row = rig.act("provide", node)
    assert (row["provision_state"], row["last_error"]) == ("available", None)
    assert rig.started(node) == ["power.cycle", *AUTOMATED]
