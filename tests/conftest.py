"""Fixtures for every suite: a fresh SQLite database costs a file copy."""

from __future__ import annotations

import contextlib
import gc
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator

import hypothesis
import pytest

from ironic_lite.core import config as settings
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import migrate
from tests.support import assertions, configurations, leftovers, quick_engines, scheduling, stuck

# How fast examples are made or judged tells of the load of this machine, not of the product.
hypothesis.settings.register_profile(
    "loaded", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("loaded")

pytest_collection_modifyitems = scheduling.pytest_collection_modifyitems


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    stuck.add_option(parser)
    scheduling.add_option(parser)


@pytest.fixture(autouse=True)
def features_are_on(request: pytest.FixtureRequest) -> None:
    """Skip a test of a feature that ``OS_FEATURES__ENABLED`` has switched off."""
    needed = {name for mark in request.node.iter_markers("feature") for name in mark.args}
    if off := sorted(needed - set(configurations.FEATURES)):
        pytest.skip(f"switched off: {', '.join(off)}")


ALLOWED = ["127.0.0.0/8", "::1/128", "192.0.2.0/24", "255.255.255.255/32"]
_ALLOWING = ("agent", "ipmi", "redfish")


def pytest_configure(config: pytest.Config) -> None:
    """Spare parallel workers what one can do for all, and find tests without garbage collection."""
    assertions.before_workers(config)
    stuck.watch(config)
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        gc.disable()  # this process finds tests, and keeps nearly all objects of the search


def pytest_collection_finish() -> None:
    """Let the garbage collector skip all modules and tests from here on.

    Otherwise each full garbage collection visits them; `leftovers` starts many. The garbage of the
    search stays, as half a second is more than its 20 MB.
    """
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def on_this_machine() -> None:
    """Let BMCs and agents be here; a test that reads the configuration anew drops defaults.

    To set a default takes longer than many tests, and lets all options be read again.
    """
    for group in _ALLOWING:
        if settings.CONF[group].allowed_networks != ALLOWED:
            settings.CONF.set_default("allowed_networks", ALLOWED, group)
    if settings.CONF.redfish.ca_folder != "/":
        settings.CONF.set_default("ca_folder", "/", "redfish")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Fail a test that leaves threads, child processes or descriptors in this process.

    It is set up before the other fixtures of a test, and ends after them. What fixtures of a module
    or of the session have started is there before it.
    """
    before = leftovers.look()
    yield
    for name in ("agent.client", "redfish.bmc.transport"):
        if keeping := sys.modules.get(f"ironic_lite.drivers.{name}"):
            keeping.KEPT.close()
    assert leftovers.since(before) == []


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
            return quick_engines.quicken(database)

        yield make


@pytest.fixture
def sqlite_database(make_sqlite: Callable[[], Database]) -> Database:
    """A fresh, migrated SQLite database."""
    return make_sqlite()
