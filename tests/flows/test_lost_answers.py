"""The connection to the database dies behind a commit: the change is made, its answer is lost.

Workers wait for their database; here it is a caller who waits, and what he is told must be true.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import timers
from ironic_lite.conductor.work.task import Task
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from tests.support.conductor_fixture import ConductorFixture, listed, wait_for

HOUR: dict[str, Any] = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}


class Losing:
    """A database that loses the answer to the n-th change of the thread that made this.

    :param times: so many answers; what is asked after them is answered.
    :param away: or nothing is, until `heal`.
    """

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self._thread = threading.get_ident()
        self._left: int | None = None
        self._times = 0
        self._away = False
        self.begun = False

    def lose(self, n: int, *, times: int, away: bool = False) -> None:
        """Lose the answer to the n-th change from now on."""
        self._left, self._times, self._away, self.begun = n, times, away, False

    def heal(self) -> None:
        """Answer for ever."""
        self._left = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, work: Callable[[Connection], Any]) -> Any:
        """Read, unless it is away."""
        self._refuse()
        return self._inner.read(work)

    def write(self, work: Callable[[Connection], Any], **more: Any) -> Any:
        """Write, perhaps without a word of it."""
        self._refuse()
        found = self._inner.write(work, **more)
        if self._left is None or threading.get_ident() != self._thread:
            return found
        self._left -= 1
        if self._left <= 0 < self._times:
            self.begun = True
            self._times -= 1
            raise errors.Unavailable(
                "The database is away; the change may have been made or not.", doubtful=True
            )
        return found

    def _refuse(self) -> None:
        mine = threading.get_ident() == self._thread
        if self._away and self.begun and self._left is not None and not self._times and mine:
            raise errors.Unavailable("The database is away.")


class Case(NamedTuple):
    """Where a node is, what is asked, and where that ends."""

    before: str
    method: str
    args: dict[str, Any]
    end: str


CLEAN = {"clean_steps": listed("deploy.erase_devices")}
CASES = {
    "provide": Case("manageable", "do_provisioning_action", {"action": "provide"}, "available"),
    "clean": Case("manageable", "do_node_clean", CLEAN, "manageable"),
    "delete": Case("active", "do_node_tear_down", {}, "available"),
    "manage": Case("available", "do_provisioning_action", {"action": "manage"}, "manageable"),
    "power": Case("active", "change_node_power_state", {"target": "power on"}, "active"),
    "boot mode": Case("active", "change_node_boot_mode", {"mode": "uefi"}, "active"),
    "boot device": Case("active", "set_boot_device", {"device": "pxe"}, "active"),
    "NMI": Case("active", "inject_nmi", {}, "active"),
    "abort": Case("clean wait", "do_provisioning_action", {"action": "abort"}, "clean failed"),
    "unhold": Case("clean hold", "do_provisioning_action", {"action": "unhold"}, "manageable"),
}


def begins(rig: ConductorFixture, case: Case) -> str:
    """Return a node that is where the case begins."""
    if case.before == "clean wait":
        node = rig.node(**HOUR)
        rig.clean(node, "deploy.erase_devices")
    elif case.before == "clean hold":
        node = rig.node()
        rig.clean(node, "power.hold")
    else:
        return rig.node(case.before, power_state="power off")
    assert rig.reaches(node, case.before)
    return node


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers are looked for without delay."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)


@pytest.fixture
def losing(sqlite_database: Database) -> Losing:
    """A database that loses answers."""
    return Losing(sqlite_database)


def conductor(
    build: Callable[..., ConductorFixture], database: Database, losing: Losing
) -> ConductorFixture:
    rig = build(cast(Database, losing), conductor__node_locked_retry_interval=0)
    rig.database = database
    return rig


@pytest.mark.parametrize("name", CASES)
def test_an_answer_that_is_lost_once_is_found_out(
    build: Callable[..., ConductorFixture], sqlite_database: Database, losing: Losing, name: str
) -> None:
    """The caller hears nothing of it: what he has asked for is done, and done once."""
    case, lost = CASES[name], 0
    rig = conductor(build, sqlite_database, losing)
    for n in itertools.count(1):
        node = begins(rig, case)
        losing.lose(n, times=1)
        rig.ask(case.method, node, **case.args)
        losing.heal()
        row = rig.reaches(node, case.end)
        at_rest(rig, node, row)
        assert row["last_error"] is None or case.end == "clean failed"
        if not losing.begun:
            break
        lost += 1
    assert lost >= 1


@pytest.mark.parametrize("away", [False, True], ids=["back", "away"])
@pytest.mark.parametrize("name", CASES)
def test_request_with_an_unknown_outcome_leaves_no_lock_and_nothing_half_done(
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
    losing: Losing,
    name: str,
    away: bool,
) -> None:
    case, told = CASES[name], 0
    rig = conductor(build, sqlite_database, losing)
    for n in itertools.count(1):
        node = begins(rig, case)
        losing.lose(n, times=2, away=away)
        try:
            rig.ask(case.method, node, **case.args)
        except errors.Unavailable as why:
            told += 1
            assert why.retryable
        losing.heal()
        if away:
            sqlite_database.write(end_leases)
        rig.service.orphans.sweep()
        row = wait_for(lambda: settled(rig, node, case), lambda: rig.about(node))  # noqa: B023
        at_rest(rig, node, row)
        if not losing.begun:
            assert row["provision_state"] == case.end
            break
    assert told >= 1


def end_leases(conn: Connection) -> None:
    """Let the leases end of locks that could not be given back."""
    held = models.nodes.c.reservation.is_not(None)
    conn.execute(models.nodes.update().where(held), {"lock_expires": nodes.ENDED})


def settled(rig: ConductorFixture, node: str, case: Case) -> dict[str, Any] | None:
    row = rig.get(node)
    idle = rig.service.runtime.workers.busy == 0 and row["reservation"] is None
    return row if idle and row["provision_state"] in (case.before, case.end) else None


def at_rest(rig: ConductorFixture, node: str, row: dict[str, Any]) -> None:
    """Check that nothing is left of the request."""
    assert rig.service.runtime.workers.wait_idle(5)
    assert rig.tasks.held == frozenset()
    assert (row["lock_token"], row["target_power_state"]) == (None, None)
    assert not {"order", "untidied", "begun"} & row["driver_internal_info"].keys()
    for run in rig.runs(node):
        waits = row["provision_state"] in ("clean wait", "clean hold")
        assert run["ended_at"] is not None or waits


def test_the_lock_of_a_heartbeat_whose_answer_is_lost_is_known_as_ours(
    build: Callable[..., ConductorFixture], sqlite_database: Database, losing: Losing
) -> None:
    rig = conductor(build, sqlite_database, losing)
    done: list[Task] = []
    node = rig.node("clean wait")
    seen = rig.tasks.look(rig.who, node)
    losing.lose(1, times=1)
    rig.tasks.go_on(seen, done.append)
    losing.heal()
    assert rig.settled(node)["provision_state"] == "clean wait"
    assert rig.service.runtime.workers.wait_idle(5)
    assert [task.node.uuid for task in done] == [node]
