"""A service and a machine behind it; what takes seconds elsewhere takes fractions of one here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers import bmc_bases
from ironic_lite.drivers.redfish import power
from ironic_lite.drivers.redfish.bmc import connection
from tests.emulators import bmc
from tests.support.redfish_faults import USERS
from tests.support.redfish_service import RedfishOperator


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve(users=USERS) as running:
        yield running


@pytest.fixture
def serve(sqlite_database: Database) -> Iterator[Callable[..., RedfishOperator]]:
    """A function that starts a service; options are given as ``group__option``."""
    started: list[RedfishOperator] = []

    def start(**options: Any) -> RedfishOperator:
        started.append(RedfishOperator(sqlite_database, **options))
        return started[-1]

    yield start
    for operator in started:
        operator.close()


@pytest.fixture
def operator(serve: Callable[..., RedfishOperator]) -> RedfishOperator:
    return serve()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pauses and limits of fractions of a second."""
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.001)
    # What happens in that minute is the subject of test_refusals.
    monkeypatch.setattr(connection, "REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(bmc_bases, "RESET_PAUSE", 0.01)
    monkeypatch.setattr(power, "SILENCE_SECONDS", 0.01)
    monkeypatch.setattr(power, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(power.RedfishPower, "first_pause", 0.1)
    config.CONF.set_override("power_state_change_timeout", 2, group="conductor")
    yield
    config.CONF.clear_override("power_state_change_timeout", group="conductor")
