"""Limited numbers of rows: locks that make a limit exact, and what the rows of an owner take."""

from __future__ import annotations

import contextlib
import datetime
import functools
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa

from ironic_lite.core.json_types import RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models
from ironic_lite.domain import verbs

_MARK = models.marks.c
_LOCK = sa.select(_MARK.name).where(_MARK.name == sa.bindparam("k_name")).with_for_update()
_OF = sa.bindparam("k_of", type_=sa.String)


def lock(conn: Connection, name: str) -> None:
    """Let other additions to a table wait until this transaction ends; then count its rows.

    :param name: of the table: ``webhooks`` or ``batches``; or ``discovery``.
    :raises sqlalchemy.exc.NoResultFound: the row of ``marks``, which a migration or `add_mark`
        adds, is missing.
    """
    conn.execute(_LOCK, {"k_name": name}).scalar_one()


_HAS_MARK = sa.exists().where(_MARK.name == sa.bindparam("k_name"))
_RUN, _NODE = models.runs.c, models.nodes.c
_DISCOVERED = sa.select(sa.func.count()).where(
    _RUN.verb == verbs.DISCOVERY,
    _RUN.started_at >= sa.bindparam("k_since", type_=_RUN.started_at.type),
)
_UNMANAGED = sa.select(sa.func.count()).where(
    _RUN.verb == verbs.DISCOVERY, _RUN.node_uuid == _NODE.uuid, _NODE.provision_state == "enroll"
)


def add_mark(conn: Connection, name: str) -> None:
    """Add a mark for `lock` that no migration adds, unless it is there."""
    if not conn.execute(sa.select(_HAS_MARK), {"k_name": name}).scalar_one():
        # Another process may add it meanwhile.
        with contextlib.suppress(sa.exc.IntegrityError), conn.begin_nested():
            conn.execute(models.marks.insert(), {"name": name, "value": 0})


def discoveries(conn: Connection, since: datetime.datetime) -> tuple[int, int]:
    """Return the machines enrolled since a time, and all enrolled ones that are in enroll."""
    recent = conn.execute(_DISCOVERED, {"k_since": since}).scalar_one()
    return int(recent), int(conn.execute(_UNMANAGED).scalar_one())


def reached(conn: Connection, table: str, column: str, value: str, most: int) -> bool:
    """Return whether so many rows of a table have this value in an indexed column."""
    last = {"k_of": value, "k_past": most - 1}
    return most < 1 or conn.execute(_last(table, column), last).first() is not None


class Large(NamedTuple):
    """Those columns of a table that have no length, such as JSON."""

    table: str
    among: frozenset[str]

    def size(self, conn: Connection, column: str, value: str) -> int:
        """Return the characters of these columns of all rows that have a value in ``column``."""
        return int(conn.execute(_sizes(self, column), {"k_of": value}).scalar_one())

    def size_of(self, row: RowView) -> int:
        """Return the bytes of these columns of a row as JSON; a partial row counts with its own."""
        values = (row[one.name] for one in _columns(self) if row.get(one.name) is not None)
        return sum(len(orjson.dumps(value, default=str)) for value in values)


@functools.cache
def _columns(large: Large) -> tuple[sa.Column[Any], ...]:
    return tuple(
        column
        for column in models.metadata.tables[large.table].c
        if column.name in large.among
        and getattr(column.type, "impl", column.type).__class__ in (sa.JSON, sa.Text)
    )


@functools.cache
def _last(table: str, column: str) -> sa.Select[Any]:
    rows = models.metadata.tables[table].c
    past = sa.bindparam("k_past", type_=sa.Integer)
    return sa.select(rows.id).where(rows[column] == _OF).order_by(rows.id).offset(past).limit(1)


@functools.cache
def _sizes(large: Large, column: str) -> sa.Select[Any]:
    rows = models.metadata.tables[large.table].c
    lengths = (
        sa.func.coalesce(sa.func.length(sa.cast(one, sa.Text)), 0) for one in _columns(large)
    )
    whole: sa.ColumnElement[int] = sum(lengths, start=sa.literal(0))
    return sa.select(sa.func.coalesce(sa.func.sum(whole), 0)).where(rows[column] == _OF)
