"""Inspection and rescue: at once, through their wait states, and failing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from oslo_utils import secretutils

from ironic_lite import errors
from ironic_lite.db.queries import nodes, ports
from tests.support.conductor_fixture import ConductorFixture

FOUND = {"cpu_arch": "x86_64", "cpus": 8, "memory_mb": 16384, "local_gb": 100}


def rescue(rig: ConductorFixture, node: str) -> dict[str, Any]:
    return rig.call("do_node_rescue", node, rescue_password="sesame")


def test_inspection_fills_in_the_properties(rig: ConductorFixture) -> None:
    node = rig.node(properties={"cpus": 2})
    row = rig.call("inspect_hardware", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("manageable", None)
    assert row["properties"] == {**FOUND, "cpus": 2}
    assert row["inspection_started_at"] is None
    assert row["inspection_finished_at"] is not None
    assert rig.path(node) == ["inspecting", "manageable"]


def test_inspection_may_wait_and_ends_by_itself(rig: ConductorFixture) -> None:
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
def test_a_failed_inspection_says_why_and_may_be_repeated(
    rig: ConductorFixture, waiting: list[str]
) -> None:
    node = rig.node(fake_fail_verbs={"inspect": "no agent"}, fake_async_verbs=waiting)
    rig.ask("inspect_hardware", node)
    row = rig.reaches(node, "inspect failed")
    assert row["target_provision_state"] == "manageable"
    assert "no agent" in row["last_error"]
    assert not row["maintenance"]
    rig.edit(node, driver_info={})
    row = rig.call("inspect_hardware", node)
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)


def test_inspection_adds_ports_for_cards_that_no_node_has(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    node, other = rig.node(), rig.node()
    with rig.tasks.lock(rig.who, other) as task:
        task.add_ports(["52:54:00:00:00:01"])
    with rig.tasks.lock(rig.who, node) as task:
        assert list(task.ports) == []
        task.add_ports(["52:54:00:00:00:02", "52:54:00:00:00:0A", "52:54:00:00:00:01", "n/a", ""])
        task.add_ports(["52:54:00:00:00:0a"])
        cards = task.ports
    assert [port.address for port in cards] == ["52:54:00:00:00:02", "52:54:00:00:00:0a"]
    assert [port.pxe_enabled for port in cards] == [True, True]
    told = rig.events(node, "port_created")
    assert [event["data"]["port"] for event in told] == [port.uuid for port in cards]
    assert {event["requester"] for event in told} == {"tester"}
    assert "no port is added for a network card with the address 'n/a'" in caplog.text


def test_machine_with_many_odd_cards_fills_no_log(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    with rig.tasks.lock(rig.who, rig.node()) as task:
        task.add_ports([f"card-{number}" for number in range(500)])
    assert caplog.text.count("no port is added") == 20
    assert "480 more remarks are left out" in caplog.text


def test_task_that_lost_the_lock_adds_no_ports(rig: ConductorFixture) -> None:
    node = rig.node()
    with pytest.raises(errors.LockLost), rig.tasks.lock(rig.who, node) as task:
        rig.database.write(lambda conn: nodes.unlock(conn, node, token=rig.get(node)["lock_token"]))
        task.add_ports(["52:54:00:00:00:01"])
    assert rig.events(node) == []
    assert rig.database.read(lambda conn: ports.of_node(conn, node)) == []


def test_rescue_and_unrescue(rig: ConductorFixture) -> None:
    node = rig.node("active", instance_info={"image": "x"})
    row = rescue(rig, node)
    assert (row["provision_state"], row["target_provision_state"]) == ("rescue", None)
    assert set(row["instance_info"]) == {"image", "hashed_rescue_password"}
    hashed = row["instance_info"]["hashed_rescue_password"]
    assert hashed.startswith("$5$")
    assert secretutils.crypt_password("sesame", hashed) == hashed
    row = rig.call("do_node_unrescue", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["instance_info"] == {"image": "x"}
    assert rig.path(node) == ["rescuing", "rescue", "unrescuing", "active"]


def test_rescue_may_wait_and_ends_by_itself(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_async_verbs=["rescue"], fake_step_seconds=3600)
    row = rescue(rig, node)
    assert (row["provision_state"], row["target_provision_state"]) == ("rescue wait", "rescue")
    rig.ring(node)
    rig.reaches(node, "rescue")
    assert rig.path(node) == ["rescuing", "rescue wait", "rescuing", "rescue"]
    assert rig.run(node)["state"] == "done"


def test_the_password_itself_is_kept_only_where_ramdisks_need_it(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(
        conductor__require_rescue_password_hashed=False,
        conductor__rescue_password_hash_algorithm="sha512",
    )
    node = rig.node("active")
    info = rescue(rig, node)["instance_info"]
    assert info["rescue_password"] == "sesame"
    assert info["hashed_rescue_password"].startswith("$6$")
    assert rig.call("do_node_unrescue", node)["instance_info"] == {}


def test_another_rescue_replaces_the_password(rig: ConductorFixture) -> None:
    node = rig.node("rescue", instance_info={"rescue_password": "old", "image": "x"})
    info = rescue(rig, node)["instance_info"]
    assert set(info) == {"image", "hashed_rescue_password"}


def test_a_password_no_system_takes_is_refused_and_changes_nothing(rig: ConductorFixture) -> None:
    node = rig.node("active")
    before = rig.get(node)
    with pytest.raises(errors.InvalidParameter, match="rescue_password: has a null character"):
        rig.ask("do_node_rescue", node, rescue_password="se\0same")
    assert rig.get(node) == before


@pytest.mark.parametrize("end", ["unrescue", "unrescue fails", "rescue fails", "abort", "deleted"])
def test_no_end_of_a_rescue_leaves_a_password(
    rig: ConductorFixture, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fails = {"unrescue fails": "unrescue", "rescue fails": "rescue"}.get(end)
    node = rig.node(
        "active",
        fake_fail_verbs={fails: "no boot"} if fails else {},
        fake_async_verbs=["rescue"] if end == "abort" else [],
        fake_step_seconds=3600 if end == "abort" else 0,
        instance_info={"image": "x"},
    )
    row = rescue(rig, node)
    seen = [row["instance_info"].get("hashed_rescue_password")]
    if end == "abort":
        assert row["provision_state"] == "rescue wait"
        row = rig.act("abort", node)
    elif end == "deleted":
        row = rig.call("do_node_tear_down", node)
    elif end != "rescue fails":
        row = rig.call("do_node_unrescue", node)
    assert row["instance_info"] in ({"image": "x"}, {})
    told = json.dumps([rig.events(node), rig.runs(node), row], default=str) + caplog.text
    assert "sesame" not in told
    assert not any(hashed in told for hashed in seen if hashed)


@pytest.mark.parametrize("waiting", [[], ["rescue"]])
def test_a_failed_rescue_forgets_the_password(rig: ConductorFixture, waiting: list[str]) -> None:
    node = rig.node("active", fake_fail_verbs={"rescue": "no boot"}, fake_async_verbs=waiting)
    rig.ask("do_node_rescue", node, rescue_password="sesame")
    row = rig.reaches(node, "rescue failed")
    assert row["target_provision_state"] == "rescue"
    assert "no boot" in row["last_error"]
    assert row["instance_info"] == {}


def test_a_failed_unrescue_may_be_repeated(rig: ConductorFixture) -> None:
    node = rig.node("rescue", fake_fail_verbs={"unrescue": "no boot"})
    row = rig.call("do_node_unrescue", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("unrescue failed", "active")
    assert "no boot" in row["last_error"]
    rig.edit(node, driver_info={})
    assert rig.call("do_node_unrescue", node)["provision_state"] == "active"


def test_rescue_is_refused_in_maintenance_and_without_one(rig: ConductorFixture) -> None:
    node = rig.node("active", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rescue(rig, node)
    other = rig.node("rescue", maintenance=True)
    with pytest.raises(errors.NodeInMaintenance):
        rig.call("do_node_unrescue", other)
