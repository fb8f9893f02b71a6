"""A conductor dies after each commit and after each driver call of each flow; its nodes do not."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from ironic_lite.conductor.steps import stepper
from ironic_lite.conductor.watch import timers
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
CLEAN = ["bios.factory_reset", "raid.delete_configuration"]
AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]
VERIFY = ["management.verify_access"]
DEPLOY = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]


class Case(NamedTuple):
    """State before, endpoint, its arguments, how it may end (state -> target), and its steps.

    ``ends`` leaves out the state before, in which a verb that was never accepted leaves the node.
    """

    before: str
    method: str
    args: dict[str, Any]
    ends: dict[str, str | None]
    steps: Sequence[str] = ()
    told: Mapping[str, Any] = MappingProxyType({})


def verb(action: str) -> tuple[str, dict[str, Any]]:
    return "do_provisioning_action", {"action": action}


MANUAL = ("manageable", "do_node_clean", {"clean_steps": listed(*CLEAN)})
SERVICE = ["vendor.log_passthrough"] * 2
RESCUE = ("active", "do_node_rescue", {"rescue_password": "x"})
WAITS = {"fake_async_steps": ["*"]}
SLOW_VERBS = {"fake_async_verbs": ["inspect", "rescue"]}
CASES = {
    "verify": Case("enroll", *verb("manage"), {"manageable": None}, VERIFY),
    "manual clean": Case(*MANUAL, {"manageable": None}, CLEAN),
    "manual clean that waits": Case(*MANUAL, {"manageable": None}, CLEAN, WAITS),
    "automated clean": Case("manageable", *verb("provide"), {"available": None}, AUTOMATED),
    "failing clean": Case(
        *MANUAL,
        {"clean failed": "manageable"},
        CLEAN,
        {"fake_fail_steps": {"raid.delete_configuration": "no"}},
    ),
    "deploy": Case("available", "do_node_deploy", {}, {"active": None}, DEPLOY),
    "deploy that waits": Case("available", "do_node_deploy", {}, {"active": None}, DEPLOY, WAITS),
    "rebuild": Case("active", "do_node_deploy", {"rebuild": True}, {"active": None}, DEPLOY),
    "delete": Case("active", "do_node_tear_down", {}, {"available": None}, AUTOMATED),
    "service": Case(
        "active", "do_node_service", {"service_steps": listed(*SERVICE)}, {"active": None}, SERVICE
    ),
    "service that waits": Case(
        "active",
        "do_node_service",
        {"service_steps": listed(*SERVICE)},
        {"active": None},
        SERVICE,
        WAITS,
    ),
    "failing service": Case(
        "active",
        "do_node_service",
        {"service_steps": listed(*SERVICE)},
        {"service failed": "active"},
        SERVICE,
        {**WAITS, "fake_fail_steps": {SERVICE[0]: "no"}},
    ),
    "inspect": Case("manageable", "inspect_hardware", {}, {"manageable": None}),
    "inspect that waits": Case(
        "manageable", "inspect_hardware", {}, {"manageable": None}, [], SLOW_VERBS
    ),
    "rescue": Case(*RESCUE, {"rescue": None}),
    "rescue that waits": Case(*RESCUE, {"rescue": None}, [], SLOW_VERBS),
    "unrescue": Case("rescue", "do_node_unrescue", {}, {"active": None}),
    "adopt": Case("manageable", *verb("adopt"), {"active": None}),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers of dead conductors are looked for without delay."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)


class Theatre:
    """Where conductors called ``here`` die on one database, and others go on."""

    def __init__(self, build: Callable[..., ConductorFixture], database: Database) -> None:
        self._build = build
        self._database = database

    def die(self, case: Case, what: str, n: int) -> tuple[ConductorFixture, str] | None:
        """Play the case with a conductor that dies at the n-th; None: it lived to the end."""
        life = crashes.Life()
        rig = self._build(
            crashes.database(self._database, life), registry=crashes.drivers(drivers(), life)
        )
        rig.database = self._database
        node = rig.node(case.before, **case.told)
        life.arm(**{what: n})
        with contextlib.suppress(crashes.Died):
            rig.ask(case.method, node, **case.args)
        wait_for(lambda: life.dead or at_rest(rig, node), lambda: rig.get(node))
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(5)
        return (rig, node) if life.dead else None

    def restart(self) -> ConductorFixture:
        """Start the conductor ``here`` again."""
        return self._build(self._database)

    def heir(self, host: str) -> ConductorFixture:
        """Start who comes after: the same one, or another when the leases have ended."""
        if host == "here":
            return self.restart()
        self.forget()
        other = self._build(DEFAULT__host=host)
        other.service.orphans.sweep()
        return other

    def forget(self) -> None:
        """Let so much time pass that ``here`` counts as dead and its leases have ended."""
        past = clock.after(-3600)

        def write(conn: sa.Connection) -> None:
            conn.execute(
                models.conductors.update().where(models.conductors.c.hostname == "here"),
                {"updated_at": past},
            )
            held = models.nodes.c.reservation == "here"
            conn.execute(models.nodes.update().where(held), {"lock_expires": nodes.ENDED})

        self._database.write(write)


@pytest.fixture
def theatre(build: Callable[..., ConductorFixture], sqlite_database: Database) -> Theatre:
    """A stage with its database."""
    return Theatre(build, sqlite_database)


def at_rest(rig: ConductorFixture, node: str) -> dict[str, Any] | None:
    """Return the node if nothing is to happen to it any more."""
    row = rig.get(node)
    kind = states.kind(states.State(row["provision_state"]))
    rests = row["reservation"] is None and kind in (Kind.STABLE, Kind.FAIL)
    return row if rests else None


def rests(rig: ConductorFixture, node: str) -> dict[str, Any]:
    """Wait until nothing is to happen to the node any more, and return it."""
    row: dict[str, Any] = wait_for(lambda: at_rest(rig, node), lambda: rig.get(node))
    return row


def check(rig: ConductorFixture, node: str, case: Case) -> None:
    """Check what no death may damage."""
    row = rig.get(node)
    state = row["provision_state"]
    ends = {case.before: None, **case.ends}
    assert state in ends
    assert row["target_provision_state"] == ends[state]
    assert (row["lock_token"], row["run_uuid"], row["wake_at"]) == (None, None, None)
    assert (row["last_error"] is not None) == ("failed" in state)
    for run in rig.runs(node):
        assert run["state"] in ("done", "failed", "aborted")
        assert run["ended_at"] is not None
        assert {step["state"] for step in run["steps"]} <= {"done", "failed", "skipped"}
        if run["state"] == "done":
            assert {step["state"] for step in run["steps"]} <= {"done"}
    flows = [row["kind"] for row in rig.events(node) if row["kind"].startswith("flow_")]
    assert flows in ([], ["flow_started", "flow_ended"])
    begun = Counter(rig.started(node))
    assert len(rig.started(node)) <= len(case.steps) + 1  # at most one step is done again
    if case.steps and state != case.before:
        assert set(begun) == set(case.steps)


@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_after_a_restart_every_flow_comes_to_its_end(
    theatre: Theatre, name: str, what: str
) -> None:
    case, deaths = CASES[name], 0
    for n in itertools.count(1):
        died = theatre.die(case, what, n)
        if died is None:
            break
        deaths += 1
        rig, node = theatre.restart(), died[1]
        rests(rig, node)
        check(rig, node, case)
        rig.bury()
    assert deaths >= 1


@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_another_conductor_brings_every_flow_to_its_end(
    theatre: Theatre, build: Callable[..., ConductorFixture], name: str, what: str
) -> None:
    case, deaths = CASES[name], 0
    for n in itertools.count(1):
        died = theatre.die(case, what, n)
        theatre.forget()
        if died is None:
            break
        deaths += 1
        other, node = build(DEFAULT__host="there"), died[1]
        other.service.orphans.sweep()
        rests(other, node)
        check(other, node, case)
        runs = other.runs(node)
        assert not runs or runs[-1]["conductor"] in ("here", "there")
        other.bury()
    assert deaths >= 1


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", ["deploy", "deploy that waits", "service", "service that waits"])
def test_a_step_that_must_not_run_twice_fails_its_run(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch, name: str, what: str, host: str
) -> None:
    """One that waits when its conductor dies has begun once, and goes on."""
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    case, seen = CASES[name], set()
    kind = name.split(maxsplit=1)[0]
    for n in itertools.count(1):
        died = theatre.die(case, what, n)
        if died is None:
            break
        rig, node = theatre.heir(host), died[1]
        row = rests(rig, node)
        seen.add(row["provision_state"])
        steps = {
            step["ordinal"]: step["attempt"] for run in rig.runs(node) for step in run["steps"]
        }
        assert max(steps.values(), default=0) <= 1
        assert len(rig.started(node)) <= len(case.steps)
        if row["provision_state"] == f"{kind} failed":
            assert "must not be run twice" in row["last_error"]
            assert rig.run(node)["state"] == "failed"
            told = [one["data"]["step"] for one in rig.events(node, "step_ended")]
            assert told[-1] in row["last_error"]
        rig.bury()
    assert f"{kind} failed" in seen
    assert seen <= {case.before, "active", f"{kind} failed"}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_an_accepted_abort_is_not_lost(
    build: Callable[..., ConductorFixture], sqlite_database: Database, n: int
) -> None:
    life = crashes.Life()
    rig = build(crashes.database(sqlite_database, life))
    rig.database = sqlite_database
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, "deploy.erase_devices")
    assert rig.service.runtime.workers.wait_idle(5)
    life.arm(commit=n)
    accepted = False
    with contextlib.suppress(crashes.Died):
        rig.ask("do_provisioning_action", node, action="abort")
        accepted = True
    wait_for(lambda: life.dead)
    rig.bury()
    again = build(sqlite_database)
    row = again.settled(node)
    assert row["provision_state"] == "clean failed"
    assert accepted == (n > 1)


def test_an_interrupted_power_change_is_told(theatre: Theatre) -> None:
    case = Case("active", "change_node_power_state", {"target": "power on"}, {"active": None})
    for n in itertools.count(1):
        died = theatre.die(case, "commit", n)
        if died is None:
            break
        rig, node = theatre.restart(), died[1]
        row = rests(rig, node)
        assert row["target_power_state"] is None
        assert row["power_state"] == "power on" or n == 1 or "interrupted" in row["last_error"]
        rig.bury()
