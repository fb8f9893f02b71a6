"""Each row of the table ``recovery``: a conductor dies in each moment, and one comes after."""

from __future__ import annotations

import contextlib
import datetime
import itertools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from ironic_lite.conductor.steps import stepper
from ironic_lite.conductor.watch import timers
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes, runs
from ironic_lite.db.tables import models
from ironic_lite.domain import activities, recovery, states
from ironic_lite.domain.recovery import CrashPoint, RecoveryAction
from ironic_lite.domain.states import Kind, State
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
Build = Callable[..., ConductorFixture]
S = State
LONG_AGO = datetime.datetime(1970, 1, 1)
RESTS = (Kind.STABLE, Kind.FAIL)


class Scene(NamedTuple):
    """How a node gets into a state: what it was, what is asked; and where it ends."""

    before: str
    method: str
    args: dict[str, Any]
    end: str
    told: Mapping[str, Any] = MappingProxyType({})


def verb(action: str) -> dict[str, Any]:
    return {"action": action}


ACT = "do_provisioning_action"
RESCUE = {"rescue_password": "sesame"}
CLEAN = {"clean_steps": listed("bios.factory_reset", "deploy.erase_devices")}
SERVICE = {"service_steps": listed("vendor.log_passthrough", "vendor.log_passthrough")}
SCENES: dict[State, Scene] = {
    S.VERIFYING: Scene("enroll", ACT, verb("manage"), "manageable"),
    S.INSPECTING: Scene("manageable", "inspect_hardware", {}, "manageable"),
    S.CLEANING: Scene("manageable", "do_node_clean", CLEAN, "manageable"),
    S.DEPLOYING: Scene("available", "do_node_deploy", {}, "active"),
    S.DELETING: Scene("active", "do_node_tear_down", {}, "available"),
    S.ADOPTING: Scene("manageable", ACT, verb("adopt"), "active"),
    S.RESCUING: Scene("active", "do_node_rescue", RESCUE, "rescue"),
    S.UNRESCUING: Scene("rescue", "do_node_unrescue", {}, "active"),
    S.SERVICING: Scene("active", "do_node_service", SERVICE, "active"),
}
HOUR = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
SLOW = {"fake_async_verbs": ["inspect", "rescue"], "fake_step_seconds": 3600}
ABORTABLE = {"clean_steps": listed("deploy.erase_devices")}
PATIENT = {"service_steps": listed("power.wait")}
WAITS: dict[State, Scene] = {
    S.CLEANWAIT: SCENES[S.CLEANING]._replace(args=ABORTABLE, told=HOUR),
    S.DEPLOYWAIT: SCENES[S.DEPLOYING]._replace(told=HOUR),
    S.SERVICEWAIT: SCENES[S.SERVICING]._replace(args=PATIENT),
    S.INSPECTWAIT: SCENES[S.INSPECTING]._replace(told=SLOW),
    S.RESCUEWAIT: SCENES[S.RESCUING]._replace(told=SLOW),
}
NO_CALL = {(S.SERVICING, CrashPoint.BEFORE)}  # without a ramdisk nothing is prepared
TIDYING = {  # the driver's call that an abort ends with
    S.CLEANWAIT: "deploy.tear_down_cleaning",
    S.DEPLOYWAIT: "deploy.clean_up",
    S.SERVICEWAIT: None,  # there is no ramdisk to be put away
    S.INSPECTWAIT: "inspect.abort",
    S.RESCUEWAIT: "rescue.clean_up",
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers of dead conductors are looked for without delay."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)


# -- the stage -------------------------------------------------------------------------------


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


class Stage:
    """Where conductors called ``here`` die, and are followed by themselves or another."""

    def __init__(self, build: Build, database: Database) -> None:
        self._build, self._database = build, database
        self.called: list[str] = []

    def start(self) -> tuple[ConductorFixture, crashes.Life]:
        """Start the one that is to die."""
        life = crashes.Life()
        rig = self._build(
            crashes.database(self._database, life), registry=crashes.drivers(drivers(), life)
        )
        rig.database = self._database
        return rig, life

    def doom(self, life: crashes.Life, node: str, at: tuple[State, CrashPoint], what: str) -> None:
        """Let it die right after the first commit, or driver call, that finds the node there."""
        life.doom = lambda done: done == what and stands(self._database, node, done) == at

    def ended(self, rig: ConductorFixture, life: crashes.Life, node: str) -> bool:
        """Wait until it is dead, or the node rests; tell whether it is dead."""
        wait_for(lambda: life.dead or at_rest(rig, node), lambda: rig.about(node))
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(5)
        return bool(life.dead)

    def heir(self, host: str) -> ConductorFixture:
        """Start the one that comes after; another one finds the dead by their leases."""
        if host != "here":
            self._database.write(_forget)

        def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
            self.called.append(f"{kind}.{name}")
            return call()

        registry: Any = crashes.Drivers(drivers(), around)
        rig = self._build(registry=registry, DEFAULT__host=host)
        if host != "here":
            rig.service.orphans.sweep()
        return rig


def _forget(conn: Connection) -> None:
    """Let the conductor ``here`` be long gone, and its leases with it."""
    gone = models.conductors.c.hostname == "here"
    values = {"updated_at": LONG_AGO, "online": False}
    conn.execute(models.conductors.update().where(gone), values)
    held = models.nodes.c.reservation == "here"
    conn.execute(models.nodes.update().where(held), {"lock_expires": LONG_AGO})


@pytest.fixture
def stage(build: Build, sqlite_database: Database) -> Stage:
    return Stage(build, sqlite_database)


def at_rest(rig: ConductorFixture, node: str) -> bool:
    row = rig.get(node)
    return row["reservation"] is None and states.kind(State(row["provision_state"])) in RESTS


def rests(rig: ConductorFixture, node: str) -> dict[str, Any]:
    """Wait until the node rests, and return it."""
    wait_for(lambda: at_rest(rig, node), lambda: rig.about(node))
    assert rig.service.runtime.workers.wait_idle(5)
    return rig.get(node)


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
    rig, life = stage.start()
    waits = moment is CrashPoint.AFTER and state is not State.VERIFYING
    node = rig.node(scene.before, **({"fake_async_steps": ["*"]} if waits else {}))
    forged = moment is CrashPoint.AFTER and not waits
    at = (state, CrashPoint.DURING if forged else moment)
    stage.doom(life, node, at, what)
    with contextlib.suppress(crashes.Died):
        rig.ask(scene.method, node, **scene.args)
    assert stage.ended(rig, life, node), (state, moment, what)
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
    assert rig.service.runtime.workers.wait_idle(5)
    for state, node in found.items():
        row, act = rig.get(node), recovery.TABLE[state].at(moment)
        assert row["provision_state"] == state
        assert (row["reservation"], row["target_power_state"]) == (None, None)
        told = moment is CrashPoint.DURING
        assert (row["last_error"] is not None) is told, state
        assert not told or "interrupted: the conductor gone was lost" in row["last_error"]
        assert (row["wake_at"] == timer) is (act is RecoveryAction.KEEP_WAITING)


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("state", WAITS)
def test_interrupted_abort_is_cleaned_up(stage: Stage, state: State, host: str) -> None:
    scene = WAITS[state]
    rig, life = stage.start()
    node = rig.node(scene.before, **scene.told)
    assert rig.call(scene.method, node, **scene.args)["provision_state"] == state
    failed = states.follow(state, "abort")
    stage.doom(life, node, (failed, CrashPoint.DURING), "commit")
    with contextlib.suppress(crashes.Died):
        rig.ask(ACT, node, action="abort")
    assert stage.ended(rig, life, node)
    assert recovery.TABLE[failed].during is RecoveryAction.FINISH_ABORT
    again = stage.heir(host)
    row = rests(again, node)
    assert row["provision_state"] == ("active" if state is S.SERVICEWAIT else failed)
    assert "untidied" not in row["driver_internal_info"]
    assert TIDYING[state] in (None, *stage.called)
    assert again.run(node)["state"] == "aborted"
