"""Queries on holds: those in force on a node by one statement, pages, and their begin and end.

A hold is in force until it is ended or its time is over. Rows whose time is over are not written
again; every query compares their time with the clock of its process.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import JsonView, Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import paging
from ironic_lite.db.queries.paging import unindexed
from ironic_lite.db.tables import models
from ironic_lite.domain import holds
from ironic_lite.domain.holds import Block, Hold
from ironic_lite.domain.states import UNSYNCED

_HOLD = models.holds.c
_NODE = models.nodes.c
COLUMNS: tuple[str, ...] = models.columns(models.holds)


def _now() -> datetime.datetime:
    return clock.now()


# The function is called whenever a statement is executed.
_NOW: Any = sa.bindparam("holds_now", callable_=_now, type_=_HOLD.until.type)


IN_FORCE = sa.and_(_HOLD.ended_at.is_(None), sa.or_(_HOLD.until.is_(None), _HOLD.until > _NOW))
"""The condition that a hold is in force now."""
HELD = sa.exists().where(_HOLD.node_uuid == _NODE.uuid, IN_FORCE)
"""The condition that a row of ``nodes`` has a hold in force."""
HELD_NODES = sa.select(_HOLD.node_uuid).where(IN_FORCE)
"""The nodes that have a hold in force."""

_READ = (*Hold._fields, *holds.PROJECTS)
_OF_NODE = _HOLD.node_uuid == sa.bindparam("k_node")
_SELECT = (
    sa.select(*(_HOLD[name] for name in _READ))
    .where(_OF_NODE, IN_FORCE)
    .order_by(_HOLD.id)
    .limit(2 * holds.MOST)  # requests for many nodes add holds without this limit
)
_OF_NODES = (
    sa.select(*(_HOLD[name] for name in _READ), _HOLD.node_uuid)
    .where(_HOLD.node_uuid.in_(sa.bindparam("k_nodes", expanding=True)), IN_FORCE)
    .order_by(_HOLD.id)
)
_INSERT = prepared.Write(models.holds.insert().inline(), computed=paging.OWNERS_OF_NODE)
_COUNT = sa.select(sa.func.count()).select_from(models.holds).where(_OF_NODE, IN_FORCE)
_ONE = sa.select(models.holds).where(_OF_NODE, _HOLD.uuid == sa.bindparam("k_uuid"))
_END = models.holds.update().where(_HOLD.uuid == sa.bindparam("k_uuid"), _HOLD.ended_at.is_(None))
_END_ALL = models.holds.update().where(_HOLD.uuid.in_(sa.bindparam("k_uuids", expanding=True)))
_PAST = (
    sa.select(_HOLD.id)
    .where(_OF_NODE, sa.not_(IN_FORCE))
    .order_by(_HOLD.id.desc())
    .offset(holds.MOST_KEPT - 1)
    .limit(1)
)
_TRIM = models.holds.delete().where(
    _OF_NODE, sa.not_(IN_FORCE), _HOLD.id <= sa.bindparam("k_id", type_=sa.BigInteger)
)
_BY_KIND = sa.select(_HOLD.kind, sa.func.count()).where(IN_FORCE).group_by(_HOLD.kind)

LISTING = paging.Listing(
    models.holds,
    {
        "ended": paging.Switch(off=IN_FORCE),
        **paging.owner_filters(models.holds, IN_FORCE),
    },
)
page = LISTING.page


def nodes_refusing(operation: str) -> sa.Select[tuple[str]]:
    """Return the nodes with a hold in force that refuses an operation."""
    blocks = (_HOLD.blocks.like(f"%{one}%") for one in Block if operation in holds.REFUSED[one])
    return sa.select(_HOLD.node_uuid).where(IN_FORCE, sa.or_(*blocks))


def in_force(conn: Connection, node_uuid: str, project: str | None) -> list[Hold]:
    """Return the holds in force on a node, the oldest first.

    :param project: of the reader, who sees the reasons of its own holds; None for all reasons.
    """
    found = conn.execute(_SELECT, {"k_node": node_uuid})
    return [_hold_of_row(row, project) for row in found]


def in_force_of(
    conn: Connection, nodes: Sequence[str], project: str | None
) -> dict[str, list[Hold]]:
    """Return the holds in force on some hundred nodes by node, the oldest of each first.

    :param project: as for `in_force`.
    """
    found: dict[str, list[Hold]] = {}
    for *row, node in conn.execute(_OF_NODES, {"k_nodes": list(nodes)}):
        found.setdefault(str(node), []).append(_hold_of_row(row, project))
    return found


def _hold_of_row(row: Sequence[Any], project: str | None) -> Hold:
    about = dict(zip(_READ, row, strict=True))
    return holds.read(about) if holds.is_own(about, project) else holds.read_of_others(about)


def refuse(
    conn: Connection, node_uuid: str, operation: str, said: str, project: str | None
) -> None:
    """Refuse an operation if a hold in force blocks it; parameters as ``domain.holds.refusal``.

    :param project: as for `in_force`.
    :raises errors.NodeHeld: a hold blocks it.
    """
    why = holds.refusal(node_uuid, in_force(conn, node_uuid, project), operation, said)
    if why is not None:
        raise why


def add(conn: Connection, values: RowView) -> None:
    """Add a hold to a node whose row this transaction has locked; forget the oldest ended ones.

    :raises errors.Conflict: the node has `domain.holds.MOST` holds in force.
    """
    node = {"k_node": values["node_uuid"]}
    if int(conn.execute(_COUNT, node).scalar_one()) >= holds.MOST:
        reason = f"it has {holds.MOST} holds in force, which is the limit; end one of them first"
        raise errors.Conflict(node=values["node_uuid"], reason=reason)
    last = conn.execute(_PAST, node).scalar()
    if last is not None:
        conn.execute(_TRIM, {**node, "k_id": last})
    _INSERT.insert_all(conn, [{"owner": None, "lessee": None, **values}])


def _chosen(where: JsonView) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of nodes: their owner or conductor_group, or ``uuid``, a list."""
    return [
        _NODE[name].in_(value) if name == "uuid" else _NODE[name] == value
        for name, value in where.items()
    ]


def without(
    conn: Connection, values: RowView, where: JsonView, *, columns: Sequence[str], limit: int
) -> list[Row]:
    """Return the first nodes without such a hold in force, in the order of their ids; lock them.

    :param values: of columns of the hold.
    :param where: as for `such`.
    :param columns: of the nodes to return.
    """
    those = [_HOLD[name] == value for name, value in values.items()]
    lacking = sa.not_(sa.exists().where(_HOLD.node_uuid == _NODE.uuid, IN_FORCE, *those))
    chosen = sa.select(*(_NODE[name] for name in columns)).where(lacking, *_chosen(where))
    found = conn.execute(chosen.order_by(_NODE.id).limit(limit).with_for_update()).mappings().all()
    # Another transaction may have held some of them before this one got their locks.
    uuids = [row["uuid"] for row in found]
    again = sa.select(_HOLD.node_uuid).where(_HOLD.node_uuid.in_(uuids), IN_FORCE, *those)
    taken = set(conn.execute(again).scalars()) if uuids else set()
    return [dict(row) for row in found if row["uuid"] not in taken]


UNREAD = sa.and_(
    _NODE.power_state.is_(None),
    unindexed(_NODE.maintenance).is_(sa.false()),
    unindexed(_NODE.retired).is_(sa.false()),
    _NODE.provision_state.not_in(sorted(map(str, UNSYNCED))),
)
"""The condition that the power of a node is not known, although it is read regularly."""


def such(
    conn: Connection,
    values: RowView,
    where: JsonView,
    *,
    columns: Sequence[str],
    limit: int,
    unread: bool | None = None,
    lock_rows: bool = False,
) -> list[tuple[Row, Row]]:
    """Return holds in force with these values, the oldest first, each with its node.

    :param where: owner or conductor_group of the nodes, or ``uuid``, a list; empty for all.
    :param columns: of the nodes to return.
    :param unread: whether `UNREAD` is true for the nodes; None for all.
    """
    wanted = [*(_HOLD[name] == value for name, value in values.items()), IN_FORCE, *_chosen(where)]
    if unread is not None:
        wanted.append(UNREAD if unread else sa.not_(UNREAD))
    joined = models.holds.join(models.nodes, _NODE.uuid == _HOLD.node_uuid)
    chosen = sa.select(models.holds, *(_NODE[name].label(f"node__{name}") for name in columns))
    chosen = chosen.select_from(joined).where(*wanted).order_by(_HOLD.id).limit(limit)
    if lock_rows:
        chosen = chosen.with_for_update(of=models.holds)
    found = conn.execute(chosen).mappings()
    return [
        (
            {name: row[name] for name in COLUMNS},
            {name: row[f"node__{name}"] for name in columns},
        )
        for row in found
    ]


def is_unread(conn: Connection, node_uuid: str) -> bool:
    """Return whether `UNREAD` is true for a node."""
    return (
        conn.execute(sa.select(_NODE.id).where(_NODE.uuid == node_uuid, UNREAD)).first() is not None
    )


def count_unread(conn: Connection, values: RowView, where: JsonView) -> int:
    """Return the number of nodes for which `UNREAD` is true, as `such` finds them."""
    wanted = [*(_HOLD[name] == value for name, value in values.items()), IN_FORCE, *_chosen(where)]
    joined = models.holds.join(models.nodes, _NODE.uuid == _HOLD.node_uuid)
    counted = sa.select(sa.func.count(_NODE.uuid.distinct())).select_from(joined)
    return int(conn.execute(counted.where(*wanted, UNREAD)).scalar_one())


def add_all(conn: Connection, rows: Sequence[RowView]) -> None:
    """Add holds beyond the limit of each node, as requests for many nodes may."""
    _INSERT.insert_all(conn, [{"owner": None, "lessee": None, **row} for row in rows])


def get(conn: Connection, node_uuid: str, uuid: str) -> Any:
    """Return a hold of a node with all columns, in force or ended.

    :raises errors.NotFound: the node does not have this hold.
    """
    found = conn.execute(_ONE, {"k_node": node_uuid, "k_uuid": uuid}).first()
    if found is None:
        raise errors.NotFound(what="Hold", ident=uuid)
    return dict(zip(COLUMNS, found, strict=True))


def end(conn: Connection, uuid: str, values: RowView) -> bool:
    """End a hold; return False if it has been ended before.

    :param values: ended_at, ended_by, end_reason.
    """
    return bool(conn.execute(_END, {**values, "k_uuid": uuid}).rowcount)


def end_all(conn: Connection, uuids: Sequence[str], values: RowView) -> None:
    """End holds whose rows this transaction has locked by `such`; ``values`` as for `end`."""
    conn.execute(_END_ALL, {**values, "k_uuids": list(uuids)})


def by_kind(conn: Connection) -> dict[str, int]:
    """Return the number of holds in force by kind; kinds without blocks of their own are summed."""
    found = dict.fromkeys((*holds.KINDS, "other"), 0)
    for kind, count in conn.execute(_BY_KIND):
        found[kind if kind in holds.KINDS else "other"] += int(count)
    return found
