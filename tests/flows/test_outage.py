"""A database that is away, or whose answers are lost, costs no run, and nothing is done twice."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.conductor.engine import db_retry
from ironic_lite.conductor.engine.locks import Lock
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.watch import timeouts
from ironic_lite.conductor.watch.keepalive import Keepalive
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import migrate, models
from ironic_lite.drivers.registry import Registry
from tests.flows.test_death import CASES
from tests.support import crashes, database_servers, db_faults
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.crashes import Scene, at_rest, rests

pytestmark = pytest.mark.usefixtures("quick_retries")

# A database that is away costs no run, and no driver is called twice because of it.

NAMES = ["manual clean", "deploy", "delete", "verify", "failing clean", "rescue"]


class Stage:
    """Conductors on one database, with a note of every call of a driver."""

    def __init__(self, build: Callable[..., ConductorFixture], database: Database) -> None:
        self._build = build
        self._database = database
        self.calls: list[str] = []

    def play(self, case: Scene, sickness: db_faults.DatabaseFault) -> tuple[ConductorFixture, str]:
        """Begin a case with a conductor that meets this sickness."""
        self.calls = calls = []

        def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
            calls.append(f"{kind}.{name}")
            return call()

        registry = cast(Registry, crashes.Drivers(drivers(), around))
        rig = self._build(db_faults.database(self._database, sickness), registry=registry)
        rig.database = self._database
        node = case.begin(rig)
        case.ask(rig, node)
        return rig, node

    def story(self, case: Scene, sickness: db_faults.DatabaseFault) -> list[Any]:
        """Play a case to its end; return all that must not depend on the sickness."""
        rig, node = self.play(case, sickness)
        row = rests(rig, node)
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
        assert rig.service.runtime.workers.wait_idle(60)
        assert row["provision_state"] == "manageable"
        assert [other.get(node), other.events(node), stage.calls] == [row, told, calls]
        assert other.run(node)["state"] == "done"
        rig.bury()
        other.bury()


def test_a_stop_waits_for_no_database(stage: Stage) -> None:
    sickness = db_faults.DatabaseFault("write", 2, None)
    rig, node = stage.play(CASES["manual clean"], sickness)
    assert sickness.begun.wait(60)
    rig.service.runtime.stopping.set()
    assert rig.service.runtime.workers.wait_idle(60)
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
    refusing, held = Refusing(errors.Unavailable("The database refuses this.")), Lock("t", "node")
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
    assert refusing.asked.wait(60)
    held.ended = True
    thread.join(60)
    assert [type(why) for why in ended] == [errors.LockLost]


def test_worker_does_not_repeat_a_transaction_that_meets_a_limit() -> None:
    refusing = Refusing(errors.TooManyActions(limit=1, action="cleaning"))
    database = db_retry.retrying(refusing, "here", threading.Event())
    with db_retry.waiting_for_database(), pytest.raises(errors.TooManyActions):
        database.write(lambda _conn: None)


class Full:
    """A database on a full disk, where the next ``room`` writes still fit; None: all of them."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.room: int | None = None

    def read(self, work: Callable[[Connection], Any]) -> Any:
        return self._inner.read(work)

    def write(self, work: Callable[[Connection], Any], **more: Any) -> Any:
        if self.room is not None:
            if not self.room:
                raise errors.Unavailable("The disk is full.", url="sqlite", doubtful=False)
            self.room -= 1
        return self._inner.write(work, **more)


def test_lock_whose_release_found_no_space_is_released_with_the_next_heartbeat(
    build: Callable[..., ConductorFixture], sqlite_database: Database
) -> None:
    full = Full(sqlite_database)
    rig = build(cast(Database, full), conductor__node_locked_retry_attempts=1)
    keepalive = Keepalive(rig.tasks)
    node = rig.node()
    full.room = 1  # the lock fits; the verb and the release do not
    with pytest.raises(errors.Unavailable, match="full"):
        rig.act("provide", node)
    assert rig.get(node)["provision_state"] == "manageable"
    with pytest.raises(errors.Unavailable):
        keepalive.beat()
    full.room = None
    with pytest.raises(errors.NodeLocked):
        rig.act("provide", node)
    keepalive.beat()
    assert rig.get(node)["reservation"] is None
    rig.act("provide", node)
    rig.reaches(node, "available")


def test_worker_that_reads_does_not_end_the_outage_of_writes(
    sqlite_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    full, stopping = Full(sqlite_database), threading.Event()
    full.room = 0
    database = db_retry.retrying(cast(Database, full), "here", stopping)
    name = "ironic_lite.conductor.engine.db_retry"

    def save() -> None:
        with db_retry.waiting_for_database():
            database.write(lambda _conn: None)

    with caplog.at_level("INFO", name):
        thread = threading.Thread(target=save, daemon=True)
        thread.start()
        wait_for(lambda: caplog.records)
        with db_retry.waiting_for_database():
            database.read(lambda _conn: None)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        full.room = None
        thread.join(10)
    lines = [record.getMessage() for record in caplog.records if record.name == name]
    assert [line.partition(":")[0].partition(",")[0] for line in lines] == [
        "Work waits for the database",
        "The database answers again",
    ]


# A server that ends connections in mid-commit costs no run and no request; skipped without one.


@contextlib.contextmanager
def ending(thread: str) -> Iterator[tuple[session.Database, list[int]]]:
    """Give a database that ends each second connection that a thread of this name commits over."""
    numbers = itertools.count()
    ended: list[int] = []

    def end(conn: Any) -> None:
        if threading.current_thread().name.startswith(thread) and next(numbers) % 2 == 0:
            number = conn.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            database_servers.admin("postgresql", f"SELECT pg_terminate_backend({number})")
            ended.append(number)

    with contextlib.ExitStack() as open_:
        url = open_.enter_context(database_servers.own_database("postgresql", "outage"))
        database = open_.enter_context(contextlib.closing(session.open_database(url)))
        migrate.upgrade(database)
        sa.event.listen(database.engine, "commit", end)
        yield database, ended


def test_a_clean_survives_the_end_of_each_second_commit(
    build: Callable[..., ConductorFixture],
) -> None:
    with ending("worker") as (database, ended):
        rig = build(database)
        node = rig.node()
        row = rig.clean(node, "bios.factory_reset", "raid.delete_configuration")
        assert (row["provision_state"], row["last_error"]) == ("manageable", None)
        assert rig.started(node) == ["bios.factory_reset", "raid.delete_configuration"]
        assert rig.run(node)["state"] == "done"
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(60)
    assert len(ended) > 2


def test_callers_hear_nothing_of_the_end_of_each_second_commit(
    build: Callable[..., ConductorFixture],
) -> None:
    with ending("caller") as (database, ended):
        rig = build(database)
        node = rig.node("active", power_state="power off")
        asked: list[str] = []

        def call() -> None:
            rig.call("change_node_power_state", node, target="power on")
            rig.call("set_boot_device", node, device="pxe")
            rig.call("delete", node)
            asked.append(rig.reaches(node, "available")["provision_state"])

        caller = threading.Thread(target=call, name="caller")
        caller.start()
        caller.join(60)
        assert asked == ["available"]
        assert rig.run(node)["state"] == "done"
        assert [one["event"] for one in rig.events(node, "management")] == ["end"]
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(60)
    assert len(ended) > 2


# The connection to the database dies behind a commit: the change is made, its answer is lost.
#
# Workers wait for their database; here it is a caller who waits, and what he is told must be true.

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


class LostAnswer(NamedTuple):
    """Where a node is, what is asked, and where that ends."""

    before: str
    method: str
    args: dict[str, Any]
    end: str


CLEAN = {"clean_steps": listed("deploy.erase_devices")}
LOST_ANSWERS = {
    "provide": LostAnswer("manageable", "provide", {}, "available"),
    "clean": LostAnswer("manageable", "clean", CLEAN, "manageable"),
    "delete": LostAnswer("active", "delete", {}, "available"),
    "manage": LostAnswer("available", "manage", {}, "manageable"),
    "power": LostAnswer("active", "change_node_power_state", {"target": "power on"}, "active"),
    "boot mode": LostAnswer("active", "change_node_boot_mode", {"mode": "uefi"}, "active"),
    "boot device": LostAnswer("active", "set_boot_device", {"device": "pxe"}, "active"),
    "NMI": LostAnswer("active", "inject_nmi", {}, "active"),
    "abort": LostAnswer("clean wait", "abort", {}, "clean failed"),
    "unhold": LostAnswer("clean hold", "unhold", {}, "manageable"),
}


def begins(rig: ConductorFixture, case: LostAnswer) -> str:
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
def quick_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers are looked for without delay."""
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)


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


@pytest.mark.parametrize("name", LOST_ANSWERS)
def test_an_answer_that_is_lost_once_is_found_out(
    build: Callable[..., ConductorFixture], sqlite_database: Database, losing: Losing, name: str
) -> None:
    """The caller hears nothing of it: what he has asked for is done, and done once."""
    case, lost = LOST_ANSWERS[name], 0
    rig = conductor(build, sqlite_database, losing)
    for n in itertools.count(1):
        node = begins(rig, case)
        losing.lose(n, times=1)
        rig.ask(case.method, node, **case.args)
        losing.heal()
        row = rig.reaches(node, case.end)
        rests_after_lost_answer(rig, node, row)
        assert row["last_error"] is None or case.end == "clean failed"
        if not losing.begun:
            break
        lost += 1
    assert lost >= 1


@pytest.mark.parametrize("away", [False, True], ids=["back", "away"])
@pytest.mark.parametrize("name", LOST_ANSWERS)
def test_request_with_an_unknown_outcome_leaves_no_lock_and_nothing_half_done(
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
    losing: Losing,
    name: str,
    away: bool,
) -> None:
    case, told = LOST_ANSWERS[name], 0
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
        rests_after_lost_answer(rig, node, row)
        if not losing.begun:
            assert row["provision_state"] == case.end
            break
    assert told >= 1


def end_leases(conn: Connection) -> None:
    """Let the leases end of locks that could not be given back."""
    held = models.nodes.c.reservation.is_not(None)
    conn.execute(models.nodes.update().where(held), {"lock_expires": nodes.ENDED})


def settled(rig: ConductorFixture, node: str, case: LostAnswer) -> dict[str, Any] | None:
    row = rig.get(node)
    idle = rig.service.runtime.workers.busy == 0 and row["reservation"] is None
    return row if idle and row["provision_state"] in (case.before, case.end) else None


def rests_after_lost_answer(rig: ConductorFixture, node: str, row: dict[str, Any]) -> None:
    """Check that nothing is left of the request."""
    assert rig.service.runtime.workers.wait_idle(60)
    assert rig.tasks.locks.held == frozenset()
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
    losing.lose(1, times=1)
    with rig.tasks.lock(rig.who, node, worker=True, patient=False) as task:
        task.hand_over(done.append)
    losing.heal()
    assert rig.settled(node)["provision_state"] == "clean wait"
    assert rig.service.runtime.workers.wait_idle(60)
    assert [task.node.uuid for task in done] == [node]
