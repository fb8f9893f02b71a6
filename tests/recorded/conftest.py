"""The operator of recorded machines, and the file from which docs/generate.py makes a table."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import config as settings
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.drivers.registry import Registry, Settings
from tests.recorded import day, recordings
from tests.support import conductor_fixture
from tests.support.operator import Operator

OPTION = "--write-results"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the file."""
    text = "write the verdicts of all recorded machines to this file"
    parser.addoption(OPTION, default=None, metavar="FILE", help=text)


class Verdicts:
    """Collects the verdict of each machine and operation."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.found: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a verdict; a failure without one is noted as such."""
        told: dict[str, Any] = dict(report.user_properties)
        if report.when == "call" and "machine" in told:
            verdict = str(told.get("verdict", day.FAILS))
            self.found.setdefault(str(told["machine"]), {})[str(told["operation"])] = verdict

    def pytest_sessionfinish(self) -> None:
        """Write the file; verdicts of machines and operations that were not run stay."""
        entries = dict(recordings.results())
        for name, verdicts in self.found.items():
            recording = recordings.load(name)
            facts = {"name": name, "machine": recording.machine, **recording.shown}
            before = entries.get(name, {}).get("verdicts", {})
            entries[name] = {**facts, "verdicts": {**before, **verdicts}}
        machines = [entries[name] for name in sorted(entries)]
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        self.path.write_bytes(orjson.dumps({"machines": machines}, option=options))


def pytest_configure(config: pytest.Config) -> None:
    """Collect verdicts where the reports of all workers arrive."""
    path = config.getoption(OPTION, default=None)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Verdicts(pathlib.Path(path)))


_ALIKE = ("bios", "inspect", "management", "power", "raid", "vendor")
OPTIONS: dict[str, Any] = {
    "DEFAULT__enabled_hardware_types": ["redfish", "idrac", "fake-hardware"],
    **{f"DEFAULT__enabled_{kind}_interfaces": ["redfish", "idrac-redfish"] for kind in _ALIKE},
    "DEFAULT__enabled_management_interfaces": ["redfish", "idrac-redfish", "fake"],
    "DEFAULT__enabled_power_interfaces": ["redfish", "idrac-redfish", "fake"],
    "DEFAULT__enabled_boot_interfaces": [
        "idrac-redfish-virtual-media",
        "redfish-https",
        "fake",
    ],
}
SHARE, LONGEST = 10.0, 0.6
"""Pauses take a tenth of their time, and at most a bit more than a reset."""


@functools.cache
def drivers() -> Registry:
    """Return the drivers of the hardware type."""
    return Registry.load(Settings.read(conductor_fixture.configure(**OPTIONS)))


@pytest.fixture
def operator(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Operator]:
    """An operator of Redfish machines, whose service waits a shorter time.

    A parameter has further options.
    """
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    wake_after, pause = Task.wake_after, Task.pause
    monkeypatch.setattr(
        Task, "wake_after", lambda task, seconds: wake_after(task, min(seconds, 0.1))
    )
    monkeypatch.setattr(
        Task, "pause", lambda task, seconds: pause(task, min(seconds / SHARE, LONGEST))
    )
    for name, value in _QUICK.items():
        settings.CONF.set_override(name, value, group="redfish")
    options = {**OPTIONS, **getattr(request, "param", {})}
    found = Operator(sqlite_database, registry=drivers(), **options)
    yield found
    found.close()
    for name in _QUICK:
        settings.CONF.clear_override(name, group="redfish")


_QUICK = {"connection_retry_interval": 0, "boot_mode_config_timeout": 20}
