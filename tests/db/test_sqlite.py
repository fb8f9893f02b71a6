"""A SQLite file that is taken away while it is in use."""

from __future__ import annotations

import pathlib

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection, Database


def _path(database: Database) -> pathlib.Path:
    return pathlib.Path(str(database.url.database))


def _write(conn: Connection) -> None:
    conn.exec_driver_sql("INSERT INTO alembic_version VALUES ('x')")


def _count(conn: Connection) -> int:
    return int(
        conn.execute(
            sa.text("SELECT count(*) FROM alembic_version WHERE version_num = 'x'")
        ).scalar_one()
    )


def test_a_removed_file_is_neither_written_nor_made_anew(sqlite_database: Database) -> None:
    path = _path(sqlite_database)
    assert sqlite_database.read(_count) == 0
    away = path.rename(path.with_name("away"))
    for work in (sqlite_database.read, sqlite_database.write):
        with pytest.raises(errors.Unavailable, match=r"has been removed .* Put it back"):
            work(_write)
    assert not path.exists()
    away.rename(path)
    sqlite_database.write(_write)
    assert sqlite_database.read(_count) == 1


def test_a_replaced_file_is_not_written(sqlite_database: Database) -> None:
    path = _path(sqlite_database)
    sqlite_database.write(_write)
    away = path.rename(path.with_name("away"))
    path.write_bytes(b"")
    with pytest.raises(errors.Unavailable, match="has been replaced while it was in use"):
        sqlite_database.write(_write)
    assert path.read_bytes() == b""
    away.rename(path)
    assert sqlite_database.read(_count) == 1


def test_a_connection_made_while_the_file_is_away_makes_no_new_one(
    sqlite_database: Database,
) -> None:
    """It may be made just after the look at the path: nothing else keeps it from that."""
    path = _path(sqlite_database)
    sqlite_database.write(_write)
    sqlite_database.close()
    away = path.rename(path.with_name("away"))
    with pytest.raises(sa.exc.OperationalError):
        sqlite_database.engine.connect()
    assert not path.exists()
    away.rename(path)
    assert sqlite_database.read(_count) == 1
