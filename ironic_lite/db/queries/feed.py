"""Queries for readers that follow the event table.

Rows contain the current name of their node, so that readers need no second statement, and its
current owner and lessee, because a former owner must not read that name. Their own owner is that of
the time when they were written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite.core.json_types import Row
from ironic_lite.db.engine import faults
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models


def _number(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=sa.BigInteger)


_EVENT, _NODE = models.events.c, models.nodes.c
_COLUMNS = (
    *models.events.c,
    _NODE.name,
    _NODE.owner.label("node_owner"),
    _NODE.lessee.label("node_lessee"),
)
NAMES: tuple[str, ...] = tuple(column.name for column in _COLUMNS)
"""The keys of a row: the columns of an event, and ``name``, ``node_owner``, ``node_lessee``."""
_JOINED = models.events.outerjoin(models.nodes, _NODE.uuid == _EVENT.node_uuid)
_HEAD = sa.select(sa.func.max(_EVENT.id))
_TRIMMED = "trimmed"
_MARK = models.marks.c
_REMOVED = sa.select(_MARK.value).where(_MARK.name == _TRIMMED)
_RAISE = (
    models.marks.update()
    .where(_MARK.name == _TRIMMED, _MARK.value < _number("k_value"))
    .values(value=_number("k_value"))
)
_STEP = sa.text("SELECT @@auto_increment_increment")
_CLUSTER = sa.text("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
_NEW = (
    sa.select(*_COLUMNS)
    .select_from(_JOINED)
    .where(_EVENT.id > _number("after"))
    .order_by(_EVENT.id)
    .limit(_number("limit_"))
)
_IDS = (
    sa.select(_EVENT.id)
    .where(_EVENT.id > _number("after"), _EVENT.id <= _number("upto"))
    .order_by(_EVENT.id)
)
_ROWS = (
    sa.select(*_COLUMNS)
    .select_from(_JOINED)
    .where(_EVENT.id.in_(sa.bindparam("k_ids", expanding=True, type_=sa.BigInteger)))
    .order_by(_EVENT.id)
)
# An INSERT has this lock from before the assignment of its id to the end of its transaction.
_POSTGRESQL_WRITERS = sa.text(
    "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE relation = 'events'::regclass"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND mode = 'RowExclusiveLock' AND granted"
)
# Without the right PROCESS the server shows the statements of our account alone.
_MARIADB_WRITERS = sa.text(
    "SELECT concat(id, '/', query_id) FROM information_schema.processlist"
    " WHERE info LIKE 'INSERT INTO events%' AND id <> connection_id() AND db = database()"
)
_MARIADB_LOCKED = sa.text(
    "SELECT id FROM events WHERE id > :after AND id < :upto LOCK IN SHARE MODE NOWAIT"
)


class Answer(NamedTuple):
    """The transactions that may fill missing ids.

    :ivar writers: names of transactions (PostgreSQL) or INSERTs (MariaDB) that write to the table.
    :ivar locked: MariaDB: an open transaction has a row among the given ids.
    """

    writers: frozenset[str]
    locked: bool = False


def ask(conn: Connection, after: int, upto: int) -> Answer:
    """Ask the server which transactions may write an event with ``after < id < upto``.

    A transaction that is not in the answer has ended, so a later read shows its events.
    """
    if conn.dialect.name == "postgresql":
        return Answer(frozenset(conn.execute(_POSTGRESQL_WRITERS).scalars()))
    # In this order, because the row of an INSERT that has ended is locked or visible.
    writers = frozenset(conn.execute(_MARIADB_WRITERS).scalars())
    return Answer(writers, after + 1 < upto and _are_locked(conn, after, upto))


def _are_locked(conn: Connection, after: int, upto: int) -> bool:
    try:
        conn.execute(_MARIADB_LOCKED, {"after": after, "upto": upto}).all()
    except sa.exc.OperationalError as why:
        if faults.classify(why) is not faults.Fault.CONTENTION:
            raise
        return True
    return False


def can_ask(conn: Connection) -> bool:
    """Return whether `ask` has an answer: not of MySQL, and not of one member of a cluster."""
    if conn.dialect.name == "postgresql":
        return True
    if not getattr(conn.dialect, "is_mariadb", False):
        return False
    found = conn.execute(_CLUSTER).first()
    return found is None or found[1] != "ON"


def look(conn: Connection, after: int, *, limit: int) -> list[Row]:
    """Return the visible events after an id, in the order of their ids."""
    return _read(conn.execute(_NEW, {"after": after, "limit_": limit}).all())


def ids(conn: Connection, after: int, upto: int) -> list[int]:
    """Return the visible ids with ``after < id <= upto``, ascending."""
    return list(conn.execute(_IDS, {"after": after, "upto": upto}).scalars())


def rows(conn: Connection, wanted: Collection[int]) -> list[Row]:
    """Return the visible events with these ids, in their order."""
    return _read(conn.execute(_ROWS, {"k_ids": list(wanted)}).all()) if wanted else []


def _read(found: Sequence[Any]) -> list[Row]:
    return [dict(zip(NAMES, row, strict=True)) for row in found]


def head(conn: Connection) -> int:
    """Return the largest visible id, 0 without events."""
    return int(conn.execute(_HEAD).scalar() or 0)


def step(conn: Connection) -> int:
    """Return the distance of the ids that the database assigns."""
    if conn.dialect.name not in ("mysql", "mariadb"):
        return 1
    return int(conn.execute(_STEP).scalar_one())


def removed(conn: Connection) -> int:
    """Return the largest id of an event that was removed, 0 if none was."""
    return int(conn.execute(_REMOVED).scalar() or 0)


def note_removed(conn: Connection, ident: int) -> None:
    """Store that an event was removed, if its id is the largest so far."""
    conn.execute(_RAISE, {"k_value": ident})


@cache
def _page(newest: bool, names: frozenset[str]) -> sa.Select[Any]:
    wanted = [_EVENT.id > _number("after"), _EVENT.id <= _number("upto")]
    for name in sorted(names):
        given = sa.bindparam(f"k_{name}", expanding=True, type_=sa.String)
        wanted.append(_EVENT[name].in_(given))
    order = _EVENT.id.desc() if newest else _EVENT.id
    statement = sa.select(*_COLUMNS).select_from(_JOINED).where(*wanted)
    return statement.order_by(order).limit(_number("limit_"))


def page(
    conn: Connection,
    *,
    after: int,
    upto: int,
    limit: int,
    newest: bool = False,
    **where: Collection[str],
) -> list[Row]:
    """Return events with ``after < id <= upto``, in the order of their ids.

    :param newest: the newest ``limit`` events, otherwise the oldest.
    :param where: values by column: node_uuid, run_uuid, kind, owner.
    """
    values: Row = {f"k_{name}": list(each) for name, each in where.items()}
    values |= {"after": after, "upto": upto, "limit_": limit}
    found: Sequence[Any] = conn.execute(_page(newest, frozenset(where)), values).all()
    return _read(found[::-1] if newest else found)
