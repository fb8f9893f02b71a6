"""Store all that is secret anew, under the first of the keys: while the service runs.

Rows are held while they are rewritten, a few at a time; what they say stays the same, so nobody who
reads or writes them meanwhile notices.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import sqlalchemy as sa

from ironic_lite.db import models, sealing
from ironic_lite.db.session import Connection, Database

PART = 50
"""Rows of one transaction: few enough that nobody waits for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How many rows of a table there are, and how many were rewritten."""

    table: str
    found: int
    done: int


def run(database: Database) -> list[Outcome]:
    """Rewrite what is not stored as the first key has it; what is, costs a look.

    :raises errors.KeyMissing: a value needs a key that is not configured; what is done is done.
    :raises errors.Unavailable: the database is away; what is done is done.
    """
    tables = [table for table in models.metadata.sorted_tables if sealing.sealed(table)]
    return [_table(database, table) for table in tables]


def _table(database: Database, table: sa.Table) -> Outcome:
    found = done = 0
    last: tuple[Any, ...] | None = None
    while True:
        rows, changed, last = database.write(
            lambda conn, last=last: _part(conn, table, last)  # type: ignore[misc]
        )
        found, done = found + rows, done + changed
        if rows < PART:
            return Outcome(table.name, found, done)


def _part(
    conn: Connection, table: sa.Table, last: tuple[Any, ...] | None
) -> tuple[int, int, tuple[Any, ...] | None]:
    """Rewrite one part; return its rows, how many were changed, and the key of the last."""
    key = tuple(table.primary_key.columns)
    names = sealing.sealed(table)
    stored = [sa.type_coerce(table.c[name], sa.JSON(none_as_null=True)) for name in names]
    query = sa.select(*key, *stored).order_by(*key).limit(PART).with_for_update()
    if last is not None:
        query = query.where(sa.tuple_(*key) > sa.tuple_(*map(sa.literal, last)))
    keys, rows, changed = sealing.keys_of(conn.dialect), 0, 0
    for row in conn.execute(query).all():
        rows, last = rows + 1, tuple(row[: len(key)])
        held = dict(zip(names, row[len(key) :], strict=True))
        stale = {name: keys.open(value) for name, value in held.items() if not keys.fresh(value)}
        if stale:
            same = (column == value for column, value in zip(key, last, strict=True))
            conn.execute(table.update().where(*same).values(**stale))
            changed += 1
    return rows, changed, last
