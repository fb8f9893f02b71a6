"""Fixtures for every suite: a fresh SQLite database costs a file copy."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Callable, Iterator

import hypothesis
import pytest

from ironic_lite.db import migrate, session
from ironic_lite.db.session import Database
from tests import rewritten

# How fast examples are made or judged tells of the load of this machine, not of the product.
hypothesis.settings.register_profile(
    "loaded", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("loaded")


def pytest_configure(config: pytest.Config) -> None:
    """Spare parallel workers what one can do for all."""
    rewritten.before_workers(config)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A migrated SQLite file without rows, to be copied."""
    path = tmp_path_factory.mktemp("template") / "migrated.sqlite"
    with contextlib.closing(session.open_database(f"sqlite:///{path}")) as database:
        migrate.upgrade(database)
    return path


@pytest.fixture
def make_sqlite(
    sqlite_template: pathlib.Path, tmp_path: pathlib.Path
) -> Iterator[Callable[[], Database]]:
    """A function that opens one fresh database of this test; each call is like another process."""
    path = tmp_path / "test.sqlite"
    shutil.copyfile(sqlite_template, path)
    with contextlib.ExitStack() as opened:

        def make() -> Database:
            database = session.open_database(f"sqlite:///{path}")
            opened.callback(database.close)
            return database

        yield make


@pytest.fixture
def sqlite_database(make_sqlite: Callable[[], Database]) -> Database:
    """A fresh, migrated SQLite database."""
    return make_sqlite()
