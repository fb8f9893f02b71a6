"""A copy of all rows into an empty database of another kind or place, in one transaction."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine import encryption, faults, session
from ironic_lite.db.engine.faults import DatabaseFault
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events
from ironic_lite.db.tables import migrate, models, reencryption
from ironic_lite.db.tables.models import column

BATCH_ROWS = 500
BATCH_BYTES = 1024 * 1024
_FETCHED = 50
"""Rows that a cursor reads at once: few, because a row of a log or an inventory may be large."""
OF_ROWS = (
    *(DatabaseFault.VALUE, DatabaseFault.DUPLICATE, DatabaseFault.REFERENCE),
    DatabaseFault.OTHER,
)
_BEGIN = {
    "sqlite": ("BEGIN",),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    "mysql": (
        "SET SESSION net_write_timeout = 3600",  # the rows wait for the other database
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}


def as_stored(table: sa.Table, metadata: sa.MetaData) -> sa.Table:
    """Return a table whose encrypted values stay as they are, and which has no defaults."""
    sealed = encryption.encrypted_columns(table)
    return sa.Table(
        table.name,
        metadata,
        *(
            sa.Column(each.name, column.JsonColumn if each.name in sealed else each.type)
            for each in table.columns
        ),
    )


_STORED = sa.MetaData()
_TABLES = [as_stored(table, _STORED) for table in models.metadata.sorted_tables]
"""All tables, each after those that its foreign keys name."""


def write_rows(conn: Connection, table: sa.Table, rows: Iterable[Row]) -> int:
    """Insert rows, at most 500 and about 1 MiB a statement; return their number.

    :raises errors.Error: the database does not take a row, with the first line of its driver.
    """
    count = 0
    for batch in batches(rows):
        try:
            conn.execute(table.insert(), batch)
        except faults.DRIVER_ERRORS as why:
            if faults.classify(why) not in OF_ROWS:
                raise
            raise errors.Error(
                f"The table {table.name} does not take one of its rows {count + 1} to "
                f"{count + len(batch)}: {faults.reason(why)}. Nothing was written."
            ) from None
        count += len(batch)
    return count


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each statement."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        length = len(encryption.to_json(row).encode())
        if batch and (len(batch) == BATCH_ROWS or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch


def open_source(target: Database, url: str | sa.URL) -> Database:
    """Return the database at a URL, with the keys of another one; SQLite read-only.

    :raises config.ConfigError: the URL cannot be used, or its file is missing.
    :raises errors.Error: it is not of this release, needs other keys, or cannot be read.
    """
    source = open_file(target, url)
    with reading(source):
        migrate.check(source)
        reencryption.check(source)
    return source


def open_file(
    target: Database, url: str | sa.URL, *, option: str = "--from", mode: str = "ro"
) -> Database:
    """Do the same as `open_source` for any database of the three kinds, unread.

    :param option: that has named it.
    :param mode: of SQLite: rw writes, and keeps the kind of the journal.
    """
    source = session.patient(target, url)
    path = str(source.url.database)
    if source.kind == "sqlite" and not path.startswith("file:"):
        if not os.path.lexists(path):
            raise config.ConfigError(reason=f"{option}: the file {path} does not exist")
        query = {"mode": mode, "uri": "true"}
        uri = pathlib.Path(path).absolute().as_uri()
        source = session.patient(target, source.url.set(database=uri, query=query))
    return source


def copy(source: Database, target: Database, *, check: bool) -> dict[str, int]:
    """Copy all rows, in one transaction; return the number of rows by table.

    :param check: only count the rows, and check that both databases fit.
    :raises errors.Error: the databases do not fit, or one of them has failed; nothing was written.
    """
    migrate.check(target)
    with contextlib.closing(session.patient(target)) as patient, snapshot(source) as now:
        if check:
            patient.read(_refuse_filled)
            return _counts(now)
        return patient.write(functools.partial(_copy_rows, source, now), once=True)


def gather_statistics(conn: Connection) -> None:
    """Let PostgreSQL know how many rows there are; else it reads whole tables until it looks."""
    if conn.dialect.name == "postgresql":
        conn.execute(sa.text("ANALYZE"))


def _copy_rows(source: Database, now: Connection, conn: Connection) -> dict[str, int]:
    migrate.exclude_others(conn)
    _refuse_filled(conn)
    conn.execute(models.marks.delete())  # those of the migrations
    with reading(source):
        before = now.execute(STATE).one()
    found = {table.name: write_rows(conn, table, _rows(source, now, table)) for table in _TABLES}
    _continue_ids(conn)
    gather_statistics(conn)
    with reading(source):
        changed = source.read(lambda again: again.execute(STATE).one()) != before
    if changed:
        raise errors.Conflict(
            f"The source {source.name} has changed while it was copied; stop its API, and repeat. "
            "Nothing was written."
        )
    return found


_COUNTS = sa.select(
    *(
        sa.select(sa.func.count()).select_from(table).scalar_subquery().label(table.name)
        for table in _TABLES
    )
)
STATE = _COUNTS.add_columns(
    sa.select(sa.func.max(models.events.c.id)).scalar_subquery(),
    sa.select(sa.func.max(models.conductors.c.updated_at)).scalar_subquery(),
    *(
        sa.select(sa.func.sum(table.c.generation)).scalar_subquery()
        for table in _TABLES
        if "generation" in table.c
    ),
)
"""Numbers that each change of a client or a conductor changes, but for a recorded heartbeat."""


def _counts(conn: Connection) -> dict[str, int]:
    return dict(conn.execute(_COUNTS).mappings().one())


def _refuse_filled(conn: Connection) -> None:
    """Refuse a database with rows other than those of its migrations."""
    filled = {name: count for name, count in _counts(conn).items() if count}
    filled.pop(models.marks.name, None)
    if filled:
        found = ", ".join(f"{name}: {count}" for name, count in filled.items())
        raise errors.Conflict(
            f"The database of [database]connection is not empty ({found}). Nothing was written. "
            "Name a new one, and run ironic-lite-dbsync upgrade."
        )


@contextlib.contextmanager
def snapshot(source: Database, program: str = "ironic-lite") -> Iterator[Connection]:
    """Open a transaction that only reads, and sees the rows of one moment."""
    with contextlib.ExitStack() as opened:
        with reading(source, program):
            conn = opened.enter_context(source.engine.connect())
            opened.callback(conn.invalidate)  # a pool would keep the transaction
            for statement in _BEGIN[source.kind]:
                conn.exec_driver_sql(statement)
        yield conn


def _rows(source: Database, now: Connection, table: sa.Table) -> Iterator[Row]:
    query = sa.select(table).order_by(*models.metadata.tables[table.name].primary_key)
    with reading(source):
        found = now.execute(query, execution_options={"yield_per": _FETCHED})
        for row in found.mappings():
            yield dict(row)


@contextlib.contextmanager
def reading(source: Database, program: str = "ironic-lite") -> Iterator[None]:
    """Raise errors of the source in its name.

    :param program: that writes it.
    """
    try:
        yield
    except (*faults.DRIVER_ERRORS, ValueError, errors.Unavailable) as why:
        advice = "Check it, and repeat."
        if source.kind == "sqlite" and "readonly" in str(why):
            # Its journal would have to be applied first, or its form changed.
            advice = f"A killed process has left it so: start and stop {program} on it once."
        cause = why.__cause__ if isinstance(why.__cause__, Exception) else why
        raise errors.Error(
            f"The source {source.name} cannot be read: {faults.reason(cause)}. Nothing was "
            f"written. {advice}"
        ) from None


def _continue_ids(conn: Connection) -> None:
    """Let new ids begin above the largest one, and above those of removed events."""
    trimmed = events.last_removed(conn)
    if conn.dialect.name == "postgresql":
        for table in models.metadata.sorted_tables:
            if "id" in table.c:
                last: Any = conn.scalar(sa.select(sa.func.max(table.c.id))) or 0
                last = max(last, trimmed) if table is models.events else last
                sequence = sa.func.pg_get_serial_sequence(table.name, "id")
                conn.execute(sa.select(sa.func.setval(sequence, max(last, 1), last > 0)))
    elif trimmed > events.head(conn):
        # MariaDB and SQLite count on from a row that existed.
        row = {"id": trimmed, "at": clock.now(), "node_uuid": "", "kind": ""}
        conn.execute(models.events.insert(), row)
        conn.execute(models.events.delete().where(models.events.c.id == trimmed))
