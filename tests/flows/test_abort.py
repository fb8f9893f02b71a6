"""Abort: where it is let in, what it leaves, and when it has to wait for a step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed

ABORTABLE = "deploy.erase_devices"
STUBBORN = "bios.factory_reset"
HOUR: dict[str, Any] = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}


def test_an_abortable_clean_step_is_called_off_at_once(rig: ConductorFixture) -> None:
    node = rig.node(**HOUR)
    rig.clean(node, ABORTABLE, STUBBORN)
    row = rig.act("abort", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("clean failed", "manageable")
    assert row["last_error"] == (
        f'By request, the clean operation was aborted during the step "{ABORTABLE}".'
    )
    assert (row["maintenance"], row["maintenance_reason"], row["fault"]) == (False, None, None)
    assert (row["clean_step"], row["wake_at"]) == ({}, None)
    info = row["driver_internal_info"]
    assert info["clean_steps"] is None
    assert not {"clean_step_index", "declarative_cleaning"} & set(info)
    run = rig.run(node)
    assert (run["state"], run["error"]["code"]) == ("aborted", "Aborted")
    assert run["error"]["step"] == ABORTABLE
    assert rig.step_states(node) == ["aborted", "skipped"]


def test_a_step_that_must_not_be_cut_short_ends_before_the_abort_does(
    rig: ConductorFixture,
) -> None:
    node = rig.node(**HOUR)
    rig.clean(node, STUBBORN, ABORTABLE)
    row = rig.act("abort", node)
    assert row["provision_state"] == "clean wait"
    assert row["clean_step"]["abort_after"] is True
    assert row["last_error"] is None
    (asked,) = rig.events(node, "abort_requested")
    assert (asked["requester"], asked["data"]["step"]) == ("tester", STUBBORN)
    rig.ring(node)
    row = rig.reaches(node, "clean failed")
    assert row["last_error"] == (
        f'By request, the clean operation was aborted after the step "{STUBBORN}".'
    )
    assert not row["maintenance"]
    assert rig.step_states(node) == ["done", "skipped"]
    run = rig.run(node)
    assert (run["state"], run["error"]["step"]) == ("aborted", STUBBORN)
    assert rig.path(node) == ["cleaning", "clean wait", "clean failed"]


def test_a_held_clean_can_be_called_off(rig: ConductorFixture) -> None:
    node = rig.node()
    rig.clean(node, "power.hold")
    row = rig.act("abort", node)
    assert (row["provision_state"], row["maintenance"]) == ("clean failed", False)


@pytest.mark.parametrize("steps", [None, [{**listed("bios.hold")[0], "args": {}, "priority": 200}]])
def test_a_deployment_is_called_off_without_cleaning(
    rig: ConductorFixture, steps: list[dict[str, Any]] | None
) -> None:
    node = rig.node("available", **HOUR)
    row = rig.call("do_node_deploy", node, deploy_steps=steps)
    assert row["provision_state"] == ("deploy hold" if steps else "wait call-back")
    row = rig.act("abort", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("deploy failed", "active")
    assert row["last_error"] == "By request, the deploy operation was aborted."
    assert not row["maintenance"]
    run = rig.run(node)
    assert run["state"] == "aborted"
    assert rig.step_states(node)[0] == "aborted"
    first = run["steps"][0]
    assert run["error"]["step"] == f"{first['interface']}.{first['step']}"


def test_an_inspection_is_called_off(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_verbs=["inspect"], fake_step_seconds=3600)
    rig.call("inspect_hardware", node)
    row = rig.act("abort", node)
    assert (row["provision_state"], row["wake_at"]) == ("inspect failed", None)
    assert "By request" in row["last_error"]
    assert row["properties"] == {}


def test_a_rescue_is_called_off_and_forgets_its_password(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_async_verbs=["rescue"], fake_step_seconds=3600)
    rig.call("do_node_rescue", node, rescue_password="sesame")
    row = rig.act("abort", node)
    assert (row["provision_state"], row["instance_info"]) == ("rescue failed", {})
    assert (row["maintenance"], row["fault"]) == (False, None)


@pytest.mark.parametrize("last", ["raid.apply_configuration", "power.hold"])
def test_a_service_is_called_off_and_the_node_is_active_again(
    rig: ConductorFixture, last: str
) -> None:
    node = rig.node("active", **HOUR)
    config = {"raid_config": {"logical_disks": [{"size_gb": 1, "raid_level": "0"}]}}
    steps = [{**listed(last)[0], **({"args": config} if "raid" in last else {})}]
    rig.call("do_node_service", node, service_steps=steps)
    if "raid" in last:
        assert rig.act("abort", node)["service_step"]["abort_after"] is True
        rig.ring(node)
        row = rig.reaches(node, "active")
    else:
        row = rig.act("abort", node)
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["last_error"] == "By request, the service operation was aborted."
    assert (row["service_step"], row["maintenance"]) == (None, False)
    assert rig.runs(node)[0]["error"]["step"] == last
    assert rig.path(node)[-2:] == ["service failed", "active"]
    assert rig.run(node)["state"] == "aborted"


def test_failed_service_is_aborted_after_the_end_of_maintenance(rig: ConductorFixture) -> None:
    node = rig.node("service failed", maintenance=True, last_error="kept")
    with pytest.raises(errors.Conflict, match="maintenance"):
        rig.act("abort", node)
    rig.edit(node, maintenance=False)
    row = rig.act("abort", node)
    assert row["provision_state"] == "active"
    assert row["last_error"] == "By request, the service operation was aborted."
    run = rig.run(node)
    assert (run["verb"], run["state"], row["run_uuid"]) == ("abort", "done", None)


def test_abort_of_a_failed_service_whose_driver_fails_ends_as_failed(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=failing("tear_down_service"))
    node = rig.node("service failed")
    row = rig.act("abort", node)
    assert row["provision_state"] == "active"
    assert row["last_error"].startswith("By request, the service operation was aborted. Also, ")
    assert "tearing down service failed: Unexpected KeyError" in row["last_error"]
    run = rig.run(node)
    assert (run["verb"], run["state"], row["run_uuid"]) == ("abort", "failed", None)


@pytest.mark.parametrize("state", ["cleaning", "deploying", "manageable", "active", "inspecting"])
def test_abort_is_refused_in_other_states(
    build: Callable[..., ConductorFixture], state: str
) -> None:
    rig = build()
    node = rig.node(state)
    with pytest.raises(errors.InvalidState):
        rig.act("abort", node)
    assert rig.get(node)["provision_state"] == state


def failing(name: str) -> Any:
    """Drivers that answer one call with an error nobody expects."""

    def around(_kind: str, called: str, call: Callable[[], Any]) -> Any:
        if called == name:
            raise KeyError("a bug")
        return call()

    return crashes.Drivers(drivers(), around)


def test_abort_stands_and_reports_a_failed_clean_up(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=failing("tear_down_cleaning"))
    node = rig.node(**HOUR)
    rig.clean(node, ABORTABLE)
    row = rig.act("abort", node)
    assert row["provision_state"] == "clean failed"
    assert "Also, tearing down cleaning failed: Unexpected KeyError" in row["last_error"]


def test_the_state_has_changed_when_the_caller_gets_its_answer(
    build: Callable[..., ConductorFixture],
) -> None:
    answered = threading.Event()

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "tear_down_cleaning":
            assert answered.wait(10)
        return call()

    rig = build(registry=crashes.Drivers(drivers(), around))
    node = rig.node(**HOUR)
    rig.clean(node, ABORTABLE)
    rig.ask("do_provisioning_action", node, action="abort")
    row = rig.get(node)
    answered.set()
    assert (row["provision_state"], row["reservation"]) == ("clean failed", "here")
    assert "By request" in row["last_error"]
    rig.settled(node)


def test_a_rescue_that_cannot_be_put_away_is_a_fault(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=failing("clean_up"))
    node = rig.node("active", fake_async_verbs=["rescue"], fake_step_seconds=3600)
    rig.call("do_node_rescue", node, rescue_password="sesame")
    row = rig.act("abort", node)
    assert row["provision_state"] == "rescue failed"
    assert (row["maintenance"], row["fault"]) == (True, "rescue abort failure")


# -- a death in the middle -------------------------------------------------------------------

UNDER_WAY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "clean": ("manageable", "do_node_clean", {"clean_steps": listed(ABORTABLE)}),
    "deploy": ("available", "do_node_deploy", {}),
    "service": ("active", "do_node_service", {"service_steps": listed("power.wait")}),
    "rescue": ("active", "do_node_rescue", {"rescue_password": "secret"}),
}


@pytest.mark.parametrize("what", UNDER_WAY)
def test_a_death_right_after_an_abort_leaves_neither_token_nor_password(
    build: Callable[..., ConductorFixture], sqlite_database: Database, what: str
) -> None:
    life = crashes.Life()
    rig = build(crashes.database(sqlite_database, life))
    start, method, body = UNDER_WAY[what]
    deploy = [{"interface": "power", "step": "wait", "args": {}, "priority": 50}]
    body = body or {"deploy_steps": deploy}
    node = rig.node(start, **HOUR, fake_async_verbs=["rescue"])
    rig.call(method, node, **body)
    rig.endpoints.get_node_with_token(rig.who, node_uuid=node)
    life.arm(commit=1)  # takes the lock and aborts
    with pytest.raises(crashes.Died):
        rig.ask("do_provisioning_action", node, action="abort")
    again = build()
    row = again.settled(node)
    # What was set up is put away by whoever comes after; then an aborted service is over.
    assert row["provision_state"] == ("active" if what == "service" else f"{what} failed")
    assert not {"agent_secret_token", "untidied"} & row["driver_internal_info"].keys()
    assert row["instance_info"] == {}
    assert again.run(node)["state"] == "aborted"
