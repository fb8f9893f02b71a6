"""A real agent whose machine is another conductor's by the time it has ended its step.

The conductor that gave it the step is killed, and stays dead until the other one has gone on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.agent import process
from tests.support import http_nodes, service
from tests.support.http_nodes import asks, reaches
from tests.support.service import Program, Service, until

MAC = "52:54:00:00:00:01"
SETTINGS = """
heartbeat_interval = 1
heartbeat_timeout = 3
hash_ring_reset_interval = 1
node_locked_retry_interval = 1
[DEFAULT]
enabled_deploy_interfaces = custom-agent
enabled_rescue_interfaces = agent
"""
WAITS = {"clean": "clean wait", "service": "service wait"}
STEPS: list[dict[str, Any]] = [
    {"interface": "deploy", "step": "linger", "args": {}},
    {"interface": "deploy", "step": "scrub", "args": {}},
]


class Pair:
    """Two conductors, of which one may be dead."""

    def __init__(self, fleet: Service) -> None:
        self._fleet = fleet
        self._programs: dict[str, Program] = {}
        fleet.start("ironic-lite-api")
        self.both()

    def both(self) -> None:
        """Start whoever is dead, and return when both live."""
        for host in ("first", "second"):
            if host not in self._programs:
                self._programs[host] = self._fleet.start("ironic-lite-conductor", host=host)
        until(lambda: self._living() == {"first", "second"}, "two conductors")

    def kill(self) -> str:
        """Kill the one whose machine it is; return the name of the other."""
        owner = str(self._fleet.get("/v1/nodes/m1")["conductor"])
        self._programs.pop(owner).clear()
        return next(iter(self._programs))

    def _living(self) -> set[str]:
        listed = (self._fleet.get("/v1/conductors") or {}).get("conductors", [])
        return {row["hostname"] for row in listed if row["alive"]}


@pytest.fixture
def machine() -> Iterator[process.Agent]:
    """A machine with a real agent, not started, whose ramdisk can rescue."""
    with process.agent([MAC]) as found:
        folder = found.folder / "rescue"
        folder.mkdir()
        folder.chmod(0o777)
        yield found


@pytest.fixture
def up(machine: process.Agent) -> Iterator[Service]:
    """A configuration for two conductors, the database made."""
    with service.service(SETTINGS) as found:
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        machine.api = found.url
        yield found


def test_next_conductor_finds_the_result_of_the_agent(up: Service, machine: process.Agent) -> None:
    pair = Pair(up)
    http_nodes.enrol(up, MAC)
    moves(up, pair, machine, "clean", "manageable")
    up.provision("m1", "adopt", "active")
    moves(up, pair, machine, "service", "active")
    asks(up, "rescue", rescue_password="open sesame")
    reaches(up, "rescue wait")
    pair.kill()
    machine.kill()
    machine.start()
    settled = up.settled("m1", "rescue")
    assert settled["last_error"] is None
    assert (machine.folder / "rescue" / "password").read_text().startswith("$5$")


def moves(up: Service, pair: Pair, machine: process.Agent, verb: str, end: str) -> None:
    """Have two steps done, the second of them by another conductor than the first."""
    machine.forget()
    machine.unflag()
    body: dict[str, Any] = {f"{verb}_steps": STEPS}
    asks(up, verb, **body)
    reaches(up, WAITS[verb])
    machine.start()
    until(lambda: machine.ran() == ["linger"], "linger")
    other = pair.kill()
    machine.flag()
    settled = up.settled("m1", end)
    assert settled["last_error"] is None
    assert machine.ran() == ["linger", "scrub"]
    (run, *_) = up.get("/v1/nodes/m1/runs")["runs"]
    assert (run["verb"], run["state"], run["conductor"]) == (verb, "done", other)
    machine.kill()
    pair.both()
