"""What is counted of commands to IPMI BMCs, and what those do who would rather not wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_lite import errors
from ironic_lite.core import bmc_metrics, config, run_lines
from ironic_lite.drivers import deadline
from ironic_lite.drivers.ipmi import tool
from tests.support.bmc_tasks import Program, task_with

STATUS = ("power", "status")
BUSY = "echo run >> calls\necho 'Error: Node busy' >&2\nexit 1"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[bmc_metrics.Counters]:
    """Counts of this test alone, of BMCs that need no rest."""
    made = bmc_metrics.Counters()
    monkeypatch.setattr(bmc_metrics, "BMCS", made)
    monkeypatch.setattr(tool, "BMCS", tool.Bmcs())
    yield made


def results(made: bmc_metrics.Counters) -> dict[str, int]:
    """Return how many commands were counted, by result."""
    told = made.snapshot()["bmc_calls_total"]
    assert {(one["kind"], one["operation"]) for one in told} <= {("ipmi", "power")}
    return {one["result"]: one["value"] for one in told}


def test_each_command_is_counted_with_its_result(
    program: Program, counted: bmc_metrics.Counters
) -> None:
    task = task_with({"ipmi_address": "127.0.0.1", "ipmi_port": 1})
    program("echo 'Chassis Power is on'")
    tool.run(task, STATUS)
    program("echo 'Unable to establish IPMI v2 / RMCP+ session' >&2\nexit 1")
    with pytest.raises(errors.Error), deadline.limit(deadline.UNHURRIED):
        tool.run(task, STATUS)
    assert sum(results(counted).values()) == 2
    assert results(counted)["ok"] == 1
    (seconds,) = counted.snapshot()["bmc_call_seconds"]
    assert seconds["count"] == 2


def test_a_repetition_is_counted_and_who_comes_back_by_himself_causes_none(
    program: Program, counted: bmc_metrics.Counters
) -> None:
    config.CONF.set_override("min_command_interval", 1, group="ipmi")
    task = task_with({"ipmi_address": "127.0.0.1", "ipmi_port": 2})
    folder = program(f"[ -e calls ] && {{ echo 'Chassis Power is on'; exit 0; }}\n{BUSY}")
    tool.run(task, STATUS)
    assert counted.snapshot()["bmc_retries_total"] == [{"kind": "ipmi", "value": 1}]
    (folder / "calls").unlink()
    with pytest.raises(errors.HardwareError), deadline.limit(deadline.UNHURRIED):
        tool.run(task, STATUS)
    assert (folder / "calls").read_text() == "run\n"
    assert counted.snapshot()["bmc_retries_total"] == [{"kind": "ipmi", "value": 1}]


class Lines:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, bool]] = []

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        self.found.append((source, text.rpartition(" 0.")[0], minor))


def test_each_command_is_a_line_of_the_log_without_the_bytes_of_a_raw_one(
    program: Program,
) -> None:
    task, lines = task_with({"ipmi_address": "127.0.0.1", "ipmi_port": 3}), Lines()
    with run_lines.gathering(lines):
        program("echo 'Chassis Power is on'")
        tool.run(task, STATUS)
        tool.run(task, ("raw", "0x06", "0x47", "0x68", "0x75", "0x6e"), once=True)
        program("echo 'Insufficient privilege level' >&2\nexit 1")
        with pytest.raises(errors.Error), deadline.limit(deadline.UNHURRIED):
            tool.run(task, ("power", "on"))
    assert lines.found == [
        ("bmc", "ipmitool power status ok", True),
        ("bmc", "ipmitool raw 0x06 0x47 (and 3 bytes) ok", False),
        ("bmc", "ipmitool power on failed (Insufficient privilege level)", False),
    ]
