"""A disk that is really full, that of the database and a log: no run fails, and nothing is lost."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import private_servers, service
from tests.support.service import Program, Service

LEASE = 8
"""Seconds: longer than a loaded machine keeps one of two conductors from running."""
LEASES = f"""heartbeat_interval = 1
heartbeat_timeout = {LEASE}
check_provision_state_interval = 1
hash_ring_reset_interval = 1
"""
MIB = 16
NODES = [f"n{number}" for number in range(6)]
STEPS = [
    {"interface": "management", "step": "reset_bmc"},
    {"interface": "power", "step": "cycle"},
]


@pytest.fixture
def fleet() -> Iterator[Service]:
    """Two conductors whose state_path is a disk of its own; the second logs there, too."""
    with service.short_folder() as folder, contextlib.ExitStack() as made:
        state = folder / "state"
        state.mkdir()
        try:
            made.enter_context(private_servers.small_disk(state, MIB))
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        found = Service(folder, LEASES)
        made.callback(found.clear)
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        yield found


@contextlib.contextmanager
def full(folder: pathlib.Path) -> Iterator[None]:
    """Leave no byte of a disk free for the length of a block.

    SQLite's log is emptied first, so that no write goes where an old one was.
    """
    empty = "PRAGMA wal_checkpoint(TRUNCATE)"
    service.until(lambda: ask(folder, empty)[0][0] == 0, "a database with an empty log")
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as out:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while out.write(b"x" * size):
                    pass
    try:
        yield
    finally:
        ballast.unlink()


def ask(folder: pathlib.Path, question: str) -> list[tuple[Any, ...]]:
    path = folder / "ironic-lite.sqlite"
    with contextlib.closing(sqlite3.connect(path, timeout=service.PATIENCE)) as database:
        return database.execute(question).fetchall()


def begin(fleet: Service) -> dict[str, Program]:
    """Start all, and half of the nodes on a clean that goes on for seconds."""
    logged = fleet.folder / "logged.conf"
    logged.write_text(f"[DEFAULT]\nlog_file = {fleet.folder}/state/second.log\n")
    fleet.start("ironic-lite-api")
    found = {
        "first": fleet.start("ironic-lite-conductor", host="first"),
        "second": fleet.start("ironic-lite-conductor", "--config-file", str(logged), host="second"),
    }
    known = "SELECT count(*) FROM conductors"
    service.until(lambda: ask(fleet.folder / "state", known) == [(2,)], "two conductors")
    fleet.up()
    for name in NODES:
        fleet.create(name)
        fleet.provision(name, "manage", "manageable")
    body = [{"op": "add", "path": "/driver_info/fake_step_seconds", "value": 1}]
    for name in NODES[::2]:
        assert fleet.ask("PATCH", f"/v1/nodes/{name}", body).status_code == 200
        wanted = {"target": "clean", "clean_steps": STEPS}
        answer = fleet.ask("PUT", f"/v1/nodes/{name}/states/provision", wanted)
        assert answer.status_code == 202, answer.text
    return found


class Clients:
    """Who goes on asking while the disk is full, and remembers what was accepted."""

    def __init__(self, fleet: Service) -> None:
        self._fleet = fleet
        self.refused: list[str] = []
        self.value = 0
        self.made: list[str] = []
        self.begun = False

    def round(self) -> None:
        """Read, write, enroll, and ask for a verb."""
        read, written, begun = (f"/v1/nodes/{name}" for name in NODES[1::2])
        assert self._fleet.ask("GET", read).status_code == 200
        wanted = [{"op": "add", "path": "/extra/value", "value": self.value + 1}]
        self.value += self._accepted("PATCH", written, wanted)
        name = f"new{len(self.made)}"
        if self._accepted("POST", "/v1/nodes", {"name": name, "driver": "fake-hardware"}):
            self.made.append(name)
        if not self.begun:
            path = f"{begun}/states/provision"
            self.begun = self._accepted("PUT", path, {"target": "provide"})

    def _accepted(self, method: str, path: str, body: Any) -> bool:
        answer = self._fleet.ask(method, path, body)
        if answer.ok:
            return True
        # The short write of a lock may fit, and neither the verb nor the end of its lock.
        locked = answer.status_code == 409 and "is locked by host" in answer.text
        assert answer.status_code == 503 or locked, answer.text
        assert int(answer.headers["Retry-After"]) > 0
        self.refused.append(answer.text)
        return False


def test_accepted_runs_continue_after_a_full_disk_and_clients_get_503_meanwhile(
    fleet: Service,
) -> None:
    conductors = begin(fleet)
    clients = Clients(fleet)
    state = fleet.folder / "state"
    with full(state):
        end = time.monotonic() + 1.5 * LEASE  # so long that every lease has ended for who looks on
        while time.monotonic() < end:
            clients.round()
            time.sleep(0.05)
    assert any("disk is full" in text for text in clients.refused)
    for name in NODES[::2]:
        fleet.settled(name, "manageable")
    _, written, begun = NODES[1::2]
    assert fleet.get(f"/v1/nodes/{written}")["extra"].get("value", 0) == clients.value
    assert all(fleet.get(f"/v1/nodes/{name}") for name in clients.made)
    if not clients.begun:
        path, wanted = f"/v1/nodes/{begun}/states/provision", {"target": "provide"}
        service.until(lambda: fleet.ask("PUT", path, wanted).ok, "a node without its lock")
    fleet.settled(begun, "available")
    assert ask(state, "SELECT DISTINCT state FROM runs") == [("done",)]
    assert ask(state, "SELECT max(attempt) FROM run_steps") == [(1,)], "no step was run again"
    assert ask(state, "SELECT count(*) FROM events WHERE kind = 'taken_over'") == [(0,)]
    first = conductors["first"]
    service.until(lambda: "The keepalive renews" in first.said(), "a lease that is renewed again")
    said = first.said()
    assert said.count("The keepalive failed") == said.count("The keepalive renews") <= 2
    lines = Counter(line.partition("] ")[2] for line in said.splitlines() if "is full" in line)
    assert max(lines.values()) <= len(NODES), f"each of its threads says so once: {lines}"
    for conductor in conductors.values():
        assert conductor.stop(signal.SIGTERM) == 0
