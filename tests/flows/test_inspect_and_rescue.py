"""Inspection and rescue: at once, through their wait states, and failing."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from tests.flows.rig import Rig

FOUND = {"cpu_arch": "x86_64", "cpus": 8, "memory_mb": 16384, "local_gb": 100}


def rescue(rig: Rig, node: str) -> dict[str, Any]:
    return rig.call("do_node_rescue", node, rescue_password="sesame")


def test_inspection_fills_in_the_properties(rig: Rig) -> None:
    node = rig.node(properties={"cpus": 2})
    row = rig.call("inspect_hardware", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("manageable", None)
    assert row["properties"] == {**FOUND, "cpus": 2}
    assert row["inspection_started_at"] is None
    assert row["inspection_finished_at"] is not None
    assert rig.path(node) == ["inspecting", "manageable"]


def test_inspection_may_wait_and_ends_by_itself(rig: Rig) -> None:
    node = rig.node(fake_async_verbs=["inspect"], fake_step_seconds=3600)
    row = rig.call("inspect_hardware", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("inspect wait", "manageable")
    assert row["inspection_started_at"] is not None
    assert rig.run(node)["state"] == "waiting"
    rig.ring(node)
    row = rig.reaches(node, "manageable")
    assert row["properties"] == FOUND
    assert rig.run(node)["state"] == "done"


@pytest.mark.parametrize("waiting", [[], ["inspect"]])
def test_a_failed_inspection_says_why_and_may_be_repeated(rig: Rig, waiting: list[str]) -> None:
    node = rig.node(fake_fail_verbs={"inspect": "no agent"}, fake_async_verbs=waiting)
    rig.ask("inspect_hardware", node)
    row = rig.reaches(node, "inspect failed")
    assert row["target_provision_state"] == "manageable"
    assert "no agent" in row["last_error"]
    assert not row["maintenance"]
    rig.edit(node, driver_info={})
    row = rig.call("inspect_hardware", node)
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)


def test_rescue_and_unrescue(rig: Rig) -> None:
    node = rig.node("active", instance_info={"image": "x"})
    row = rescue(rig, node)
    assert (row["provision_state"], row["target_provision_state"]) == ("rescue", None)
    assert row["instance_info"]["rescue_password"] == "sesame"
    row = rig.call("do_node_unrescue", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["instance_info"] == {"image": "x"}
    assert rig.path(node) == ["rescuing", "rescue", "unrescuing", "active"]


def test_rescue_may_wait_and_ends_by_itself(rig: Rig) -> None:
    node = rig.node("active", fake_async_verbs=["rescue"], fake_step_seconds=3600)
    row = rescue(rig, node)
    assert (row["provision_state"], row["target_provision_state"]) == ("rescue wait", "rescue")
    rig.ring(node)
    rig.reaches(node, "rescue")
    assert rig.path(node) == ["rescuing", "rescue wait", "rescuing", "rescue"]
    assert rig.run(node)["state"] == "done"


@pytest.mark.parametrize("waiting", [[], ["rescue"]])
def test_a_failed_rescue_forgets_the_password(rig: Rig, waiting: list[str]) -> None:
    node = rig.node("active", fake_fail_verbs={"rescue": "no boot"}, fake_async_verbs=waiting)
    rig.ask("do_node_rescue", node, rescue_password="sesame")
    row = rig.reaches(node, "rescue failed")
    assert row["target_provision_state"] == "rescue"
    assert "no boot" in row["last_error"]
    assert row["instance_info"] == {}


def test_a_failed_unrescue_may_be_repeated(rig: Rig) -> None:
    node = rig.node("rescue", fake_fail_verbs={"unrescue": "no boot"})
    row = rig.call("do_node_unrescue", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("unrescue failed", "active")
    assert "no boot" in row["last_error"]
    rig.edit(node, driver_info={})
    assert rig.call("do_node_unrescue", node)["provision_state"] == "active"


def test_rescue_is_refused_in_maintenance_and_without_one(rig: Rig) -> None:
    node = rig.node("active", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rescue(rig, node)
    other = rig.node("rescue", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.call("do_node_unrescue", other)
