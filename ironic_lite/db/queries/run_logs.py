"""Queries on the lines of runs: rows of one line or more, in the order of writing."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

_LOG, _RUN = models.run_logs.c, models.runs.c
_AFTER = sa.bindparam("k_after", type_=sa.BigInteger)
_LIMIT = sa.bindparam("limit_", type_=sa.Integer)
# Adds nothing for a run that has been removed, so that its last lines fail no save.
_APPEND = models.run_logs.insert().from_select(
    ["run_uuid", "at", "text"],
    sa.select(
        _RUN.uuid,
        sa.bindparam("k_at", type_=_LOG.at.type),
        sa.bindparam("k_text", type_=_LOG.text.type),
    ).where(_RUN.uuid == sa.bindparam("k_run")),
)
_ROWS = (
    sa.select(_LOG.id, _LOG.at, _LOG.text)
    .where(_LOG.run_uuid == sa.bindparam("k_run"), _LOG.id > _AFTER)
    .order_by(_LOG.id)
    .limit(_LIMIT)
)
_NEWEST = (
    sa.select(_LOG.id, _LOG.at, _LOG.text)
    .where(_LOG.run_uuid == sa.bindparam("k_run"))
    .order_by(_LOG.id.desc())
    .limit(_LIMIT)
)
_BYTES = {
    "sqlite": sa.func.length(sa.cast(_LOG.text, sa.LargeBinary)),
    "postgresql": sa.func.octet_length(_LOG.text),
    "mysql": sa.func.octet_length(_LOG.text),
}
_SIZES = {
    kind: sa.select(sa.func.coalesce(sa.func.sum(length), 0)).where(
        _LOG.run_uuid == sa.bindparam("k_run")
    )
    for kind, length in _BYTES.items()
}
_REPLACE = (
    models.run_logs.update()
    .where(_LOG.id == sa.bindparam("k_id", type_=sa.BigInteger))
    .values(text=sa.bindparam("k_text", type_=_LOG.text.type))
)
_REMOVE = models.run_logs.delete().where(
    _LOG.id.in_(sa.bindparam("k_ids", expanding=True, type_=sa.BigInteger))
)


class Stored(NamedTuple):
    """A row: lines that were written together."""

    id: int
    at: datetime.datetime
    text: str


def append(conn: Connection, run_uuid: str, *, at: datetime.datetime, text: str) -> None:
    """Add lines to the log of a run, nothing if the run does not exist any more.

    :param text: one line or more, joined by line ends.
    """
    conn.execute(_APPEND, {"k_run": run_uuid, "k_at": at, "k_text": text})


def rows(conn: Connection, run_uuid: str, *, after: int = 0, limit: int = 10_000) -> list[Stored]:
    """Return the rows of a run after a row's id, the oldest first."""
    values = {"k_run": run_uuid, "k_after": after, "limit_": limit}
    return [Stored(*row) for row in conn.execute(_ROWS, values)]


def newest(conn: Connection, run_uuid: str, *, limit: int) -> list[Stored]:
    """Return the newest rows of a run, the oldest first."""
    found = conn.execute(_NEWEST, {"k_run": run_uuid, "limit_": limit}).all()
    return [Stored(*row) for row in reversed(found)]


def size(conn: Connection, run_uuid: str) -> int:
    """Return the bytes of all texts of a run; the database sums them up."""
    statement = _SIZES.get(conn.dialect.name, _SIZES["mysql"])
    return int(conn.execute(statement, {"k_run": run_uuid}).scalar_one())


def replace(conn: Connection, ids: Sequence[int], text: str) -> None:
    """Replace rows by one with another text, at the place of the first."""
    conn.execute(_REPLACE, {"k_id": ids[0], "k_text": text})
    remove(conn, ids[1:])


def remove(conn: Connection, ids: Collection[int]) -> None:
    """Remove rows."""
    if ids:
        conn.execute(_REMOVE, {"k_ids": list(ids)})
