"""Each row of the table ``recovery``: a conductor dies in each moment, and one comes after."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.conductor.engine import stepper
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, runs
from ironic_lite.db.tables import models
from ironic_lite.domain import activities, recovery, states
from ironic_lite.domain.recovery import CrashPoint, RecoveryAction
from ironic_lite.domain.states import Kind, State
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.crashes import Act, Scene, Stage, rests

S = State
LONG_AGO = datetime.datetime(1970, 1, 1)
RESCUE = {"rescue_password": "sesame"}
CLEAN = {"clean_steps": listed("bios.factory_reset", "deploy.erase_devices")}
SERVICE = {"service_steps": listed("vendor.log_passthrough", "vendor.log_passthrough")}
SCENES: dict[State, Scene] = {
    S.VERIFYING: Scene("enroll", "manage", {}, "manageable"),
    S.INSPECTING: Scene("manageable", "inspect", {}, "manageable"),
    S.CLEANING: Scene("manageable", "clean", CLEAN, "manageable"),
    S.DEPLOYING: Scene("available", "deploy", {}, "active"),
    S.DELETING: Scene("active", "delete", {}, "available"),
    S.ADOPTING: Scene("manageable", "adopt", {}, "active"),
    S.RESCUING: Scene("active", "rescue", RESCUE, "rescue"),
    S.UNRESCUING: Scene("rescue", "unrescue", {}, "active"),
    S.SERVICING: Scene("active", "service", SERVICE, "active"),
}
HOUR = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
SLOW = {"fake_async_verbs": ["inspect", "rescue"], "fake_step_seconds": 3600}
ABORTABLE = {"clean_steps": listed("deploy.erase_devices")}
PATIENT = {"service_steps": listed("power.wait")}
WAITS: dict[State, Scene] = {
    S.CLEANWAIT: SCENES[S.CLEANING]._replace(args=ABORTABLE, columns=HOUR),
    S.DEPLOYWAIT: SCENES[S.DEPLOYING]._replace(columns=HOUR),
    S.SERVICEWAIT: SCENES[S.SERVICING]._replace(args=PATIENT),
    S.INSPECTWAIT: SCENES[S.INSPECTING]._replace(columns=SLOW),
    S.RESCUEWAIT: SCENES[S.RESCUING]._replace(columns=SLOW),
}
NO_CALL = {(S.SERVICING, CrashPoint.BEFORE)}  # without a ramdisk nothing is prepared
TIDYING = {  # the driver's call that an abort ends with
    S.CLEANWAIT: "deploy.tear_down_cleaning",
    S.DEPLOYWAIT: "deploy.clean_up",
    S.SERVICEWAIT: None,  # there is no ramdisk to be put away
    S.INSPECTWAIT: "inspect.abort",
    S.RESCUEWAIT: "rescue.clean_up",
}


def stands(database: Database, node: str, what: str) -> tuple[State, CrashPoint]:
    """Return where a node stands and how far its conductor has come, by what is in the tables.

    :param what: what has just happened, a ``commit`` or a ``call``: verbs without steps are begun
        by their first call.
    """
    row = database.read(lambda conn: nodes.get(conn, node))
    state, info = State(row["provision_state"]), row["driver_internal_info"]
    activity = activities.stepping(state)
    if activity is None:
        return state, CrashPoint.DURING if what == "call" or info.get(
            "untidied"
        ) else CrashPoint.BEFORE
    index = info.get(f"{activity.kind}_step_index")
    if index is None:
        return state, CrashPoint.BEFORE
    recorded = database.read(lambda conn: runs.steps(conn, row["run_uuid"]))
    return state, CrashPoint.AFTER if recorded[index]["state"] == "done" else CrashPoint.DURING


@pytest.fixture
def stage(stages: Callable[..., Stage]) -> Stage:
    """A stage whose dead conductors have signed off."""
    return stages(dead="offline")


def kill(
    stage: Stage, scene: Scene, act: Act, at: tuple[State, CrashPoint], what: str
) -> tuple[ConductorFixture, str]:
    """Return a conductor that the first commit or call there has killed, and its node."""
    life = crashes.Life()
    rig = stage.start(life)
    node = scene.begin(rig)
    life.doom = lambda done: done == what and stands(stage.database, node, done) == at
    assert stage.run(rig, life, node, act), (*at, what)
    stage.called.clear()
    return rig, node


# -- busy states -----------------------------------------------------------------------------


def cells() -> Iterator[tuple[State, CrashPoint]]:
    """Give each moment of each state in which somebody works."""
    for state, moment in itertools.product(sorted(recovery.WORKED_IN), CrashPoint):
        steps = recovery.TABLE[state].after is RecoveryAction.RUN_NEXT
        # Without steps, the end of the work is recorded by leaving the state.
        if steps or moment is not CrashPoint.AFTER:
            yield state, moment


def test_scenes_cover_every_busy_state() -> None:
    assert SCENES.keys() == recovery.WORKED_IN
    assert WAITS.keys() == states.of_kind(Kind.WAIT)


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize(("state", "moment"), cells())
def test_work_is_gone_on_with_as_the_table_says(
    stage: Stage, state: State, moment: CrashPoint, host: str
) -> None:
    for what in ("commit", "call"):
        if not possible(state, moment, what):
            continue
        rig, node = killed(stage, state, moment, what)
        before = rig.get(node)
        again = stage.heir(host)
        row = rests(again, node)
        assert (row["provision_state"], row["last_error"]) == (SCENES[state].end, None), what
        assert not {"begun", "untidied"} & row["driver_internal_info"].keys()
        taken = again.events(node, "taken_over")
        assert [(one["before"], one["data"]["from"]) for one in taken] == [(state, "here")]
        (run,) = again.runs(node)
        assert (run["uuid"], run["state"]) == (before["run_uuid"], "done")
        assert run["conductor"] == host
        activity = activities.stepping(state)
        index = None
        if activity is not None:
            index = before["driver_internal_info"].get(f"{activity.kind}_step_index")
        repeated = recovery.TABLE[state].at(moment) in (
            RecoveryAction.REPEAT,
            RecoveryAction.REPEAT_IF_RERUNNABLE,
        )
        wanted = [2 if repeated and at == index else 1 for at in range(len(run["steps"]))]
        assert [step["attempt"] for step in run["steps"]] == wanted
        again.bury()


def possible(state: State, moment: CrashPoint, what: str) -> bool:
    """Tell whether a conductor can die there: the end of a step is recorded by a commit, and verbs
    without steps are begun by a call."""
    steps = recovery.TABLE[state].after is RecoveryAction.RUN_NEXT
    if moment is CrashPoint.AFTER:
        return what == "commit"
    if not steps:
        return (what == "call") is (moment is CrashPoint.DURING)
    return what == "commit" or (state, moment) not in NO_CALL


def killed(
    stage: Stage, state: State, moment: CrashPoint, what: str
) -> tuple[ConductorFixture, str]:
    """Return a dead conductor and the node that it has left there."""
    scene = SCENES[state]
    waits = moment is CrashPoint.AFTER and state is not State.VERIFYING
    if waits:
        scene = scene._replace(columns={"fake_async_steps": ["*"]})
    forged = moment is CrashPoint.AFTER and not waits
    at = (state, CrashPoint.DURING if forged else moment)
    rig, node = kill(stage, scene, scene.ask, at, what)
    if forged:  # verify steps never wait, so no commit leaves one that has just ended
        change = models.run_steps.update().where(models.run_steps.c.state == "running")
        rig.database.write(lambda conn: conn.execute(change, {"state": "done"}))
    assert stands(rig.database, node, what) == (state, moment)
    return rig, node


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize(
    "state",
    [
        state
        for state, rule in recovery.TABLE.items()
        if rule.during is RecoveryAction.REPEAT_IF_RERUNNABLE
    ],
)
def test_a_step_that_must_not_be_run_twice_fails_its_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, state: State, host: str
) -> None:
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    _, node = killed(stage, state, CrashPoint.DURING, "call")
    again = stage.heir(host)
    row = rests(again, node)
    assert row["provision_state"] == states.follow(state, "fail")
    assert "must not be run twice" in row["last_error"]
    run = again.run(node)
    assert run["state"] == "failed"
    assert [step["attempt"] for step in run["steps"]][:2] == [1, 0]


@pytest.mark.parametrize("state", sorted(recovery.WORKED_IN))
def test_run_that_no_conductor_outlives_fails(rig: ConductorFixture, state: State) -> None:
    """It may be this work that kills them: it is not begun for ever."""
    begun = {"work": f"None/{state}", "times": recovery.MOST_ATTEMPTS}
    node = rig.node(state, driver_internal_info={"begun": begun})
    rig.service.orphans.sweep()
    row = rests(rig, node)
    assert row["provision_state"] == states.follow(state, "fail")
    assert f"{recovery.MOST_ATTEMPTS} times a conductor" in row["last_error"]
    assert "begun" not in row["driver_internal_info"]


# -- where nobody works ----------------------------------------------------------------------


def locked(rig: ConductorFixture, state: State, **values: Any) -> str:
    """Return a node of this state with a lock of a conductor that is gone."""
    lock = {"reservation": "gone", "lock_token": "token", "lock_expires": LONG_AGO}
    return rig.node(state, **lock, **values)


LEFT: dict[CrashPoint, dict[str, Any]] = {
    CrashPoint.BEFORE: {},
    CrashPoint.DURING: {"target_power_state": "power on"},
    CrashPoint.AFTER: {"power_state": "power on"},
}


@pytest.mark.parametrize("moment", CrashPoint)
def test_resting_states_lose_their_lock_and_the_interrupted_operation_is_recorded(
    rig: ConductorFixture, moment: CrashPoint
) -> None:
    timer = clock.after(3600)
    found = {}
    for state in sorted(set(State) - recovery.WORKED_IN):
        waits = {"wake_at": timer} if states.kind(state) is Kind.WAIT else {}
        found[state] = locked(rig, state, **waits, **LEFT[moment])
    rig.service.orphans.sweep()
    assert rig.service.runtime.workers.wait_idle(60)
    for state, node in found.items():
        row, act = rig.get(node), recovery.TABLE[state].at(moment)
        assert row["provision_state"] == state
        assert (row["reservation"], row["target_power_state"]) == (None, None)
        told = moment is CrashPoint.DURING
        assert (row["last_error"] is not None) is told, state
        assert not told or "interrupted: the conductor gone was lost" in row["last_error"]
        assert (row["wake_at"] == timer) is (act is RecoveryAction.KEEP_WAITING)


def killed_in_abort(stage: Stage, state: State) -> str:
    """Return a node whose conductor has died in the abort of a wait."""

    def abort(rig: ConductorFixture, node: str) -> None:
        scene = WAITS[state]
        assert rig.call(scene.method, node, **scene.args)["provision_state"] == state
        rig.ask("abort", node)

    failed = states.follow(state, "abort")
    assert recovery.TABLE[failed].during is RecoveryAction.FINISH_ABORT
    return kill(stage, WAITS[state], abort, (failed, CrashPoint.DURING), "commit")[1]


def check_abort(stage: Stage, rig: ConductorFixture, node: str, state: State) -> None:
    row, failed = rests(rig, node), states.follow(state, "abort")
    assert row["provision_state"] == ("active" if state is S.SERVICEWAIT else failed)
    assert "untidied" not in row["driver_internal_info"]
    assert TIDYING[state] in (None, *stage.called)
    assert rig.run(node)["state"] == "aborted"


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("state", WAITS)
def test_interrupted_abort_is_cleaned_up(stage: Stage, state: State, host: str) -> None:
    node = killed_in_abort(stage, state)
    check_abort(stage, stage.heir(host), node, state)
