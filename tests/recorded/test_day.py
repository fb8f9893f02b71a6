"""The operator's day with each recorded machine, one operation a test."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.conductor.work.task import Task
from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.drivers.registry import Registry, Settings
from tests.recorded import day as days
from tests.recorded import facts, known, recordings
from tests.recorded.strict_bmc import StrictBmc
from tests.support import conductor_fixture
from tests.support.operator import Operator

OPTIONS: dict[str, Any] = {"DEFAULT__enabled_hardware_types": ["redfish", "fake-hardware"]}
SHARE, LONGEST = 10.0, 0.6
"""Pauses take a tenth of their time, and at most a bit more than a reset."""


@functools.cache
def drivers() -> Registry:
    """Return the drivers of the hardware type."""
    return Registry.load(Settings.read(conductor_fixture.configure(**OPTIONS)))


@pytest.fixture
def operator(sqlite_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """An operator of Redfish machines, whose service waits a shorter time."""
    monkeypatch.setattr(connection, "LINKS", connection.Links())
    wake_after, pause = Task.wake_after, Task.pause
    monkeypatch.setattr(
        Task, "wake_after", lambda task, seconds: wake_after(task, min(seconds, 0.1))
    )
    monkeypatch.setattr(
        Task, "pause", lambda task, seconds: pause(task, min(seconds / SHARE, LONGEST))
    )
    for name, value in _QUICK.items():
        config.CONF.set_override(name, value, group="redfish")
    found = Operator(sqlite_database, registry=drivers(), **OPTIONS)
    yield found
    found.close()
    for name in _QUICK:
        config.CONF.clear_override(name, group="redfish")


_QUICK = {"connection_retry_interval": 0, "boot_mode_config_timeout": 20}


def cases() -> Iterator[Any]:
    """Yield each machine with each operation; known failures are marked."""
    for name in recordings.names():
        for operation in days.OPERATIONS:
            row = known.row(name, operation)
            marks = [pytest.mark.xdist_group(name)]
            if row is not None:
                marks.append(pytest.mark.xfail(strict=True, reason=f"vendors.md row {row}"))
            yield pytest.param(name, operation, marks=marks, id=f"{name}-{operation}")


@pytest.mark.parametrize(("name", "operation"), list(cases()))
def test_operation(
    operator: Operator,
    name: str,
    operation: str,
    record_property: Callable[[str, object], None],
    request: pytest.FixtureRequest,
) -> None:
    record_property("machine", name)
    record_property("operation", operation)
    recording = recordings.load(name)
    system = facts.systems(recording.documents)[0]
    with StrictBmc(recording.documents, system) as bmc:
        day = days.Day(operator, bmc)
        day.enroll()
        day.goes("manage")
        verdict = days.OPERATIONS[operation](day)
    record_property("verdict", verdict)
    documented = recordings.results().get(name)
    if documented and not request.config.getoption("--write-results", default=None):
        assert verdict == documented["verdicts"][operation], "see make recorded"
