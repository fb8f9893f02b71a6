"""A whole service for each requirement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.db.session import Database
from tests.spec.operator import Operator


@pytest.fixture
def serve(sqlite_database: Database) -> Iterator[Callable[..., Operator]]:
    """A function that starts a service; options are given as ``group__option``."""
    started: list[Operator] = []

    def start(**options: Any) -> Operator:
        started.append(Operator(sqlite_database, **options))
        return started[-1]

    yield start
    for operator in started:
        operator.close()


@pytest.fixture
def operator(serve: Callable[..., Operator]) -> Operator:
    """The operator of a service with default options."""
    return serve()
