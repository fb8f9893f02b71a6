"""Database encryption keys: the required ones, and re-encryption under the first.

Rows are locked while they are rewritten, a few at a time. Their values stay the same, so concurrent
readers and writers notice nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine import encryption
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import models

LOG = logging.getLogger(__name__)

PART = 50
"""Rows of one transaction: few enough that other writers do not wait for it."""

_FEW = (
    models.nodes,
    models.deploy_templates,
    models.runbooks,
    models.inspection_rules,
    models.volume_targets,
    models.webhooks,
)
"""Tables small enough to be scanned at each start."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReencryptedRows:
    """The number of rows of a table, and of those rewritten."""

    table: str
    found: int
    done: int


def used(conn: Connection, tables: Iterable[sa.Table] | None = None) -> set[str]:
    """Return the names of the required keys, ``none`` for marked plain values.

    :param tables: to be scanned; None means all, of which some are large.
    """
    found: set[str] = set()
    for table in models.metadata.sorted_tables if tables is None else tables:
        for query in _queries(table):
            found |= {str(one).partition(":")[0] for one in conn.execute(query).scalars()}
    return found


@functools.cache
def _queries(table: sa.Table) -> tuple[sa.Select[Any], ...]:
    """Return the queries for the keys of a table, made once: SQLAlchemy's are in cycles."""
    idents = [encryption.ident(table.c[name]) for name in encryption.encrypted_columns(table)]
    return tuple(sa.select(ident).where(ident.is_not(None)).distinct() for ident in idents)


def missing_keys(database: Database) -> list[str]:
    """Return the names of required keys that this process lacks; scans the small tables."""
    needed = database.read(lambda conn: used(conn, _FEW))
    return encryption.keys_of(database.engine).lacks(needed)


def check(database: Database) -> None:
    """Check at the start that the required keys are configured.

    A process without any of them is misconfigured. A process that lacks some can do most of its
    work, even if a key is lost for ever, so it only logs this.

    :raises errors.KeyMissing: none of the required keys is here.
    """
    needed = database.read(lambda conn: used(conn, _FEW))
    missing = encryption.keys_of(database.engine).lacks(needed)
    if not missing:
        return
    why = errors.KeyMissing(key=", ".join(missing))
    if len(missing) == len(needed - {encryption.PLAIN}):
        raise why
    LOG.error("%s Until then, requests that need it are answered with 500.", why.message)


def run(database: Database) -> list[ReencryptedRows]:
    """Rewrite the values that are not stored under the first key; others cost a check.

    :raises errors.KeyMissing: a value needs a key that is not configured; finished parts stay.
    :raises errors.Unavailable: the database is away; finished parts stay.
    """
    tables = [
        table for table in models.metadata.sorted_tables if encryption.encrypted_columns(table)
    ]
    return [_reencrypt_table(database, table) for table in tables]


def _reencrypt_table(database: Database, table: sa.Table) -> ReencryptedRows:
    found = done = 0
    last: tuple[Any, ...] | None = None
    while True:
        rows, changed, last = database.write(
            lambda conn, last=last: _reencrypt_part(conn, table, last)  # type: ignore[misc]
        )
        found, done = found + rows, done + changed
        if rows < PART:
            return ReencryptedRows(table.name, found, done)


def _reencrypt_part(
    conn: Connection, table: sa.Table, last: tuple[Any, ...] | None
) -> tuple[int, int, tuple[Any, ...] | None]:
    """Rewrite one part; return its rows, the number changed, and the key of the last."""
    key = tuple(table.primary_key.columns)
    names = encryption.encrypted_columns(table)
    stored = [sa.type_coerce(table.c[name], sa.JSON(none_as_null=True)) for name in names]
    query = sa.select(*key, *stored).order_by(*key).limit(PART).with_for_update()
    if last is not None:
        query = query.where(sa.tuple_(*key) > sa.tuple_(*map(sa.literal, last)))
    keys, rows, changed = encryption.keys_of(conn), 0, 0
    for row in conn.execute(query).all():
        rows, last = rows + 1, tuple(row[: len(key)])
        held = dict(zip(names, row[len(key) :], strict=True))
        stale = {name: keys.open(value) for name, value in held.items() if not keys.fresh(value)}
        if stale:
            same = (column == value for column, value in zip(key, last, strict=True))
            conn.execute(table.update().where(*same).values(**stale))
            changed += 1
    return rows, changed, last
