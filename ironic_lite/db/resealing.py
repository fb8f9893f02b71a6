"""Which keys the database needs; and how all is stored anew under the first, while it is used.

Rows are held while they are rewritten, a few at a time; what they say stays the same, so nobody who
reads or writes them meanwhile notices.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db import models, sealing
from ironic_lite.db.session import Connection, Database

LOG = logging.getLogger(__name__)

PART = 50
"""Rows of one transaction: few enough that nobody waits for it."""

_FEW = (
    models.nodes,
    models.deploy_templates,
    models.runbooks,
    models.inspection_rules,
    models.volume_targets,
)
"""Tables that are small enough to be looked through at each start."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How many rows of a table there are, and how many were rewritten."""

    table: str
    found: int
    done: int


def used(conn: Connection, tables: Iterable[sa.Table] | None = None) -> set[str]:
    """Return by what the keys are known that are needed, ``none`` for what lies open but marked.

    :param tables: to be looked through; None means all, of which some are large.
    """
    found: set[str] = set()
    for table in models.metadata.sorted_tables if tables is None else tables:
        for name in sealing.sealed(table):
            ident = sealing.ident(table.c[name])
            query = sa.select(ident).where(ident.is_not(None)).distinct()
            found |= {str(one).partition(":")[0] for one in conn.execute(query).scalars()}
    return found


def check(database: Database) -> None:
    """Look, before anything is served, whether the keys are here that are needed.

    A process that has none of them is misconfigured. One that lacks some can do most of its work,
    also where a key is lost for ever: it says so in its log.

    :raises errors.KeyMissing: none of the keys that are needed is here.
    """
    needed = database.read(lambda conn: used(conn, _FEW))
    missing = sealing.keys_of(database.engine.dialect).lacks(needed)
    if not missing:
        return
    why = errors.KeyMissing(key=", ".join(missing))
    if len(missing) == len(needed - {sealing.PLAIN}):
        raise why
    LOG.error("%s Until then, what needs it is answered with 500.", why.message)


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
