"""A conductor as several processes: each has its own nodes, and the death of one is its own."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support import service
from tests.support.ports import free_port
from tests.support.service import Program, Service

NAMES = ("tester", "tester:2")
TWO = """\
processes = 2
heartbeat_interval = 1
hash_ring_reset_interval = 1
[fake]
step_seconds = 0
[deploy]
http_host = 127.0.0.1
http_port = {port}
"""
NODES = 12
SLOW = [{"interface": "management", "step": "reset_bmc"}] * 3


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def two(port: int) -> Iterator[Service]:
    """A configuration of two conductor processes and their file server."""
    with service.service(TWO.format(port=port)) as found:
        yield found


def process_of(program: Program, name: str) -> int:
    """Return the process that is the conductor of this name, in its last life."""
    line = rf"^\S+ \S+ (?P<pid>\d+) INFO ironic_lite\.conductor\.service Conductor {name} is up"
    return program.pids(line)[-1]


def lives(program: Program, name: str) -> int:
    return len(re.findall(rf"Conductor {name} is up", program.said()))


def conductors(two: Service) -> set[str]:
    """Return the names of the conductors alive."""
    listed = (two.get("/v1/conductors") or {}).get("conductors", [])
    return {row["hostname"] for row in listed if row["alive"]}


def started(two: Service) -> Program:
    """Start the service, and wait until the API knows both conductors."""
    program = two.start()
    two.up()
    service.until(lambda: conductors(two) == set(NAMES), "two conductors")
    service.until(lambda: all(lives(program, name) for name in NAMES), "both are up")
    return program


def manageable(two: Service, seconds: float = 0) -> dict[str, str]:
    """Create nodes whose steps take so long; return the owner of each."""
    names = [f"node-{number}" for number in range(NODES)]
    for name in names:
        two.create(name, driver_info={"fake_step_seconds": seconds})
    service.until(lambda: set(owners(two, names).values()) == set(NAMES), "both own nodes")
    for name in names:
        two.provision(name, "manage", "manageable")
    return owners(two, names)


def owners(two: Service, names: list[str]) -> dict[str, str]:
    return {name: two.get(f"/v1/nodes/{name}")["conductor"] for name in names}


def clean(two: Service, name: str) -> None:
    body = {"target": "clean", "clean_steps": SLOW}
    answer = two.ask("PUT", f"/v1/nodes/{name}/states/provision", body)
    assert answer.status_code == 202, answer.text


def cleaned(two: Service, name: str) -> dict[str, Any]:
    """Return the run of a clean that has ended."""
    two.settled(name, "manageable")
    runs = two.get(f"/v1/nodes/{name}/runs")["runs"]
    found: dict[str, Any] = max(
        (run for run in runs if run["verb"] == "clean"), key=lambda run: run["started_at"]
    )
    assert found["state"] == "done"
    return found


def test_each_process_works_on_its_own_nodes(two: Service) -> None:
    program = started(two)
    owned = manageable(two)
    for name in owned:
        clean(two, name)
    assert {name: cleaned(two, name)["conductor"] for name in owned} == owned
    assert program.stop() == 0
    for name in NAMES:
        assert f"Conductor {name} has stopped" in program.said()


def test_killed_process_returns_and_continues_its_nodes_while_the_other_works(
    two: Service,
) -> None:
    program = started(two)
    owned = manageable(two, seconds=1)
    other, victim = (process_of(program, name) for name in NAMES)
    for name in owned:
        clean(two, name)
    os.kill(victim, signal.SIGKILL)
    service.until(lambda: lives(program, NAMES[1]) == 2, "the next life")
    for name in owned:
        cleaned(two, name)
    assert "conductor tester:2 ended by SIGKILL; it is restarted" in program.said()
    assert process_of(program, NAMES[0]) == other
    assert lives(program, NAMES[0]) == 1
    assert program.stop() == 0


def test_stopped_process_hands_its_nodes_to_the_other(two: Service) -> None:
    two.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE)
    two.start("ironic-lite-api")
    program = two.start("ironic-lite-conductor")
    service.until(lambda: conductors(two) == set(NAMES), "two conductors")
    service.until(lambda: all(lives(program, name) for name in NAMES), "both are up")
    owned = manageable(two)
    os.kill(process_of(program, NAMES[0]), signal.SIGTERM)
    for name in owned:
        clean(two, name)
        cleaned(two, name)
    service.until(lambda: lives(program, NAMES[0]) == 2, "its next life")
    service.until(lambda: conductors(two) == set(NAMES), "two conductors again")
    assert program.stop(signal.SIGUSR2) == 0


def test_files_are_served_while_any_conductor_is_dead(two: Service, port: int) -> None:
    program = started(two)
    for name in NAMES:
        os.kill(process_of(program, name), signal.SIGKILL)
        assert requests.get(f"http://127.0.0.1:{port}/missing", timeout=60).status_code == 404
    assert program.stop() == 0


def test_one_process_keeps_its_name_and_its_nodes_when_there_are_more(two: Service) -> None:
    two.settings.write_text(two.settings.read_text().replace("processes = 2", "processes = 1"))
    two.start()
    two.up()
    assert conductors(two) == {"tester"}
    two.create("node")
    two.provision("node", "manage", "manageable")
    two.again(processes=2)
    service.until(lambda: conductors(two) == set(NAMES), "two conductors")
    clean(two, "node")
    cleaned(two, "node")
