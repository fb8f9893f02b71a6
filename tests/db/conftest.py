"""Every test of queries runs on SQLite, PostgreSQL and MariaDB; the latter two if they answer."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import migrate, models
from tests.support import database_servers, quick_engines

_Urls = Callable[[str], str]


@pytest.fixture(scope="session")
def server_urls() -> Iterator[_Urls]:
    """A function from kind to the URL of a migrated database, made at its first call."""
    with contextlib.ExitStack() as made:
        urls: dict[str, str] = {}

        def url(kind: str) -> str:
            if kind not in urls:
                found = made.enter_context(database_servers.own_database(kind, "rows"))
                with contextlib.closing(session.open_database(found)) as database:
                    migrate.upgrade(database)
                urls[kind] = found
            return urls[kind]

        yield url


_FILLED = sa.union_all(
    *(
        sa.select(sa.literal(table.name)).select_from(table).limit(1)
        for table in models.metadata.sorted_tables
    )
)


def _clear(database: Database) -> None:
    def work(conn: session.Connection) -> None:
        filled = set(conn.execute(_FILLED).scalars())  # a statement for each table takes longer
        for table in reversed(models.metadata.sorted_tables):
            if table is models.marks:  # its rows are made by migrations
                conn.execute(table.update().values(value=0))
            elif table.name in filled:
                conn.execute(table.delete())

    database.write(work)


def _open_server(url: str) -> Iterator[Database]:
    opened = quick_engines.quicken(session.open_database(url, connect_timeout=3))
    with contextlib.closing(opened) as database:
        _clear(database)
        yield database


@pytest.fixture(params=database_servers.KINDS)
def database(request: pytest.FixtureRequest, server_urls: _Urls) -> Iterator[Database]:
    """A migrated database without rows, of each kind in turn."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_database")
    else:
        yield from _open_server(server_urls(request.param))


@pytest.fixture(params=database_servers.SERVERS)
def server_database(request: pytest.FixtureRequest, server_urls: _Urls) -> Iterator[Database]:
    """As ``database``, for what only a server can do."""
    yield from _open_server(server_urls(request.param))


@pytest.fixture(params=database_servers.KINDS)
def empty_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database without tables."""
    with contextlib.ExitStack() as made:
        if request.param == "sqlite":
            url = f"sqlite:///{request.getfixturevalue('tmp_path')}/empty.sqlite"
        else:
            url = made.enter_context(database_servers.own_database(request.param, "empty"))
        yield made.enter_context(contextlib.closing(session.open_database(url)))


@pytest.fixture
def open_empty(
    sqlite_template: pathlib.Path, tmp_path: pathlib.Path, server_urls: _Urls
) -> Iterator[Callable[..., Database]]:
    """A function from kind and keys to a migrated database without rows; SQLite files are new."""
    with contextlib.ExitStack() as made:

        def opened(kind: str, *keys: str) -> Database:
            if kind == "sqlite":
                handle, path = tempfile.mkstemp(dir=tmp_path, suffix=".sqlite")
                os.close(handle)
                shutil.copyfile(sqlite_template, path)
                url = f"sqlite:///{path}"
            else:
                url = server_urls(kind)
            database = session.open_database(url, encryption_keys=keys)
            made.enter_context(contextlib.closing(database))
            if kind != "sqlite":
                _clear(database)
            return database

        yield opened
