"""A database that is away costs no run, and no driver is called twice because of it."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.conductor.work import db_retry
from ironic_lite.conductor.work.locks import Held
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.drivers.registry import Registry
from tests.flows.test_death import CASES, Case, at_rest, rests
from tests.support import crashes, db_faults
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for

NAMES = ["manual clean", "deploy", "delete", "verify", "failing clean", "rescue"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a database looks often."""
    monkeypatch.setattr(db_retry, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(db_retry, "_LONGEST_PAUSE", 0.005)


class Stage:
    """Conductors on one database, with a note of every call of a driver."""

    def __init__(self, build: Callable[..., ConductorFixture], database: Database) -> None:
        self._build = build
        self._database = database
        self.calls: list[str] = []

    def play(self, case: Case, sickness: db_faults.DatabaseFault) -> tuple[ConductorFixture, str]:
        """Begin a case with a conductor that meets this sickness."""
        self.calls = calls = []

        def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
            calls.append(f"{kind}.{name}")
            return call()

        registry = cast(Registry, crashes.Drivers(drivers(), around))
        rig = self._build(db_faults.database(self._database, sickness), registry=registry)
        rig.database = self._database
        node = rig.node(case.before, **case.told)
        rig.ask(case.method, node, **case.args)
        return rig, node

    def story(self, case: Case, sickness: db_faults.DatabaseFault) -> list[Any]:
        """Play a case to its end; return all that must not depend on the sickness."""
        rig, node = self.play(case, sickness)
        row = rests(rig, node)
        assert rig.service.runtime.workers.wait_idle(10)
        rig.bury()
        told = [(one["kind"], one["event"], one["after"]) for one in rig.events(node)]
        runs = [
            (one["state"], [(step["state"], step["attempt"]) for step in one["steps"]])
            for one in rig.runs(node)
        ]
        ends = (row["provision_state"], row["generation"], row["last_error"] is None)
        return [ends, told, runs, self.calls]


@pytest.fixture
def stage(build: Callable[..., ConductorFixture], sqlite_database: Database) -> Stage:
    """A stage with its database."""
    return Stage(build, sqlite_database)


@pytest.mark.parametrize(("what", "times"), [("write", 3), ("answer", 1), ("answer", 3)])
@pytest.mark.parametrize("name", NAMES)
def test_no_flow_changes_when_the_database_is_away(
    stage: Stage, name: str, what: str, times: int
) -> None:
    healthy = stage.story(CASES[name], db_faults.DatabaseFault("write", 1, 0))
    for n in itertools.count(1):
        sickness = db_faults.DatabaseFault(what, n, times)
        assert stage.story(CASES[name], sickness) == healthy
        if not sickness.begun.is_set():
            break
    assert n > 1


@pytest.mark.parametrize("name", ["deploy", "delete"])
def test_worker_waits_for_the_database_to_read(stage: Stage, name: str) -> None:
    healthy = stage.story(CASES[name], db_faults.DatabaseFault("read", 1, 0))
    for n in itertools.count(1):
        sickness = db_faults.DatabaseFault("read", n, 3)
        assert stage.story(CASES[name], sickness) == healthy
        if not sickness.begun.is_set():
            break


@pytest.mark.parametrize("what", ["write", "answer"])
def test_worker_that_lost_the_node_in_an_outage_stops_without_an_error(
    stage: Stage, build: Callable[..., ConductorFixture], sqlite_database: Database, what: str
) -> None:
    for n in itertools.count(1):
        sickness = db_faults.DatabaseFault(what, n, None)
        rig, node = stage.play(CASES["manual clean"], sickness)
        wait_for(lambda: sickness.begun.is_set() or at_rest(rig, node))  # noqa: B023
        if not sickness.begun.is_set():
            break
        other = build(DEFAULT__host=f"there-{n}")
        past = models.nodes.update().where(models.nodes.c.reservation == "here")
        ended = past.values(lock_expires=nodes.ENDED)
        gone = models.conductors.delete().where(models.conductors.c.hostname != f"there-{n}")
        for act in (ended, gone):
            sqlite_database.write(functools.partial(sa.Connection.execute, statement=act))
        other.service.orphans.sweep()
        row = rests(other, node)
        told, calls = other.events(node), list(stage.calls)
        sickness.heal()
        assert rig.service.runtime.workers.wait_idle(10)
        assert row["provision_state"] == "manageable"
        assert [other.get(node), other.events(node), stage.calls] == [row, told, calls]
        assert other.run(node)["state"] == "done"
        rig.bury()
        other.bury()


def test_a_stop_waits_for_no_database(stage: Stage) -> None:
    sickness = db_faults.DatabaseFault("write", 2, None)
    rig, node = stage.play(CASES["manual clean"], sickness)
    assert sickness.begun.wait(10)
    rig.service.runtime.stopping.set()
    assert rig.service.runtime.workers.wait_idle(10)
    assert rig.get(node)["provision_state"] == "cleaning"
    assert rig.run(node)["state"] == "running"


class Refusing:
    """A database that refuses each write."""

    def __init__(self, why: errors.Error) -> None:
        self._why = why
        self.asked = threading.Event()

    def read(self, _work: Callable[[Any], Any]) -> Any:
        raise self._why

    def write(self, _work: Callable[[Any], Any], *, once: bool = False) -> Any:
        self.asked.set()
        raise self._why


def test_work_that_was_given_up_waits_for_no_database() -> None:
    refusing, held = Refusing(errors.Unavailable("The database refuses this.")), Held("t", "node")
    database = db_retry.retrying(refusing, "here", threading.Event())
    ended: list[errors.Error] = []

    def work() -> None:
        with db_retry.waiting_for_database(held.refuse_hung):
            try:
                database.write(lambda _conn: None)
            except errors.Error as why:
                ended.append(why)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert refusing.asked.wait(10)
    held.ended = True
    thread.join(10)
    assert [type(why) for why in ended] == [errors.LockLost]


def test_worker_does_not_repeat_a_transaction_that_meets_a_limit() -> None:
    refusing = Refusing(errors.TooManyActions(limit=1, action="cleaning"))
    database = db_retry.retrying(refusing, "here", threading.Event())
    with db_retry.waiting_for_database(), pytest.raises(errors.TooManyActions):
        database.write(lambda _conn: None)
