"""One table of all faults. Each is a block, whose end repairs what it has broken.

A fault is chosen, and all about it, by dice of its own, so that a seed repeats it. It yields what
it has struck: the processes (none: everybody), or `NOTHING` if there was nothing to strike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.context import Context
from ironic_lite.db.tables import models
from tests.chaos import clock, load
from tests.chaos.cluster import Cluster
from tests.chaos.fleet import LEASE, STOPPED, Fleet, Ports, Process
from tests.chaos.load import Agents, Load
from tests.chaos.proxy import Proxy
from tests.chaos.records import EVERYBODY
from tests.chaos.watch import Watch
from tests.support import database_servers
from tests.support.private_servers import MariaDB, PostgreSQL, RabbitMQ

NOTHING = (0,)
"""No process: nothing was there to be struck."""
HOUR = 3600
DRAINS = 60
"""Seconds in which a conductor stops that was asked to."""
SERVERS = frozenset({"postgresql", "mysql"})


@dataclasses.dataclass
class World:
    """All that can break.

    :ivar has: what there is: the kind of database, ``rabbit`` or ``cluster``, ``small disk``,
        ``clocks``.
    """

    fleet: Fleet
    watch: Watch
    load: Load
    agents: Agents
    ports: Ports
    has: set[str]
    database: PostgreSQL | MariaDB | None = None
    database_way: Proxy | None = None
    broker: RabbitMQ | None = None
    broker_way: Proxy | None = None
    brokers: Cluster | None = None
    disk: pathlib.Path | None = None
    clocks: pathlib.Path | None = None
    call: Callable[[str, Context, str, dict[str, Any]], None] | None = None


Struck = tuple[int, ...]
Break = Callable[[World, random.Random, float], AbstractContextManager[Struck]]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault.

    :ivar group: the name by which it is asked for.
    :ivar needs: one of these must be there; empty: nothing.
    :ivar lasts: seconds, least and most.
    :ivar around: whether it strikes what is around our processes, not them: one of either sort
        goes on at a time.
    """

    name: str
    group: str
    inject: Break
    lasts: tuple[float, float]
    needs: frozenset[str] = frozenset()
    around: bool = False


# -- processes -------------------------------------------------------------------------------


def _one(processes: list[Process], dice: random.Random) -> Process | None:
    alive = [one for one in processes if one.alive and one.wanted and not one.paused]
    return dice.choice(alive) if alive else None


@contextlib.contextmanager
def kill_conductor(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """kill -9 of a conductor; it comes back."""
    with _killed(world, _one(world.fleet.conductors, dice), lasts) as struck:
        yield struck


@contextlib.contextmanager
def kill_api(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """kill -9 of an API with all its workers; it comes back."""
    with _killed(world, _one(world.fleet.apis, dice), lasts) as struck:
        yield struck


@contextlib.contextmanager
def _killed(world: World, process: Process | None, lasts: float) -> Iterator[Struck]:
    if process is None:
        yield NOTHING
        return
    with world.fleet.steady():
        struck = (process.pid,)
        process.kill()
    world.watch.died(process.host)
    try:
        time.sleep(lasts)
        yield struck
    finally:
        process.start()


@contextlib.contextmanager
def stop_conductor(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """SIGSTOP of a conductor, at times past its lease, then SIGCONT."""
    with _paused(_one(world.fleet.conductors, dice), lasts) as struck:
        yield struck


@contextlib.contextmanager
def stop_api(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """SIGSTOP of an API, then SIGCONT."""
    with _paused(_one(world.fleet.apis, dice), lasts) as struck:
        yield struck


@contextlib.contextmanager
def _paused(process: Process | None, lasts: float) -> Iterator[Struck]:
    if process is None:
        yield NOTHING
        return
    struck = (process.pid,)
    process.signal(signal.SIGSTOP)
    try:
        time.sleep(lasts)
        yield struck
    finally:
        process.signal(signal.SIGCONT)


@contextlib.contextmanager
def drain_conductor(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """SIGTERM of a conductor, as in a rolling restart; then a new one."""
    process = _one(world.fleet.conductors, dice)
    if process is None:
        yield NOTHING
        return
    struck = (process.pid,)
    with world.fleet.steady():
        process.wanted = False
    process.popen.send_signal(signal.SIGTERM)
    try:
        if process.popen.wait(DRAINS) not in STOPPED:
            world.fleet.note_end(process, drained=True)
    except subprocess.TimeoutExpired:
        world.fleet.left.append(f"{process.name} does not stop within {DRAINS} s")
        process.kill()
    try:
        time.sleep(lasts)
        yield struck
    finally:
        process.start()


@contextlib.contextmanager
def turn_clock(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """The clock of one process jumps by an hour, forth or back, and back again."""
    process = _one([*world.fleet.conductors, *world.fleet.apis], dice)
    if process is None or world.clocks is None:
        yield NOTHING
        return
    struck = (process.pid,)
    clock.turn(world.clocks, process.name, dice.choice((-HOUR, HOUR)))
    try:
        time.sleep(lasts)
        yield struck
    finally:
        clock.turn(world.clocks, process.name, 0)


# -- messages --------------------------------------------------------------------------------


@contextlib.contextmanager
def beat_twice(world: World, _dice: random.Random, lasts: float) -> Iterator[Struck]:
    """Every heartbeat is sent three times at once, and those of agents long done with as well."""
    world.agents.copies, world.agents.late = 3, True
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        world.agents.copies, world.agents.late = 1, False


@contextlib.contextmanager
def deliver_twice(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """Messages of accepted verbs are delivered again, to their conductor and to another."""
    hosts = [one.host for one in world.fleet.conductors]

    def again(context: Context, node: str, verb: str) -> None:
        event, body = load.VERBS[verb]
        message = {"node_uuid": node, "event": event, "body": body}
        for host in dice.sample(hosts, len(hosts)):
            with contextlib.suppress(errors.Error):
                assert world.call is not None
                world.call(host, context, "start_verb", message)

    world.load.twice = again
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        world.load.twice = None


# -- what leads to a server ------------------------------------------------------------------


def _way(world: World, server: str) -> Proxy:
    found = world.broker_way if server == "broker" else world.database_way
    assert found is not None
    return found


@contextlib.contextmanager
def cut(server: str, world: World, _dice: random.Random, lasts: float) -> Iterator[Struck]:
    """All connections to a server are cut."""
    _way(world, server).cut()
    time.sleep(lasts)
    yield EVERYBODY


@contextlib.contextmanager
def stall(server: str, world: World, _dice: random.Random, lasts: float) -> Iterator[Struck]:
    """Nothing reaches a server or comes from it, without a word."""
    with _way(world, server).stalled():
        time.sleep(lasts)
        yield EVERYBODY


# -- the broker ------------------------------------------------------------------------------


@contextlib.contextmanager
def restart_broker(world: World, _dice: random.Random, lasts: float) -> Iterator[Struck]:
    """The broker is killed, and started again."""
    assert world.broker is not None
    world.broker.stop()
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        world.broker.start()


@contextlib.contextmanager
def kill_member(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """One broker of a cluster is killed, and comes back; the others live."""
    assert world.brokers is not None
    member = dice.choice(world.brokers.members)
    member.stop()
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        world.brokers.again(member)


# -- the database ----------------------------------------------------------------------------


@contextlib.contextmanager
def restart_database(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """The database is killed, or stopped in order, and started again."""
    assert world.database is not None
    world.database.stop(dice.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM)))
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        world.database.start()


@contextlib.contextmanager
def lose_commits(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """Connections die in mid-commit: before it, or behind it with the answer lost."""
    assert world.database_way is not None
    world.database_way.lose_commits(dice.randint(1, 6), done=dice.random() < 0.5)
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        world.database_way.lose_commits(0, done=False)


@contextlib.contextmanager
def rival(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """Others lock nodes and their runs in another order than we: deadlocks and lock time-outs."""
    closing = threading.Event()
    seeds = [dice.random() for _ in range(2)]
    rivals = [
        threading.Thread(target=_compete, args=(world, random.Random(seed), closing))
        for seed in seeds
    ]
    for one in rivals:
        one.start()
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        closing.set()
        for one in rivals:
            one.join()


def _compete(world: World, dice: random.Random, closing: threading.Event) -> None:
    engine = database_servers.transactional(world.watch.database)
    uuids = list(world.watch.look.rows)
    while not closing.wait(0.02):
        some = dice.sample(uuids, 8)
        with contextlib.suppress(sa.exc.SQLAlchemyError), engine.begin() as conn:
            if world.watch.database.kind == "sqlite":
                conn.exec_driver_sql("BEGIN IMMEDIATE")
                closing.wait(dice.choice((0.1, 0.5, 2.0)))
                continue
            for uuid in some:
                runs = sa.select(models.runs.c.id).where(models.runs.c.node_uuid == uuid)
                conn.execute(runs.with_for_update())
                node = sa.select(models.nodes.c.id).where(models.nodes.c.uuid == uuid)
                conn.execute(node.with_for_update())
                closing.wait(dice.choice((0.01, 0.05, 0.5)))


@contextlib.contextmanager
def lock_commits(world: World, dice: random.Random, lasts: float) -> Iterator[Struck]:
    """A backup's lock holds all commits; one of them is below events that followers have read."""
    assert world.database is not None
    url = sa.make_url(world.database.url(world.database.port)).set(drivername="mariadb+pymysql")
    node = dice.choice(list(world.watch.look.rows))
    with contextlib.ExitStack() as made:
        slow, backup = (
            made.enter_context(sa.create_engine(each, poolclass=sa.NullPool).connect())
            for each in (url, url.set(username="root", database="mysql"))
        )
        slow.exec_driver_sql("BEGIN")
        event = f"(UTC_TIMESTAMP(6), '{node}', 'power', 'slow')"
        slow.exec_driver_sql(f"INSERT INTO events (at, node_uuid, kind, event) VALUES {event}")
        end, own = (
            time.monotonic() + NEWER,
            slow.exec_driver_sql("SELECT LAST_INSERT_ID()").scalar(),
        )
        while world.watch.newest() <= int(own or 0) and time.monotonic() < end:
            time.sleep(0.05)
        backup.exec_driver_sql("FLUSH TABLES WITH READ LOCK")
        commit = threading.Thread(target=slow.exec_driver_sql, args=("COMMIT",))
        commit.start()
        try:
            time.sleep(lasts)
            yield EVERYBODY
        finally:
            backup.exec_driver_sql("UNLOCK TABLES")
            commit.join()


NEWER = 5.0
"""Seconds until others have written an event."""
_REFUSE = {
    "postgresql": (
        "CREATE OR REPLACE FUNCTION chaos() RETURNS trigger AS $$ BEGIN IF random() < 0.2 THEN "
        "RAISE EXCEPTION 'chaos' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$ "
        "LANGUAGE plpgsql",
        "CREATE TRIGGER chaos BEFORE UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION chaos()",
    ),
    "mysql": (
        "CREATE TRIGGER chaos BEFORE UPDATE ON nodes FOR EACH ROW BEGIN IF RAND() < 0.2 THEN "
        "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'chaos'; END IF; END",
    ),
}
_ALLOW = {
    "postgresql": "DROP TRIGGER IF EXISTS chaos ON nodes",
    "mysql": "DROP TRIGGER IF EXISTS chaos",
}


@contextlib.contextmanager
def fail_serialization(world: World, _dice: random.Random, lasts: float) -> Iterator[Struck]:
    """A fifth of all updates of nodes end in a serialization failure."""
    kind = world.watch.database.kind
    _administer(world, *_REFUSE[kind])
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        _administer(world, _ALLOW[kind])


def _administer(world: World, *statements: str) -> None:
    def run(conn: sa.Connection) -> None:
        for statement in statements:
            conn.exec_driver_sql(statement)

    world.watch.database.write(run)


@contextlib.contextmanager
def fill_disk(world: World, _dice: random.Random, lasts: float) -> Iterator[Struck]:
    """The disk of the database and of the state_path is full."""
    assert world.disk is not None
    ballast = world.disk / "ballast"
    with ballast.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while out.write(b"x" * size):
                    pass
    try:
        time.sleep(lasts)
        yield EVERYBODY
    finally:
        ballast.unlink()


TABLE: tuple[Kind, ...] = (
    Kind("kill-conductor", "kill", kill_conductor, (0, 2 * LEASE)),
    Kind("kill-api", "kill", kill_api, (0, 2)),
    Kind("stop-conductor", "stop", stop_conductor, (0.5, 3 * LEASE)),
    Kind("stop-api", "stop", stop_api, (0.5, 4)),
    Kind("drain-conductor", "drain", drain_conductor, (0, 2)),
    Kind("clock", "clock", turn_clock, (1, 2 * LEASE), frozenset({"clocks"})),
    Kind("heartbeats", "messages", beat_twice, (2, 5)),
    Kind("deliveries", "messages", deliver_twice, (2, 5)),
    Kind("broker-restart", "broker", restart_broker, (0, 3), frozenset({"rabbit"}), True),
    Kind(
        "broker-cut",
        "broker",
        functools.partial(cut, "broker"),
        (0, 1),
        frozenset({"rabbit"}),
        True,
    ),
    Kind(
        "broker-stall",
        "broker",
        functools.partial(stall, "broker"),
        (1, 8),
        frozenset({"rabbit"}),
        True,
    ),
    Kind("broker-member", "broker", kill_member, (1, 5), frozenset({"cluster"}), True),
    Kind("database-restart", "database", restart_database, (0, 4), SERVERS, True),
    Kind("database-cut", "database", functools.partial(cut, "database"), (0, 1), SERVERS, True),
    Kind("database-stall", "database", functools.partial(stall, "database"), (1, 8), SERVERS, True),
    Kind("commits-lost", "database", lose_commits, (1, 3), SERVERS, True),
    Kind("commits-locked", "database", lock_commits, (11, 13), frozenset({"mysql"}), True),
    Kind("rival", "contention", rival, (1, 4), frozenset(), True),
    Kind("serialization", "contention", fail_serialization, (1, 4), SERVERS, True),
    Kind("disk-full", "disk", fill_disk, (0.5, 3), frozenset({"small disk"}), True),
)
GROUPS = tuple(dict.fromkeys(kind.group for kind in TABLE))


def able(kind: Kind, has: set[str]) -> bool:
    """Tell whether all is there that a kind of fault needs."""
    return not kind.needs or bool(kind.needs & has)


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """A fault that is going to be: seconds after the one before, its kind, how long, its dice."""

    pause: float
    kind: Kind
    lasts: float
    seed: int


def plan(
    seed: int, groups: tuple[str, ...], has: set[str], *, around: bool, count: int
) -> list[Planned]:
    """Return what is going to happen, the same for the same arguments."""
    dice = random.Random(f"{seed} {around}")
    kinds = [one for one in TABLE if one.group in groups and one.around is around]
    kinds = [one for one in kinds if able(one, has)]
    found: list[Planned] = []
    bag: list[Kind] = []
    while kinds and len(found) < count:
        if not bag:  # each kind comes once before any comes again
            bag = dice.sample(kinds, len(kinds))
        kind = bag.pop()
        pause, lasts = dice.uniform(0.3, 2.0), dice.uniform(*kind.lasts)
        found.append(Planned(pause, kind, lasts, dice.getrandbits(32)))
    return found
