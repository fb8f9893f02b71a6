"""Migrations to the form this release needs, of the schema and of data; other forms are refused.

Starting a process calls only `check`, which reads one row and loads no migration.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import logging
import pathlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import models

# Continuation of an interrupted upgrade on MariaDB, which commits each change.
#
# A crash leaves some of a migration's tables, without the revision. A mark stays in the database
# from before the first change until after the last one. If an upgrade finds the mark, it leaves
# existing tables as they are.

LOG = logging.getLogger(__name__)

UPGRADE_MARK = sa.table("schema_upgrade_under_way")
_MAKE_MARK = f"CREATE TABLE {UPGRADE_MARK.name} (since DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP)"
_WITHOUT_DDL_TRANSACTIONS = ("mysql", "mariadb")
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


def was_interrupted(conn: Connection) -> bool:
    """Return whether an upgrade of this database has begun and not ended."""
    if conn.dialect.name not in _WITHOUT_DDL_TRANSACTIONS:
        return False
    return conn.dialect.has_table(conn, UPGRADE_MARK.name)


@contextlib.contextmanager
def mark_upgrade(conn: Connection, found: str | None) -> Iterator[None]:
    """Run migrations in the block, from the start or from the interruption.

    :param found: the revision of the database, None if it has none.
    :raises errors.Error: foreign tables are in the way, or the upgrade cannot continue; nothing has
        been changed.
    """
    again = was_interrupted(conn)
    if found is None and not again:
        _refuse_unknown_tables(conn)
    if conn.dialect.name not in _WITHOUT_DDL_TRANSACTIONS:
        yield
        return
    if again:
        LOG.warning("An upgrade of this database was interrupted; it continues")
        _refuse_mysql(conn)
        sa.event.listen(conn, "before_cursor_execute", repeatable_statement, retval=True)
    else:
        conn.exec_driver_sql(_MAKE_MARK)
    try:
        yield
    finally:
        if again:
            sa.event.remove(conn, "before_cursor_execute", repeatable_statement)
    conn.exec_driver_sql(f"DROP TABLE {UPGRADE_MARK.name}")


def repeatable_statement(
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


# Data migrations in small parts, while the service runs.
#
# A schema migration (``alembic/versions``) changes tables, and is quick. A change of many rows is a
# `DataMigration` here. The release that brings it reads rows of both forms and writes the new one.
# Operators rewrite the remaining rows by ``ironic-lite-dbsync online_data_migrations``, at any time
# before the release that supports only the new form. ``before`` names that release's schema
# migration, which refuses to begin while rows of the old form remain.

ROWS_AT_ONCE = 50
"""Rows of one transaction: few enough that other writers do not wait for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class DataMigration:
    """One data migration.

    :ivar name: shown to operators: ``snake_case``.
    :ivar before: the schema revision that needs it done.
    :ivar left: returns the number of rows of the old form; one statement over an index.
    :ivar act: rewrites at most so many rows, and returns their number; only statements.
    """

    name: str
    before: str
    left: Callable[[Connection], int]
    act: Callable[[Connection, int], int]


@dataclasses.dataclass(frozen=True, slots=True)
class MigratedRows:
    """The result of one change: rows of the old form, and rewritten rows."""

    name: str
    found: int
    done: int


DATA_MIGRATIONS: tuple[DataMigration, ...] = ()
"""All data migrations; empty, because all releases so far write the same form."""


def migrate_data(database: Database, most: int | None = None) -> list[MigratedRows]:
    """Run all changes, in their order, part by part.

    :param most: rows in all at which to stop, None for no limit.
    :raises errors.Unavailable: the database is away; finished parts stay.
    """
    outcomes = []
    for change in DATA_MIGRATIONS:
        found = database.read(change.left)
        done = _run_data_migration(database, change, most)
        if most is not None:
            most -= done
        outcomes.append(MigratedRows(change.name, found, done))
    return outcomes


def _run_data_migration(database: Database, change: DataMigration, most: int | None) -> int:
    done = 0
    while most is None or done < most:
        size = ROWS_AT_ONCE if most is None else min(ROWS_AT_ONCE, most - done)
        changed = database.write(lambda conn, size=size: change.act(conn, size))  # type: ignore[misc]
        done += changed
        if changed < size:
            break
    return done


def unmigrated_rows(conn: Connection) -> dict[str, int]:
    """Return the number of old rows of each change that has some."""
    counts = {change.name: change.left(conn) for change in DATA_MIGRATIONS}
    return {name: count for name, count in counts.items() if count}


def refuse_unmigrated(conn: Connection, found: str | None, wanted: str) -> None:
    """Check that a schema migration finds no rows of a form unknown to its release.

    :param found: the revision before, None for an empty database.
    :param wanted: the revision after.
    :raises errors.Error: naming the changes to run first; nothing has changed.
    """
    needed = [
        each for each in DATA_MIGRATIONS if found is not None and found < each.before <= wanted
    ]
    open_ = {each.name: each.left(conn) for each in needed}
    if any(open_.values()):
        rows = ", ".join(f"{name}: {count}" for name, count in open_.items() if count)
        raise errors.Error(
            f"Rows of an older form are left in the database ({rows}): run ironic-lite-dbsync "
            "online_data_migrations of the release before, then upgrade."
        )


FOLDER = pathlib.Path(__file__).parents[1] / "migrations"

_FILE = re.compile(r"(?P<revision>[0-9]{4})_(?P<title>[a-z0-9_]+)\.py")
_OF_IRONIC = "conductor_hardware_interfaces"
"""A table of Ironic that this service never had; both keep the revision in the same place."""
_VERSION = sa.table("alembic_version", sa.column("version_num", sa.String))
# An arbitrary constant, because PostgreSQL identifies locks by number.
_LOCK_NUMBER = 0x1201C
_LOCK_NAME = "ironic_lite_migration"
_LOCK_TIMEOUT = 300  # seconds
_UPGRADE = "run ironic-lite-dbsync upgrade"
_LAST_BEFORE = "610788b45044"
"""The last commit that has the migrations from states of the development to the first release."""


class Revision(NamedTuple):
    """One migration: its number, such as ``0001``, and its title."""

    number: str
    title: str


@cache
def history() -> tuple[Revision, ...]:
    """Return all migrations of this release, oldest first, by file name."""
    found = (_FILE.fullmatch(path.name) for path in (FOLDER / "versions").iterdir())
    return tuple(sorted(Revision(m["revision"], m["title"].replace("_", " ")) for m in found if m))


def head() -> str:
    """Return the revision this release works with."""
    return history()[-1].number


def revision(database: Database) -> str | None:
    """Return the revision a database has, None if it is empty.

    :raises errors.Unavailable: the database is away.
    """
    return database.read(_current_revision)


def _current_revision(conn: Connection) -> str | None:
    if not conn.dialect.has_table(conn, _VERSION.name):
        return None
    found = conn.execute(sa.select(_VERSION.c.version_num)).scalar()
    return None if found is None else str(found)


def check(database: Database) -> None:
    """Check that this release and a database fit.

    :raises errors.Error: they do not; the message says what to do.
    :raises errors.Unavailable: the database is away.
    """
    found = revision(database)
    if found == head():
        return
    if found is None:
        raise errors.Error(f"The database {database.name} has no tables yet: {_UPGRADE}.")
    _refuse_unknown(database, found)
    raise errors.Error(
        f"The database {database.name} is of an older release (revision {found}, this release "
        f"needs {head()}): {_UPGRADE}."
    )


def _refuse_unknown(database: Database, found: str) -> None:
    if not re.fullmatch(r"[0-9]{4}", found):
        ironic = database.read(lambda conn: conn.dialect.has_table(conn, _OF_IRONIC))
        raise errors.Error(
            f"The database {database.name} belongs to {'Ironic' if ironic else 'another program'} "
            f"(revision {found}) and was left as it is. Set [database]connection to a database of "
            f"ironic_lite alone; {_UPGRADE} makes its tables."
        )
    if found < history()[0].number:
        raise errors.Error(
            f"The database {database.name} is of a state before the first release (revision "
            f"{found}): {_UPGRADE} of commit {_LAST_BEFORE}, and then of this release."
        )
    if found not in {known.number for known in history()}:
        raise errors.Error(
            f"The database {database.name} is of a newer release (revision {found}, this release "
            f"knows up to {head()}): upgrade ironic_lite, or restore the backup made before the "
            "database was upgraded."
        )


def upgrade(database: Database, revision: str = "head") -> str:
    """Migrate a database up to ``revision`` and return its revision afterwards.

    Several processes may call it at once; one migrates, the others wait. On SQLite and PostgreSQL
    it is one transaction; on MariaDB, an interrupted migration continues. For a current database it
    costs one read and loads no migration.

    :raises errors.Error: the database is of a newer release or of another program, has foreign
        tables, has rows that must be rewritten first (see `DataMigration`), or a migration
        would lose rows that others refer to; nothing changed.
    :raises errors.InvalidParameter: there is no such revision.
    :raises errors.Unavailable: the database is away.
    """
    wanted = head() if revision == "head" else revision
    if wanted not in {known.number for known in history()}:
        known = ", ".join(each.number for each in history())
        raise errors.InvalidParameter(path="revision", reason=f"{wanted!r} is not one of {known}")
    found = database.read(_current_revision)
    if found is not None:
        _refuse_unknown(database, found)
    if found is not None and found >= wanted and not database.read(was_interrupted):
        return found
    database.read(lambda conn: refuse_unmigrated(conn, found, wanted))
    # Changes of large tables take long; so does waiting for another migration.
    patient = session.patient(
        database, sqlite_busy_timeout=_LOCK_TIMEOUT, sqlite_foreign_keys=False
    )
    with contextlib.closing(patient):
        patient.write(lambda conn: _migrate_schema(conn, wanted), once=True)
    return wanted


def _migrate_schema(conn: Connection, wanted: str) -> None:
    # Loaded here only, because alembic takes a tenth of a second that a start on a current database
    # does not need.
    command, config = (importlib.import_module(f"alembic.{name}") for name in ("command", "config"))
    exclude_others(conn)
    settings = config.Config()
    # alembic expands percent signs in its settings.
    settings.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    settings.attributes["connection"] = conn
    before = _orphaned_rows(conn)
    with mark_upgrade(conn, _current_revision(conn)):
        command.upgrade(settings, wanted)
    lost = _orphaned_rows(conn) - before
    if lost:
        found = ", ".join(f"{table} of {parent}" for table, parent in sorted(lost))
        raise errors.Error(
            f"The migration would leave rows that refer to none ({found}); nothing was changed. "
            "Keep the database as it is and report this."
        )


def _orphaned_rows(conn: Connection) -> set[tuple[str, str]]:
    """Return (table, referenced table) of rows whose reference is broken.

    Only SQLite can have them: its foreign keys are off during a migration.
    """
    if conn.dialect.name != "sqlite":
        return set()
    rows = conn.exec_driver_sql("PRAGMA foreign_key_check").all()
    return {(str(row[0]), str(row[2])) for row in rows}


def exclude_others(conn: Connection) -> None:
    """Wait until no other process migrates or copies; SQLite's write transaction ensures it.

    Call it on a connection of its own. The locks end with the transaction (PostgreSQL) or with the
    connection (MariaDB).
    """
    if conn.dialect.name == "postgresql":
        conn.execute(sa.text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}s'"))
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_NUMBER)))
    elif conn.dialect.name in ("mysql", "mariadb"):
        got: Any = conn.scalar(sa.select(sa.func.get_lock(_LOCK_NAME, _LOCK_TIMEOUT)))
        if got != 1:
            raise errors.Unavailable(
                f"Another process has been migrating the database for {_LOCK_TIMEOUT} s."
            )
        # The first change of a table ends the transaction that has begun. A migration's rows must
        # be committed together with its revision, or it could not continue after its death.
        conn.execute(sa.text("SET SESSION autocommit = 0"))
