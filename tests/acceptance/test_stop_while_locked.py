"""A conductor that is stopped while its database is locked: it ends in time and loses nothing."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import sqlite3
import time
from collections.abc import Iterator

import pytest

from tests.support import service
from tests.support.service import Service

LIMIT = 4
"""[conductor]graceful_shutdown_timeout of these tests."""
SLACK = 14.0
"""Seconds that a stop may take beside that: its own few, and those of a loaded machine."""
OPTIONS = f"graceful_shutdown_timeout = {LIMIT}\nheartbeat_interval = 1\nheartbeat_timeout = 8\n"
STEP = [{"interface": "management", "step": "reset_bmc"}]


@pytest.fixture
def fleet() -> Iterator[Service]:
    """A migrated database and an API."""
    with service.service(OPTIONS) as found:
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        found.start("ironic-lite-api")
        yield found


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Let nobody write to the database for the length of the block."""
    path = folder / "state" / "ironic-lite.sqlite"
    holder = sqlite3.connect(path, timeout=service.PATIENCE, isolation_level=None)
    with contextlib.closing(holder):
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("ROLLBACK")


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "at work"])
def test_a_stop_ends_in_time_and_the_next_start_continues_the_work(
    fleet: Service, busy: bool
) -> None:
    conductor = fleet.start("ironic-lite-conductor", host="one")
    fleet.up()
    fleet.create("n1", driver_info={"fake_step_seconds": 1})
    fleet.provision("n1", "manage", "manageable")
    if busy:
        body = {"target": "clean", "clean_steps": 3 * STEP}
        answer = fleet.ask("PUT", "/v1/nodes/n1/states/provision", body)
        assert answer.status_code == 202, answer.text
    with locked(fleet.folder):
        begun = time.monotonic()
        conductor.stop(signal.SIGTERM)
        took = time.monotonic() - begun
    assert took < LIMIT + SLACK
    fleet.start("ironic-lite-conductor", host="one")
    fleet.settled("n1", "manageable")
    if busy:
        runs = fleet.get("/v1/nodes/n1/runs")["runs"]
        (run,) = [one for one in runs if one["verb"] == "clean"]
        assert run["state"] == "done"
        shown = fleet.get(f"/v1/nodes/n1/runs/{run['uuid']}")
        assert [step["state"] for step in shown["steps"]] == 3 * ["done"]
    print(f"the stop took {took:.1f} s")
