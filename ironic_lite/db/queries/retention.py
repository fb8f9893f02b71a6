"""Removal of old history in portions.

A portion is one short transaction, so that other writers do not wait for a large one.
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models

_EVENT = models.events.c
_RUN = models.runs.c
_NODE = models.nodes.c


class Excess(NamedTuple):
    """Lowest ids of a node's history that are kept; 0 removes nothing.

    ``entries`` bounds every event, ``others`` those that are no entries of history, ``runs`` the
    runs that have ended.
    """

    entries: int
    others: int
    runs: int


def _number_parameter(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=sa.BigInteger)


def _last_kept(table: sa.Table, name: str, *more: sa.ColumnElement[bool]) -> Any:
    """Return the id of the oldest row to keep, counted from the newest."""
    newest = (
        sa.select(table.c.id)
        .where(table.c.node_uuid == sa.bindparam("k_node"), *more)
        .order_by(table.c.id.desc())
        .limit(1)
        .offset(_number_parameter(name))
        .scalar_subquery()
    )
    return sa.func.coalesce(newest, 0)


_EXCESS = sa.select(
    _last_kept(models.events, "n_entries", events.IN_HISTORY),
    _last_kept(models.events, "n_others"),
    _last_kept(models.runs, "n_runs"),
)
_NEXT = (
    sa.select(_EVENT.node_uuid)
    .where(_EVENT.node_uuid > sa.bindparam("k_after"))
    .order_by(_EVENT.node_uuid)
    .limit(1)
    .subquery("following")
)
_NEXT_NODE = sa.select(
    _NEXT.c.node_uuid, _NODE.uuid.is_not(None), _NODE.driver, _NODE.conductor_group
).select_from(_NEXT.outerjoin(models.nodes, _NODE.uuid == _NEXT.c.node_uuid))
_NEWEST = (
    sa.select(_EVENT.at)
    .where(_EVENT.node_uuid == sa.bindparam("k_node"))
    .order_by(_EVENT.id.desc())
    .limit(1)
)


def _oldest(table: sa.Table, *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Build the SELECT of the ids of a node's oldest rows, at most ``limit_``."""
    return (
        sa.select(table.c.id)
        .where(table.c.node_uuid == sa.bindparam("k_node"), *where)
        .order_by(table.c.id)
        .limit(_number_parameter("limit_"))
    )


def _delete_portion(table: sa.Table, *where: sa.ColumnElement[bool]) -> sa.Delete:
    """Build the DELETE of a node's oldest rows, at most ``limit_``."""
    # MariaDB can read the table it deletes from only in a nested SELECT.
    oldest = _oldest(table, *where).subquery("oldest")
    return table.delete().where(table.c.id.in_(sa.select(oldest.c.id)))


_REMOVABLE = _oldest(
    models.events,
    _EVENT.at < sa.bindparam("k_before"),
    sa.or_(
        _EVENT.id < _number_parameter("n_entries"),
        sa.and_(_EVENT.id < _number_parameter("n_others"), sa.not_(events.IN_HISTORY)),
    ),
)
_ALL = _oldest(models.events)
_REMOVE = models.events.delete().where(
    _EVENT.id.in_(sa.bindparam("k_ids", expanding=True, type_=sa.BigInteger))
)
_REMOVE_RUNS = _delete_portion(
    models.runs,
    _RUN.ended_at < sa.bindparam("k_before"),  # NULL, and so not less, while it is open
    _RUN.id < _number_parameter("n_runs"),
)


def next_node(conn: Connection, after: str) -> Row | None:
    """Return the next node with events, by UUID after ``after``, None after the last.

    :returns: uuid, exists, driver and conductor_group; the latter two None for a removed node.
    """
    found = conn.execute(_NEXT_NODE, {"k_after": after}).first()
    names = ("uuid", "exists", "driver", "conductor_group")
    return dict(zip(names, found, strict=True)) if found is not None else None


def excess(conn: Connection, node_uuid: str, *, entries: int, others: int, runs: int) -> Excess:
    """Return the excess history of a node.

    :param entries: how many entries of history are kept, 1 or more; ``others`` events and ``runs``.
    """
    counts = {"n_entries": entries - 1, "n_others": others - 1, "n_runs": runs - 1}
    found = conn.execute(_EXCESS, {"k_node": node_uuid, **counts}).one()
    return Excess(*map(int, found))


def newest(conn: Connection, node_uuid: str) -> datetime.datetime | None:
    """Return the time of a node's last event, None without events."""
    found: datetime.datetime | None = conn.execute(_NEWEST, {"k_node": node_uuid}).scalar()
    return found


def remove(
    conn: Connection, node_uuid: str, what: Excess, *, before: datetime.datetime, limit: int
) -> int:
    """Remove a portion of a node's excess events, oldest first; return their number.

    :param before: younger ones stay.
    """
    values = {"k_node": node_uuid, "k_before": before, "limit_": limit}
    bounds = {"n_entries": what.entries, "n_others": what.others}
    return _remove_events(conn, _REMOVABLE, {**values, **bounds})


def remove_runs(
    conn: Connection, node_uuid: str, what: Excess, *, before: datetime.datetime, limit: int
) -> int:
    """Remove a portion of a node's excess runs with their steps; an open run stays."""
    values = {"k_node": node_uuid, "k_before": before, "limit_": limit, "n_runs": what.runs}
    return conn.execute(_REMOVE_RUNS, values).rowcount


def remove_all(conn: Connection, node_uuid: str, *, limit: int) -> int:
    """Remove a portion of all events of a node that no longer exists."""
    return _remove_events(conn, _ALL, {"k_node": node_uuid, "limit_": limit})


def _remove_events(conn: Connection, chosen: sa.Select[Any], values: Row) -> int:
    """Remove the chosen events and store the largest id, for followers that have not seen it."""
    ids = list(conn.execute(chosen, values).scalars())
    if ids:
        conn.execute(_REMOVE, {"k_ids": ids})
        events.note_removed(conn, max(ids))
    return len(ids)
