"""Schema migrations to the form this release needs; any other form is refused.

Starting a process calls only `check`, which reads one row and loads no migration.
"""

from __future__ import annotations

import contextlib
import importlib
import pathlib
import re
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import online_migrations, partial_upgrade

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
        tables, has rows that must be rewritten first (see ``online_migrations``), or a migration
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
    if found is not None and found >= wanted and not database.read(partial_upgrade.broken_off):
        return found
    database.read(lambda conn: online_migrations.refuse(conn, found, wanted))
    # Changes of large tables take long; so does waiting for another migration.
    patience = {"statement_timeout": 0, "sqlite_busy_timeout": _LOCK_TIMEOUT}
    options = {**database.options, **patience, "sqlite_foreign_keys": False}
    patient = session.open_database(database.url, **options)
    with contextlib.closing(patient):
        patient.write(lambda conn: _migrate_schema(conn, wanted), once=True)
    return wanted


def _migrate_schema(conn: Connection, wanted: str) -> None:
    # Loaded here only, because alembic takes a tenth of a second that a start on a current database
    # does not need.
    command, config = (importlib.import_module(f"alembic.{name}") for name in ("command", "config"))
    _exclude_others(conn)
    settings = config.Config()
    # alembic expands percent signs in its settings.
    settings.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    settings.attributes["connection"] = conn
    before = _orphaned_rows(conn)
    with partial_upgrade.marked(conn, _current_revision(conn)):
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


def _exclude_others(conn: Connection) -> None:
    """Wait until no other process migrates; SQLite's write transaction ensures it.

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
