"""A conductor dies in what is no verb's own flow: time-outs, aborts, orders, deletions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from ironic_lite.conductor.watch.timeouts import Timeouts
from ironic_lite.core import clock
from ironic_lite.db.tables import models
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.crashes import Act, Scene, Stage, rests

HOUR = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
SLOW = {"fake_async_verbs": ["inspect", "rescue"], "fake_step_seconds": 3600}


CLEAN = ("manageable", "clean")
WAITS: Mapping[str, Scene] = {
    scene.end: scene
    for scene in (
        Scene(*CLEAN, {"clean_steps": listed("deploy.erase_devices")}, "clean wait", columns=HOUR),
        Scene(*CLEAN, {"clean_steps": listed("power.hold", "power.cycle")}, "clean hold"),
        Scene("available", "deploy", {}, "wait call-back", columns=HOUR),
        Scene("active", "service", {"service_steps": listed("power.wait")}, "service wait"),
        Scene("manageable", "inspect", {}, "inspect wait", columns=SLOW),
        Scene("active", "rescue", {"rescue_password": "sesame"}, "rescue wait", columns=SLOW),
    )
}


def asks(method: str, **args: Any) -> Act:
    return lambda rig, node: rig.ask(method, node, **args)


abort = asks("abort")
unhold = asks("unhold")
delete = asks("delete")


def times_out(rig: ConductorFixture, node: str) -> None:
    """Let a day have passed since the wait began."""
    old = {"provision_updated_at": clock.after(-24 * 3600), "wake_at": None}
    change = models.nodes.update().where(models.nodes.c.uuid == node)
    rig.database.write(lambda conn: conn.execute(change, old))
    Timeouts(rig.tasks, rig.service.ownership).sweep()


class Case(NamedTuple):
    """Where the node is, what is done while its conductor may die, and where that ends."""

    start: str
    act: Act
    end: str
    deaths: int = 2


def ends(state: str, event: str) -> str:
    return str(states.follow(State(state), event))


BUSY_WAITS = [name for name in WAITS if name != "clean hold"]
CASES = {
    **{f"time-out in {name}": Case(name, times_out, ends(name, "fail"), 3) for name in BUSY_WAITS},
    **{
        f"abort in {name}": Case(
            name, abort, "active" if name == "service wait" else ends(name, "abort"), 3
        )
        for name in WAITS
    },
    "abort of a failed service": Case("service failed", abort, "active", 2),
    "unhold": Case("clean hold", unhold, "manageable", 4),
    "delete in wait call-back": Case("wait call-back", delete, "available", 5),
    "delete in rescue wait": Case("rescue wait", delete, "available", 5),
    "delete in service wait": Case("service wait", delete, "available", 5),
    "boot mode": Case("active", asks("change_node_boot_mode", mode="uefi"), "active", 3),
    "power change": Case("active", asks("change_node_power_state", target="power on"), "active", 3),
}


def begin(rig: ConductorFixture, start: str) -> str:
    """Return a node that waits, or rests, in this state."""
    wait = WAITS.get(start)
    if wait is None:
        return rig.node(start, power_state="power on")
    node = wait.begin(rig)
    assert rig.call(wait.method, node, **wait.args)["provision_state"] == start
    assert rig.service.runtime.workers.wait_idle(60)
    rig.edit(node, driver_info={})  # whatever comes now takes no time
    return node


def settled(rig: ConductorFixture, node: str) -> bool:
    row = rig.get(node)
    busy = states.kind(State(row["provision_state"])) is Kind.BUSY
    due = row["wake_at"] is not None and row["wake_at"] <= clock.now()
    idle = rig.service.runtime.workers.busy == 0
    return idle and row["reservation"] is None and not busy and not due


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_operation_ends_whenever_a_conductor_dies(
    stage: Stage, name: str, what: str, host: str
) -> None:
    case = CASES[name]
    for moment in stage.moments(what, least=0 if what == "call" else case.deaths):
        rig, node = moment.play(lambda rig: begin(rig, case.start), case.act, host, settled)
        if rig.get(node)["provision_state"] == case.start:  # not begun, or to be done again
            case.act(rig, node)
        rests(rig, node, settled)
        check(rig, node, case)


def test_an_accepted_abort_is_not_lost(stage: Stage) -> None:
    for moment in stage.moments("commit", first=2, least=3):
        accepted = []

        def act(rig: ConductorFixture, node: str) -> None:
            abort(rig, node)
            accepted.append(node)  # noqa: B023

        rig, node = moment.play(lambda rig: begin(rig, "clean wait"), act, ended=settled)
        assert rig.get(node)["provision_state"] == "clean failed"
        assert bool(accepted) == (moment.number > 2)


def check(rig: ConductorFixture, node: str, case: Case) -> None:
    """Check what no death may damage."""
    row = rig.get(node)
    assert row["provision_state"] == case.end, rig.about(node)
    assert (row["lock_token"], row["run_uuid"], row["wake_at"]) == (None, None, None)
    assert row["target_power_state"] is None
    assert not {"untidied", "begun", "order"} & row["driver_internal_info"].keys()
    failed = states.kind(State(case.end)) is Kind.FAIL
    assert not failed or row["last_error"]
    for run in rig.runs(node):
        assert run["ended_at"] is not None
        assert not {step["state"] for step in run["steps"]} & {"running", "waiting", "pending"}
    if case.act is times_out:
        assert "Timeout reached" in row["last_error"]
