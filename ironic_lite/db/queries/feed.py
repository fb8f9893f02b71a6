"""Queries for readers that follow the event table.

Rows contain the current name and owner of their node, so that readers need no second statement. An
event about a batch belongs to the project of the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models


def _number(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=sa.BigInteger)


_EVENT, _NODE = models.events.c, models.nodes.c
_BATCH = models.batches.c
# The column node_uuid of an event about a batch has the UUID of the batch.
_OWNER = sa.func.coalesce(_NODE.owner, _BATCH.project).label("owner")
_COLUMNS = (*models.events.c, _NODE.name, _OWNER)
NAMES: tuple[str, ...] = tuple(column.name for column in _COLUMNS)
"""The keys of a row: the columns of an event, ``name`` of its node, ``owner`` of node or batch."""
_JOINED = models.events.outerjoin(models.nodes, _NODE.uuid == _EVENT.node_uuid).outerjoin(
    models.batches, _BATCH.uuid == _EVENT.node_uuid
)
# Initial plans of PostgreSQL: computed once, in the snapshot of the statement that reads the rows.
_SNAPSHOT: tuple[sa.ColumnElement[Any], ...] = (
    sa.literal_column("(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"),
    sa.literal_column("(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint)"),
)
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


class Look(NamedTuple):
    """Rows of one look at the table, and the transactions of that moment (PostgreSQL, else 0)."""

    rows: list[Row]
    xmin: int
    xmax: int


@cache
def _look(postgresql: bool) -> sa.Select[Any]:
    more = _SNAPSHOT if postgresql else ()
    return (
        sa.select(*_COLUMNS, *more)
        .select_from(_JOINED)
        .where(_EVENT.id > _number("after"))
        .order_by(_EVENT.id)
        .limit(_number("limit_"))
    )


def look(conn: Connection, after: int, *, limit: int) -> Look:
    """Return the visible events after an id, in the order of their ids."""
    postgresql = conn.dialect.name == "postgresql"
    found = conn.execute(_look(postgresql), {"after": after, "limit_": limit}).all()
    width = len(NAMES)
    rows = [dict(zip(NAMES, row[:width], strict=True)) for row in found]
    xmin, xmax = found[0][width:] if found and postgresql else (0, 0)
    return Look(rows, xmin, xmax)


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
        owned = sa.or_(_NODE.owner.in_(given), _BATCH.project.in_(given))
        wanted.append(owned if name == "owner" else _EVENT[name].in_(given))
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
    rows = [dict(zip(NAMES, row, strict=True)) for row in found]
    return rows[::-1] if newest else rows
