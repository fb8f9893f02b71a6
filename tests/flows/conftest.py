"""Conductors for flows: each test has a database of its own, and stops what it has started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from tests.support import conductor_fixture
from tests.support.conductor_fixture import ConductorFixture


@pytest.fixture
def build(sqlite_database: Database) -> Iterator[Callable[..., ConductorFixture]]:
    """A function that starts one more conductor on the test's database."""
    built: list[ConductorFixture] = []

    def make(database: Database | None = None, **values: Any) -> ConductorFixture:
        built.append(conductor_fixture.build(database or sqlite_database, **values))
        return built[-1]

    yield make
    for rig in built:
        rig.bury()
    for rig in built:
        rig.service.runtime.workers.wait_idle(5)


@pytest.fixture
def rig(build: Callable[..., ConductorFixture]) -> ConductorFixture:
    """One conductor."""
    return build()
