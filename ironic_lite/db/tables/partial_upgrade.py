"""Continuation of an interrupted upgrade on MariaDB, which commits each change.

A crash leaves some of a migration's tables, without the revision. A mark stays in the database from
before the first change until after the last one. If an upgrade finds the mark, it leaves existing
tables as they are.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

LOG = logging.getLogger(__name__)

MARK = sa.table("schema_upgrade_under_way")
_MAKE = f"CREATE TABLE {MARK.name} (since DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP)"
_KINDS = ("mysql", "mariadb")
_REPEATABLE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(found, re.IGNORECASE), said)
    for found, said in (
        # what alembic says, and how it is said twice
        (r"^\s*CREATE TABLE (?!IF )", "CREATE TABLE IF NOT EXISTS "),
        (r"^\s*CREATE (UNIQUE )?INDEX (?!IF )", r"CREATE \1INDEX IF NOT EXISTS "),
        (r"^\s*DROP (TABLE|INDEX) (?!IF )", r"DROP \1 IF EXISTS "),
        (r"^\s*(ALTER TABLE \S+) ADD (COLUMN|CONSTRAINT) (?!IF )", r"\1 ADD \2 IF NOT EXISTS "),
        (r"^\s*(ALTER TABLE \S+) DROP (COLUMN|CONSTRAINT) (?!IF )", r"\1 DROP \2 IF EXISTS "),
    )
)


def broken_off(conn: Connection) -> bool:
    """Return whether an upgrade of this database has begun and not ended."""
    if conn.dialect.name not in _KINDS:
        return False
    return conn.dialect.has_table(conn, MARK.name)


@contextlib.contextmanager
def marked(conn: Connection, found: str | None) -> Iterator[None]:
    """Run migrations in the block, from the start or from the interruption.

    :param found: the revision of the database, None if it has none.
    :raises errors.Error: foreign tables are in the way, or the upgrade cannot continue; nothing has
        been changed.
    """
    again = broken_off(conn)
    if found is None and not again:
        _refuse_unknown_tables(conn)
    if conn.dialect.name not in _KINDS:
        yield
        return
    if again:
        LOG.warning("An upgrade of this database was interrupted; it continues")
        _refuse_mysql(conn)
        sa.event.listen(conn, "before_cursor_execute", repeatable, retval=True)
    else:
        conn.exec_driver_sql(_MAKE)
    try:
        yield
    finally:
        if again:
            sa.event.remove(conn, "before_cursor_execute", repeatable)
    conn.exec_driver_sql(f"DROP TABLE {MARK.name}")


def repeatable(
    _conn: Connection,
    _cursor: object,
    statement: str,
    parameters: object,
    _context: object,
    _many: bool,
) -> tuple[str, Any]:
    """Return a statement in a form without effect if it was executed before."""
    for pattern, said in _REPEATABLE:
        statement = pattern.sub(said, statement, count=1)
    return statement, parameters


def _refuse_unknown_tables(conn: Connection) -> None:
    ours = set(models.metadata.tables)
    strange = sorted(ours.intersection(sa.inspect(conn).get_table_names()))
    if strange:
        raise errors.Error(
            "The database has tables that ironic-lite-dbsync has not made "
            f"({', '.join(strange)}): name an empty database in [database]connection."
        )


def _refuse_mysql(conn: Connection) -> None:
    if not getattr(conn.dialect, "is_mariadb", False):
        raise errors.Error(
            "An upgrade of this database was interrupted, and MySQL cannot continue it: restore "
            "the backup made before, or an empty database, and run ironic-lite-dbsync upgrade."
        )
