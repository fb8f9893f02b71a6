"""Queries on events: the append-only history, written with each change, and its readers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import faults, prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import paging
from ironic_lite.db.tables import models
from ironic_lite.domain import history
from ironic_lite.records import Event

COLUMNS: tuple[str, ...] = models.columns(models.events)
_EVENT = models.events.c
_BLANK: Row = {name: None for name in COLUMNS if name != "id"}

_INSERT = prepared.Write(
    models.events.insert().inline(),
    computed=paging.OWNERS_OF_NODE,
)
IN_HISTORY = sa.or_(
    *(
        _EVENT.kind == kind
        if which is None
        else sa.and_(_EVENT.kind == kind, _EVENT.event.in_(which))
        for kind, which in history.TOLD.items()
    )
)
"""The condition that makes an event an entry of history."""

_ASKED = ("power", "management", "provision", "abort_requested")
"""Kinds of events that requests create directly, besides runs."""

_LATEST = 500
_BEFORE = (
    sa.select(_EVENT.kind, _EVENT.request_id)
    .where(_EVENT.node_uuid == sa.bindparam("k_node"))
    .order_by(_EVENT.id.desc())
    .limit(_LATEST)
    .subquery()
)
_AGAIN = (
    sa.select(_BEFORE.c.kind)
    .where(_BEFORE.c.request_id == sa.bindparam("k_request"), _BEFORE.c.kind.in_(_ASKED))
    .limit(1)
)
_OF_REQUEST = (
    sa.select(_BEFORE.c.kind).where(_BEFORE.c.request_id == sa.bindparam("k_request")).limit(1)
)
_END = (
    sa.select(models.events)
    .where(
        _EVENT.node_uuid == sa.bindparam("k_node"),
        _EVENT.request_id == sa.bindparam("k_request"),
        _EVENT.kind.in_(("power", "management")),
        _EVENT.event.in_(("end", "fail")),
    )
    .order_by(_EVENT.id.desc())
    .limit(1)
)
_OF_STOP = (
    sa.select(models.events)
    .where(
        _EVENT.node_uuid == sa.bindparam("k_node"),
        _EVENT.run_uuid == sa.bindparam("k_run"),
        _EVENT.kind == "stop_requested",
    )
    .order_by(_EVENT.id.desc())
    .limit(1)
)
_DELETED = (
    sa.select(_EVENT.node_uuid)
    .where(
        _EVENT.node_uuid.in_(sa.bindparam("k_nodes", expanding=True)),
        _EVENT.kind == "node_deleted",
    )
    .distinct()
)
_ENTRY = sa.select(models.events).where(
    _EVENT.id == sa.bindparam("k_id", type_=sa.BigInteger),
    _EVENT.node_uuid == sa.bindparam("k_node"),
    IN_HISTORY,
)


@cache
def _select_events(of_node: bool, of_kinds: bool) -> sa.Select[Any]:
    statement = sa.select(models.events).where(
        _EVENT.id > sa.bindparam("after_id", type_=sa.BigInteger)
    )
    if of_node:
        statement = statement.where(_EVENT.node_uuid == sa.bindparam("k_node"))
    if of_kinds:
        kinds = sa.bindparam("k_kinds", expanding=True, type_=sa.String)
        statement = statement.where(_EVENT.kind.in_(kinds))
    return statement.order_by(_EVENT.id).limit(sa.bindparam("limit_", type_=sa.Integer))


@cache
def _select_entries(down: bool, after: bool, of_own: bool) -> sa.Select[Any]:
    statement = sa.select(models.events).where(
        _EVENT.node_uuid == sa.bindparam("k_node"), IN_HISTORY
    )
    if of_own:
        statement = statement.where(paging.own_rows(models.events))
    if after:
        marker = sa.bindparam("k_marker", type_=sa.BigInteger)
        statement = statement.where(_EVENT.id < marker if down else _EVENT.id > marker)
    statement = statement.order_by(_EVENT.id.desc() if down else _EVENT.id)
    return statement.limit(sa.bindparam("limit_", type_=sa.Integer))


def add(conn: Connection, rows: Sequence[RowView]) -> None:
    """Append events by one statement: at, node_uuid and kind; other columns if known.

    Owner and lessee are those of the node in this transaction, unless they are given.
    """
    if rows:
        _INSERT.insert_all(conn, [{**_BLANK, **row} for row in rows])


def refuse_again(conn: Connection, node_uuid: str, request_id: str) -> None:
    """Refuse a request that was already carried out on this node.

    A broker may deliver a message a second time, long after the first. The node's lock is held.
    Only the latest events are checked: see ``runs.refuse_again``.

    :raises errors.Conflict: it was.
    """
    if conn.execute(_AGAIN, {"k_node": node_uuid, "k_request": request_id}).first() is not None:
        raise errors.Conflict(
            f"Request {request_id} has been carried out on node {node_uuid} before. Ask again, by "
            "a request of its own, if it is to be done once more.",
            node=node_uuid,
            repeated=True,
        )


def has_request(conn: Connection, node_uuid: str, request_id: str) -> bool:
    """Return whether one of the latest events of a node is of a request."""
    values = {"k_node": node_uuid, "k_request": request_id}
    return conn.execute(_OF_REQUEST, values).first() is not None


def end_of(conn: Connection, node_uuid: str, request_id: str) -> Row | None:
    """Return the event that ends an operation of a request without a run, or None."""
    found = conn.execute(_END, {"k_node": node_uuid, "k_request": request_id}).first()
    return dict(zip(COLUMNS, found, strict=True)) if found is not None else None


def deleted(conn: Connection, nodes: Collection[str]) -> set[str]:
    """Return the UUIDs of those of some hundred nodes whose deletion is in the history."""
    return set(conn.execute(_DELETED, {"k_nodes": list(nodes)}).scalars())


def page(
    conn: Connection,
    *,
    node_uuid: str | None = None,
    after_id: int = 0,
    limit: int = 100,
    kinds: Collection[str] | None = None,
) -> list[Event]:
    """Return events in the order of their ids, after the cursor ``after_id``.

    :param node_uuid: only events of this node, deleted ones too.
    :param kinds: only these kinds.
    """
    values: Row = {"after_id": after_id, "limit_": limit}
    if node_uuid is not None:
        values["k_node"] = node_uuid
    if kinds is not None:
        values["k_kinds"] = list(kinds)
    found = conn.execute(_select_events(node_uuid is not None, kinds is not None), values).all()
    return list(map(_event_of_row, found))


# -- history ---------------------------------------------------------------------------------


def entries(
    conn: Connection,
    node_uuid: str,
    *,
    marker: int | None,
    direction: str,
    limit: int,
    own: RowView,
) -> list[Event]:
    """Return the entries of a node's history, in the order of writing.

    :param marker: the id of the last event of the previous page, which may have been removed.
    :param direction: ``asc`` or ``desc``.
    :param own: ``paging.OWN_OWNER`` and ``paging.OWN_LESSEE`` of the only entries to return;
        empty for all.
    """
    values: Row = {"k_node": node_uuid, "limit_": limit, **own}
    if marker is not None:
        values["k_marker"] = marker
    statement = _select_entries(direction == "desc", marker is not None, bool(own))
    found = conn.execute(statement, values).all()
    return list(map(_event_of_row, found))


def entry(conn: Connection, node_uuid: str, event_id: int) -> Event | None:
    """Return one of these events by its id, None if the node does not have it."""
    found = conn.execute(_ENTRY, {"k_node": node_uuid, "k_id": event_id}).first()
    return _event_of_row(found) if found is not None else None


def of_stop(conn: Connection, node_uuid: str, run_uuid: str) -> Event | None:
    """Return the event of the last stop that was asked for a run, None without one."""
    found = conn.execute(_OF_STOP, {"k_node": node_uuid, "k_run": run_uuid}).first()
    return _event_of_row(found) if found is not None else None


def _event_of_row(found: Sequence[Any]) -> Event:
    return cast(Event, dict(zip(COLUMNS, found, strict=True)))


# Queries for readers that follow the event table.
#
# Rows contain the current name of their node, so that readers need no second statement, and its
# current owner and lessee, because a former owner must not read that name. Their own owner is that
# of the time when they were written.


def _number(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=sa.BigInteger)


_NODE = models.nodes.c
_FEED_SELECTED = (
    *models.events.c,
    _NODE.name,
    _NODE.owner.label("node_owner"),
    _NODE.lessee.label("node_lessee"),
)
FEED_COLUMNS: tuple[str, ...] = tuple(column.name for column in _FEED_SELECTED)
"""The keys of a row: the columns of an event, and ``name``, ``node_owner``, ``node_lessee``."""
_WITH_NODE = models.events.outerjoin(models.nodes, _NODE.uuid == _EVENT.node_uuid)
_HEAD = sa.select(sa.func.max(_EVENT.id))
_TRIMMED = "trimmed"
_MARK = models.marks.c
_LAST_REMOVED = sa.select(_MARK.value).where(_MARK.name == _TRIMMED)
_RAISE_REMOVED = (
    models.marks.update()
    .where(_MARK.name == _TRIMMED, _MARK.value < _number("k_value"))
    .values(value=_number("k_value"))
)
_ID_STEP = sa.text("SELECT @@auto_increment_increment")
_CLUSTER = sa.text("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
_EVENTS_AFTER = (
    sa.select(*_FEED_SELECTED)
    .select_from(_WITH_NODE)
    .where(_EVENT.id > _number("after"))
    .order_by(_EVENT.id)
    .limit(_number("limit_"))
)
NEW = _EVENT.kind != history.OF_IRONIC
"""The condition that the time of an event is that of its id."""
_IDS_BETWEEN = (
    sa.select(_EVENT.id)
    .where(_EVENT.id > _number("after"), _EVENT.id <= _number("upto"))
    .order_by(_EVENT.id)
)
_EVENTS_WITH_IDS = (
    sa.select(*_FEED_SELECTED)
    .select_from(_WITH_NODE)
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


class OpenWriters(NamedTuple):
    """The transactions that may fill missing ids.

    :ivar writers: names of transactions (PostgreSQL) or INSERTs (MariaDB) that write to the table.
    :ivar locked: MariaDB: an open transaction has a row among the given ids.
    """

    writers: frozenset[str]
    locked: bool = False


def ask_writers(conn: Connection, after: int, upto: int) -> OpenWriters:
    """Ask the server which transactions may write an event with ``after < id < upto``.

    A transaction that is not in the answer has ended, so a later read shows its events.
    """
    if conn.dialect.name == "postgresql":
        return OpenWriters(frozenset(conn.execute(_POSTGRESQL_WRITERS).scalars()))
    # In this order, because the row of an INSERT that has ended is locked or visible.
    writers = frozenset(conn.execute(_MARIADB_WRITERS).scalars())
    return OpenWriters(writers, after + 1 < upto and _are_locked(conn, after, upto))


def _are_locked(conn: Connection, after: int, upto: int) -> bool:
    try:
        conn.execute(_MARIADB_LOCKED, {"after": after, "upto": upto}).all()
    except sa.exc.OperationalError as why:
        if faults.classify(why) is not faults.DatabaseFault.CONTENTION:
            raise
        return True
    return False


def can_ask_writers(conn: Connection) -> bool:
    """Return whether `ask_writers` has an answer: not of MySQL, nor of one member of a cluster."""
    if conn.dialect.name == "postgresql":
        return True
    if not getattr(conn.dialect, "is_mariadb", False):
        return False
    found = conn.execute(_CLUSTER).first()
    return found is None or found[1] != "ON"


def events_after(conn: Connection, after: int, *, limit: int) -> list[Row]:
    """Return the visible events after an id, in the order of their ids."""
    return _feed_rows(conn.execute(_EVENTS_AFTER, {"after": after, "limit_": limit}).all())


def ids_between(conn: Connection, after: int, upto: int) -> list[int]:
    """Return the visible ids with ``after < id <= upto``, ascending."""
    return list(conn.execute(_IDS_BETWEEN, {"after": after, "upto": upto}).scalars())


def events_with_ids(conn: Connection, wanted: Collection[int]) -> list[Row]:
    """Return the visible events with these ids, in their order."""
    return (
        _feed_rows(conn.execute(_EVENTS_WITH_IDS, {"k_ids": list(wanted)}).all()) if wanted else []
    )


def _feed_rows(found: Sequence[Any]) -> list[Row]:
    return [dict(zip(FEED_COLUMNS, row, strict=True)) for row in found]


def head(conn: Connection) -> int:
    """Return the largest visible id, 0 without events."""
    return int(conn.execute(_HEAD).scalar() or 0)


def id_step(conn: Connection) -> int:
    """Return the distance of the ids that the database assigns."""
    if conn.dialect.name not in ("mysql", "mariadb"):
        return 1
    return int(conn.execute(_ID_STEP).scalar_one())


def last_removed(conn: Connection) -> int:
    """Return the largest id of an event that was removed, 0 if none was."""
    return int(conn.execute(_LAST_REMOVED).scalar() or 0)


def note_removed(conn: Connection, ident: int) -> None:
    """Store that an event was removed, if its id is the largest so far."""
    conn.execute(_RAISE_REMOVED, {"k_value": ident})


_TIMES = {
    "since": sa.or_(
        _EVENT.at >= sa.bindparam("k_since", type_=_EVENT.at.type), _EVENT.id > _number("k_begun")
    ),
    "before": _EVENT.at < sa.bindparam("k_before", type_=_EVENT.at.type),
}


@cache
def _select_feed_page(newest: bool, names: frozenset[str]) -> sa.Select[Any]:
    wanted = [_EVENT.id > _number("after"), _EVENT.id <= _number("upto"), NEW]
    for name in sorted(names):
        if name in _TIMES:
            wanted.append(_TIMES[name])
            continue
        given = sa.bindparam(f"k_{name}", expanding=True, type_=sa.String)
        wanted.append(_EVENT[name].in_(given))
    order = _EVENT.id.desc() if newest else _EVENT.id
    statement = sa.select(*_FEED_SELECTED).select_from(_WITH_NODE).where(*wanted)
    return statement.order_by(order).limit(_number("limit_"))


def feed_page(
    conn: Connection,
    *,
    after: int,
    upto: int,
    limit: int,
    newest: bool = False,
    **where: Any,
) -> list[Row]:
    """Return events with ``after < id <= upto``, in the order of their ids.

    :param newest: the newest ``limit`` events, otherwise the oldest.
    :param where: values by column: node_uuid, run_uuid, kind, requester, owner; and times: before,
        and since with the id ``begun`` of the newest event that it concerns.
    """
    names = frozenset(where) - {"begun"}
    values: Row = {
        f"k_{name}": list(each) if name in names - _TIMES.keys() else each
        for name, each in where.items()
    }
    values |= {"after": after, "upto": upto, "limit_": limit}
    found: Sequence[Any] = conn.execute(_select_feed_page(newest, names), values).all()
    return _feed_rows(found[::-1] if newest else found)
