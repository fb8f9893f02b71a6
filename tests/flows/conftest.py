"""Conductors for flows: each test has a database of its own, and stops what it has started."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.conductor.engine import db_retry
from ironic_lite.conductor.watch import timeouts
from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.agent import client, deploy, steps
from tests.support import conductor_fixture
from tests.support.conductor_fixture import ConductorFixture
from tests.support.crashes import Stage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the threads of dead conductors, which end by Died."""
    dead_threads = "ignore::pytest.PytestUnhandledThreadExceptionWarning"
    for item in items:
        if isinstance(item, pytest.Function) and "stages" in item.fixturenames:
            item.add_marker(pytest.mark.filterwarnings(dead_threads))


@pytest.fixture
def build(sqlite_database: Database) -> Iterator[Callable[..., ConductorFixture]]:
    """A function that starts one more conductor on the test's database."""
    built: list[ConductorFixture] = []

    def make(database: Database | None = None, **values: Any) -> ConductorFixture:
        built.append(conductor_fixture.build(database or sqlite_database, **values))
        conductor_fixture.connect(built)
        return built[-1]

    yield make
    for rig in built:
        rig.bury()
    for rig in built:
        rig.service.runtime.workers.wait_idle(60)


@pytest.fixture
def rig(build: Callable[..., ConductorFixture]) -> ConductorFixture:
    """One conductor."""
    return build()


@pytest.fixture
def stages(
    monkeypatch: pytest.MonkeyPatch,
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
) -> Callable[..., Stage]:
    """A function that returns a stage, on which conductors die, with drivers and options."""
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)  # finds timers of dead conductors at once
    return functools.partial(Stage, build, sqlite_database)


@pytest.fixture
def stage(stages: Callable[..., Stage]) -> Stage:
    """A stage with the drivers of the default configuration."""
    return stages()


@pytest.fixture
def quick_agents(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short pauses of the agent's interfaces, and the default configuration."""
    monkeypatch.setattr(steps, "SOON", 0.02)
    monkeypatch.setattr(deploy, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(client, "_PAUSE", 0.02)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    yield
    config.CONF.reset()


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses of workers that wait for the database."""
    monkeypatch.setattr(db_retry, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(db_retry, "_LONGEST_PAUSE", 0.005)
