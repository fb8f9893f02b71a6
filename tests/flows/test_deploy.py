"""Deploying, rebuilding, and removing instances."""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import conductor_fixture
from tests.support.conductor_fixture import ConductorFixture

STEPS = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
RAID = {
    "interface": "raid",
    "step": "apply_configuration",
    "args": {"raid_config": {"logical_disks": [{"size_gb": 1, "raid_level": "0"}]}},
    "priority": 90,
}


def test_a_deployment_runs_its_steps_and_ends_active_with_the_power_on(
    rig: ConductorFixture,
) -> None:
    node = rig.node("available")
    row = rig.call("do_node_deploy", node, configdrive={"meta_data": {}}, deploy_steps=[RAID])
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["power_state"] == "power on"
    assert row["instance_info"] == {"configdrive": {"meta_data": {}}}
    assert row["raid_config"]["logical_disks"] == [{"size_gb": 1, "raid_level": "0"}]
    assert row["deploy_step"] is None
    info = row["driver_internal_info"]
    assert info["deploy_steps"] is None
    assert "deploy_step_index" not in info
    assert rig.started(node) == [STEPS[0], "raid.apply_configuration", *STEPS[1:]]
    assert rig.path(node) == ["deploying", "active"]
    assert (rig.run(node)["verb"], rig.run(node)["state"]) == ("active", "done")


def test_a_waiting_deployment_shows_where_it_stands(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_async_steps=["deploy.deploy"], fake_step_seconds=3600)
    row = rig.call("do_node_deploy", node, deploy_steps=[RAID])
    assert (row["provision_state"], row["target_provision_state"]) == ("wait call-back", "active")
    info = row["driver_internal_info"]
    assert info["deploy_step_index"] == 0
    assert info["user_deploy_steps"] == [RAID]
    assert info["deploy_steps"][1] == RAID
    assert info["deploy_steps"][2]["step"] == "write_image"
    assert row["deploy_step"] == info["deploy_steps"][0]
    assert row["deploy_step"]["step"] == "deploy"


def test_rebuild_deploys_again_without_cleaning(rig: ConductorFixture) -> None:
    node = rig.node("active")
    row = rig.call("do_node_deploy", node, rebuild=True)
    assert row["provision_state"] == "active"
    assert rig.path(node) == ["deploying", "active"]
    assert rig.started(node) == STEPS
    assert rig.run(node)["verb"] == "rebuild"


def test_a_failed_deployment_keeps_its_step_until_the_next_try(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_fail_steps={"deploy.write_image": "no space"})
    row = rig.call("do_node_deploy", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("deploy failed", "active")
    assert row["last_error"] == "Deploy step deploy.write_image failed: no space"
    assert (row["maintenance"], row["fault"]) == (False, None)
    assert row["deploy_step"]["step"] == "write_image"
    assert row["driver_internal_info"]["deploy_step_index"] == 1
    assert len(row["driver_internal_info"]["deploy_steps"]) == 3
    assert rig.step_states(node) == ["done", "failed", "skipped"]
    rig.edit(node, driver_info={})
    row = rig.call("do_node_deploy", node, rebuild=True)
    assert (row["provision_state"], row["last_error"]) == ("active", None)
    assert row["deploy_step"] is None
    assert rig.started(node)[2:] == STEPS


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({**RAID, "args": {}}, "raid_config"),
        ({**RAID, "step": "no_such"}, "does not support"),
        ({"interface": "deploy", "step": "deploy", "args": {}, "priority": 5}, "core step"),
    ],
)
def test_a_deployment_that_cannot_work_is_refused_at_once(
    rig: ConductorFixture, step: dict[str, Any], said: str
) -> None:
    node = rig.node("available")
    before = rig.get(node)
    with pytest.raises(errors.InvalidRequest, match=said) as refusal:
        rig.call("do_node_deploy", node, deploy_steps=[step])
    assert "Failed to validate deploy or power info for node" in str(refusal.value)
    assert rig.get(node) == before


@pytest.mark.parametrize(
    ("drive", "said"),
    [
        ("ftp://images.example/drive", "http://, https://"),
        ("file:///etc/passwd", "must be of http or https"),
        ("http://169.254.169.254/drive", "closed by"),
        (base64.b64encode(gzip.compress(os.urandom(999))[:-20]).decode(), "truncated"),
    ],
    ids=["ftp", "file", "closed network", "half"],
)
def test_drive_of_a_request_is_checked_with_the_request(
    sqlite_database: Database, drive: str, said: str
) -> None:
    """With the paths of the node's own drive; a refusal stores nothing."""
    conf = conductor_fixture.configure(
        DEFAULT__enabled_hardware_types=["manual-management"],
        DEFAULT__enabled_deploy_interfaces=["direct"],
        DEFAULT__default_boot_interface="fake",
        DEFAULT__default_power_interface="fake",
    )
    registry = Registry.load(Settings.read(conf))
    rig = conductor_fixture.build(sqlite_database, registry)
    with contextlib.ExitStack() as ending:
        ending.callback(rig.bury)
        node = rig.node(
            "available",
            driver="manual-management",
            instance_info={"image_source": "http://x/y.raw", "image_checksum": "0" * 64},
        )
        before = rig.get(node)
        with pytest.raises(errors.InvalidParameter, match=said) as refusal:
            rig.call("do_node_deploy", node, configdrive=drive)
        assert refusal.value.facts["path"] == "instance_info/configdrive"
        assert rig.get(node) == before


@pytest.mark.parametrize("rebuild", [False, True])
def test_no_deployment_in_maintenance(rig: ConductorFixture, rebuild: bool) -> None:
    node = rig.node("active" if rebuild else "available", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.call("do_node_deploy", node, rebuild=rebuild)


def test_a_protected_node_keeps_its_instance(rig: ConductorFixture) -> None:
    node = rig.node("active", protected=True)
    with pytest.raises(errors.NodeProtected):
        rig.call("do_node_deploy", node, rebuild=True)
    with pytest.raises(errors.NodeProtected):
        rig.call("do_node_tear_down", node)
    assert rig.get(node)["provision_state"] == "active"


# -- removing --------------------------------------------------------------------------------


def test_deleted_forgets_the_instance_cleans_and_ends_available(rig: ConductorFixture) -> None:
    node = rig.node(
        "active",
        instance_uuid="7e0ad7a2-0d2c-4dd5-8de7-3d6a1a8f7b5e",
        instance_name="web",
        instance_info={"image": "x", "rescue_password": "s"},
        power_state="power on",
        driver_internal_info={"user_deploy_steps": [], "deploy_steps": None},
    )
    row = rig.call("do_node_tear_down", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("available", None)
    assert (row["instance_uuid"], row["instance_name"], row["instance_info"]) == (None, None, {})
    assert row["power_state"] == "power off"
    assert not {"user_deploy_steps", "deploy_steps"} & set(row["driver_internal_info"])
    assert rig.path(node) == ["deleting", "cleaning", "available"]
    assert len(rig.runs(node)) == 1
    run = rig.run(node)
    assert (run["verb"], run["state"], len(run["steps"])) == ("deleted", "done", 2)


@pytest.mark.parametrize(
    "state",
    [
        "error",
        "deploy failed",
        "wait call-back",
        "rescue",
        "rescue wait",
        "rescue failed",
        "unrescue failed",
        "service wait",
        "service failed",
    ],
)
def test_an_instance_can_be_removed_from_each_state_that_may_have_one(
    rig: ConductorFixture, state: str
) -> None:
    node = rig.node(state, instance_info={"rescue_password": "s"}, deploy_step={"step": "x"})
    row = rig.call("do_node_tear_down", node)
    assert row["provision_state"] == "available"
    assert row["instance_info"] == {}
    assert row["deploy_step"] is None


def test_deleted_in_the_middle_of_a_deployment_ends_that_run_and_its_timer(
    rig: ConductorFixture,
) -> None:
    node = rig.node("available", fake_async_steps=["deploy.deploy"], fake_step_seconds=3600)
    rig.call("do_node_deploy", node)
    rig.edit(node, driver_info={})
    row = rig.call("do_node_tear_down", node)
    assert row["provision_state"] == "available"
    assert (row["deploy_step"], row["wake_at"]) == (None, None)
    deploy, delete = rig.runs(node)
    assert (deploy["verb"], deploy["state"]) == ("active", "aborted")
    assert "deleted" in deploy["error"]["text"]
    assert [step["state"] for step in deploy["steps"]] == ["aborted", "skipped", "skipped"]
    assert deploy["ended_at"] is not None
    assert (delete["verb"], delete["state"]) == ("deleted", "done")


def test_a_machine_that_cannot_be_torn_down_ends_in_error_and_may_be_tried_again(
    rig: ConductorFixture,
) -> None:
    node = rig.node("active", fake_fail_verbs={"delete": "switch gone"})
    row = rig.call("do_node_tear_down", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("error", None)
    assert "switch gone" in row["last_error"]
    rig.edit(node, driver_info={})
    assert rig.call("do_node_tear_down", node)["provision_state"] == "available"


def test_cleaning_that_fails_after_deletion_shows_clean_failed(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_fail_steps={"deploy.erase_devices": "stuck"})
    row = rig.call("do_node_tear_down", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean failed", "available")
