"""A conductor dies in what is no verb's own flow: time-outs, aborts, orders, deletions."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from ironic_lite.conductor.watch import timers
from ironic_lite.conductor.watch.timeouts import Timeouts
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from tests.flows.test_death import Theatre
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
Json = dict[str, Any]
Act = Callable[[ConductorFixture, str], object]
HOUR = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
SLOW = {"fake_async_verbs": ["inspect", "rescue"], "fake_step_seconds": 3600}


class Wait(NamedTuple):
    """How a node comes to wait, or to be held."""

    before: str
    method: str
    args: Json
    told: Json


WAITS: Mapping[str, Wait] = {
    "clean wait": Wait(
        "manageable", "do_node_clean", {"clean_steps": listed("deploy.erase_devices")}, HOUR
    ),
    "clean hold": Wait(
        "manageable", "do_node_clean", {"clean_steps": listed("power.hold", "power.cycle")}, {}
    ),
    "wait call-back": Wait("available", "do_node_deploy", {}, HOUR),
    "service wait": Wait("active", "do_node_service", {"service_steps": listed("power.wait")}, {}),
    "inspect wait": Wait("manageable", "inspect_hardware", {}, SLOW),
    "rescue wait": Wait("active", "do_node_rescue", {"rescue_password": "sesame"}, SLOW),
}


def asks(method: str, **args: Any) -> Act:
    return lambda rig, node: rig.ask(method, node, **args)


abort = asks("do_provisioning_action", action="abort")
unhold = asks("do_provisioning_action", action="unhold")
delete = asks("do_node_tear_down")


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


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers of dead conductors are looked for without delay."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)


class Stage:
    """Where conductors called ``here`` die; others, or they themselves, come after."""

    def __init__(self, build: Callable[..., ConductorFixture], database: Database) -> None:
        self._build, self._database = build, database
        self._theatre = Theatre(build, database)

    def begin(self) -> tuple[ConductorFixture, crashes.Life]:
        """Start a conductor called ``here`` that may die, and is alone."""
        self._database.write(lambda conn: conn.execute(models.conductors.delete()))
        life = crashes.Life()
        inner = crashes.database(self._database, life)
        rig = self._build(inner, registry=crashes.drivers(drivers(), life))
        rig.database = self._database
        return rig, life

    def waits(self, rig: ConductorFixture, start: str) -> str:
        """Return a node that waits, or rests, in this state."""
        wait = WAITS.get(start)
        if wait is None:
            return rig.node(start, power_state="power on")
        node = rig.node(wait.before, **wait.told)
        assert rig.call(wait.method, node, **wait.args)["provision_state"] == start
        assert rig.service.runtime.workers.wait_idle(5)
        rig.edit(node, driver_info={})  # whatever comes now takes no time
        return node

    def dies(self, case: Case, what: str, n: int) -> tuple[str, bool]:
        """Play the case with a conductor that dies at the n-th; whether it did comes last."""
        rig, life = self.begin()
        node = self.waits(rig, case.start)
        life.arm(**{what: n})
        with contextlib.suppress(crashes.Died):
            case.act(rig, node)
        wait_for(lambda: life.dead or settled(rig, node), lambda: rig.about(node))
        life.disarm()
        rig.bury()
        return node, life.dead

    def heir(self, host: str) -> ConductorFixture:
        """Start who comes after."""
        if host == "here":
            return self._theatre.restart()
        self._theatre.forget()
        other = self._build(DEFAULT__host=host)
        other.service.orphans.sweep()
        return other


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
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
    name: str,
    what: str,
    host: str,
) -> None:
    stage, case, deaths = Stage(build, sqlite_database), CASES[name], 0
    for n in itertools.count(1):
        node, died = stage.dies(case, what, n)
        if not died:
            break
        deaths += 1
        rig = stage.heir(host)
        wait_for(functools.partial(settled, rig, node), functools.partial(rig.about, node))
        if rig.get(node)["provision_state"] == case.start:  # not begun, or to be done again
            case.act(rig, node)
        wait_for(functools.partial(settled, rig, node), functools.partial(rig.about, node))
        check(rig, node, case)
        rig.bury()
    assert what == "call" or deaths >= case.deaths


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
