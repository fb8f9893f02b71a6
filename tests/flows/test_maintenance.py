"""Maintenance: what stops a node's clock, and what ends where nothing may go on during it.

Maintenance that a fault has set must not keep a node waiting for ever (C31).
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, sweeps
from tests.support.conductor_fixture import ConductorFixture


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
    strict.ask("do_node_tear_down", node)
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
