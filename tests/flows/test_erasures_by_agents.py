"""Records of erasing steps that an agent runs: as a result, as an error, invalid, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.conductor.watch import timeouts
from ironic_lite.db.tables import models
from ironic_lite.domain import erasure_results
from ironic_lite.drivers.agent import client, deploy, steps
from tests.support import crashes, scripted_agent
from tests.support.conductor_fixture import ConductorFixture, listed

pytestmark = pytest.mark.feature("erasures")

Json = dict[str, Any]
STEP = {"interface": "deploy", "step": "erase_devices", "priority": 10}
GOOD: Json = {"name": "/dev/sda", "serial": "S1", "result": "erased", "level": "clear"}
SKIPPED: Json = {"name": "/dev/sdb", "serial": "S2", "result": "skipped", "why": "read-only"}
BAD: Json = {"name": "/dev/sdc", "serial": "S3", "result": "failed", "why": "exit 5"}


def report(*disks: Json) -> Json:
    """Return a report of the ramdisk's hardware manager."""
    return {"kind": erasure_results.KIND, "managers": {"evidence": "1"}, "disks": list(disks)}


class Erasing(scripted_agent.Machine):
    """A machine whose agent reports an erasure."""

    told: Json | None = None
    error: Json | None = None
    reads: Any = None
    """What the document of the node says about the reader of reports."""

    def begin(self, full: str, params: Json) -> tuple[int, Json]:
        if full == "clean.execute_clean_step":
            self.reads = params["node"]["driver_internal_info"].get(erasure_results.READER)
        return super().begin(full, params)

    def _result(self, name: str, step: Json) -> Json:
        found = super()._result(name, step)
        return {**found, "clean_result": self.told} if name == "execute_clean_step" else found

    def _settle(self) -> None:
        super()._settle()
        for one in self._commands:
            step = one["command_name"] == "execute_clean_step"
            if self.error is not None and step and one["command_status"] == "SUCCEEDED":
                one |= {"command_status": "FAILED", "command_error": self.error}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Erasing]:
    """The machine of `rig`, whose agent is polled without delay."""
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(steps, "SOON", 0.02)
    monkeypatch.setattr(client, "_PAUSE", 0.02)
    with scripted_agent.running(Erasing(clean=[STEP])) as found:
        assert isinstance(found, Erasing)
        yield found


@pytest.fixture
def rig(build: Callable[..., ConductorFixture], machine: Erasing) -> ConductorFixture:
    """A conductor for it."""
    drivers = scripted_agent.registry(machine, deploy.DirectDeploy(), crashes.Life())
    rig = build(registry=drivers, agent__require_tls=False)
    machine.service = rig.service
    machine.node = rig.node(data_state="clean")
    return rig


def cleaned(rig: ConductorFixture, node: str, state: str) -> tuple[Json, Json]:
    """Clean the node until it is in ``state``; return the node and its only record."""
    rig.ask("clean", node, clean_steps=listed("deploy.erase_devices"))
    row = rig.reaches(node, state)
    (record,) = statements(rig, node)
    assert record["run"]["uuid"] == rig.run(node)["uuid"]
    return row, record


def statements(rig: ConductorFixture, node: str) -> list[Json]:
    """Return the records of a node, the oldest first."""

    def read(conn: sa.Connection) -> list[str]:
        known = models.erasures.c
        chosen = sa.select(known.statement).where(known.node_uuid == node).order_by(known.id)
        return list(conn.execute(chosen).scalars())

    return [json.loads(one) for one in rig.database.read(read)]


def test_agent_learns_that_the_service_reads_reports(
    rig: ConductorFixture, machine: Erasing
) -> None:
    machine.told = report(GOOD)
    row, record = cleaned(rig, machine.node, "manageable")
    assert machine.reads is True
    assert (row["data_state"], record["result"], record["error"]) == ("clean", "complete", None)


@pytest.mark.parametrize(
    ("disks", "result"),
    [([GOOD, BAD], "partial"), ([BAD], "failed"), ([GOOD, SKIPPED, BAD], "partial")],
)
@pytest.mark.parametrize("failing", [False, True], ids=["as a result", "as an error"])
def test_failed_disk_fails_the_step_and_is_recorded(
    rig: ConductorFixture, machine: Erasing, disks: list[Json], result: str, failing: bool
) -> None:
    if failing:
        told = {"type": "DisksNotErased", "details": "exit 5", "erasure": report(*disks)}
        machine.error = told
    else:
        machine.told = report(*disks)
    row, record = cleaned(rig, machine.node, "clean failed")
    assert "exit 5" in row["last_error"]
    assert (row["data_state"], record["result"]) == ("dirty", result)
    assert record["ramdisk"]["managers"] == {"evidence": "1"}
    named = [one["serial"] for one in (*record["disks"], *record["not_erased"])]
    assert named == [one["serial"] for one in disks]
    assert "exit 5" in record["error"]


def test_skipped_disk_lets_the_step_end_and_makes_a_clean_node_dirty(
    rig: ConductorFixture, machine: Erasing
) -> None:
    machine.told = report(GOOD, SKIPPED)
    row, record = cleaned(rig, machine.node, "manageable")
    assert (row["data_state"], record["result"]) == ("dirty", "partial")


@pytest.mark.parametrize("failing", [False, True], ids=["as a result", "as an error"])
def test_invalid_report_fails_the_step_because_it_may_hide_a_failed_disk(
    rig: ConductorFixture, machine: Erasing, failing: bool
) -> None:
    told = report(GOOD, {**BAD, "size": -1})
    if failing:
        machine.error = {"type": "DisksNotErased", "details": "exit 5", "erasure": told}
    else:
        machine.told = told
    _, record = cleaned(rig, machine.node, "clean failed")
    assert (record["result"], record["disks"]) == ("failed", [])
    assert "disks/1/size" in record["not_known"]


def test_step_that_fails_without_a_report_is_recorded(
    rig: ConductorFixture, machine: Erasing
) -> None:
    machine.error = {"type": "CleaningError", "details": "exit 5"}
    row, record = cleaned(rig, machine.node, "clean failed")
    assert (record["result"], record["disks"], record["not_erased"]) == ("failed", [], [])
    assert row["data_state"] == "unknown"
