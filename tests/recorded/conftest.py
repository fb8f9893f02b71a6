"""Results of the operator's days as a file, from which docs/generate.py makes a table."""

from __future__ import annotations

import pathlib
from typing import Any

import orjson
import pytest

from tests.recorded import recordings

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
            verdict = str(told.get("verdict", "fails"))
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
