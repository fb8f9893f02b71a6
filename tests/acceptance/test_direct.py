"""An API and two conductors over ``direct://``: the loss of one, its return, and pauses."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from ironic_lite.rpc.sockets import sender
from tests.support import balancer, database_servers, direct_rpc, service
from tests.support.ports import free_port
from tests.support.service import Program, Service

FIRST, SECOND = "127.0.0.1", "127.0.0.2"
NODES = 8
ANSWER_SECONDS = 5


@pytest.fixture
def fleet() -> Iterator[Service]:
    """A configuration with PostgreSQL and ``direct://``, the database upgraded."""
    with contextlib.ExitStack() as made:
        database = made.enter_context(database_servers.own_database("postgresql", "direct"))
        found = made.enter_context(service.service())
        text = found.settings.read_text(encoding="utf-8")
        more = f"transport_url = {direct_rpc.URL}\nrpc_response_timeout = {ANSWER_SECONDS}\n"
        found.settings.write_text(
            text.replace("[DEFAULT]\n", f"[DEFAULT]\n{more}").replace(
                "[conductor]\n", "[conductor]\nhash_ring_reset_interval = 1\n"
            )
            + f"[database]\nconnection = {database}\n"
            + direct_rpc.settings(direct_rpc.options(found.folder)),
            encoding="utf-8",
        )
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        yield found


@pytest.fixture
def balanced(fleet: Service) -> Iterator[Service]:
    """The same with two APIs behind the shipped haproxy.cfg."""
    with balancer.before(fleet):
        yield fleet


def conductor(fleet: Service, host: str) -> Program:
    """Start a conductor on a machine of its own."""
    settings = fleet.folder / f"machine-{host}.conf"
    settings.write_text(f"[direct]\nbind_host = {host}\n", encoding="utf-8")
    return fleet.start("ironic-lite-conductor", "--config-file", str(settings), host=host)


def started(fleet: Service, *hosts: str) -> dict[str, Program]:
    """Start conductors, and wait until the API knows them."""
    programs = {host: conductor(fleet, host) for host in hosts}
    service.until(lambda: conductors(fleet) == set(hosts), "the conductors")
    return programs


def conductors(fleet: Service) -> set[str]:
    """Return the names of the conductors alive."""
    listed = (fleet.get("/v1/conductors") or {}).get("conductors", [])
    return {row["hostname"] for row in listed if row["alive"]}


def owners(fleet: Service, names: list[str]) -> dict[str, str]:
    return {name: fleet.get(f"/v1/nodes/{name}")["conductor"] for name in names}


def test_request_for_a_node_of_a_killed_conductor_is_done_by_the_other(balanced: Service) -> None:
    programs = started(balanced, FIRST, SECOND)
    names = [f"node-{number}" for number in range(NODES)]
    for name in names:
        balanced.create(name)
        balanced.provision(name, "manage", "manageable")
    assert set(owners(balanced, names).values()) == {FIRST, SECOND}
    programs[SECOND].clear()
    for name in names:  # none gets 503, long before SECOND counts as dead
        balanced.provision(name, "provide", "available")
    runs = [balanced.get(f"/v1/nodes/{name}/runs")["runs"][0]["conductor"] for name in names]
    assert set(runs) == {FIRST}
    conductor(balanced, SECOND)
    service.until(lambda: SECOND in owners(balanced, names).values(), "its return")
    for name in names:
        balanced.provision(name, "manage", "manageable")
    assert programs[FIRST].stop() == 0  # which it does when the API knows
    for name in names:
        balanced.provision(name, "provide", "available")


def pause(program: Program) -> None:
    """Stop a conductor; return when nothing that was heard of it counts as new."""
    program.process.send_signal(signal.SIGSTOP)
    stopped = psutil.STATUS_STOPPED
    service.until(lambda: psutil.Process(program.pid).status() == stopped, "its stop")
    since = time.monotonic()
    service.until(lambda: time.monotonic() - since > sender.PROVEN_SECONDS, "the pause")


def test_call_answered_503_is_not_begun_by_a_paused_conductor(balanced: Service) -> None:
    (only,) = started(balanced, FIRST).values()
    balanced.create("idle")
    balanced.provision("idle", "manage", "manageable")
    before = balanced.get("/v1/nodes/idle")
    pause(only)
    late = balanced.ask("PUT", "/v1/nodes/idle/states/provision", {"target": "provide"})
    assert late.status_code == 503
    assert int(late.headers["Retry-After"]) > 0
    only.process.send_signal(signal.SIGCONT)
    service.until(lambda: balanced.get("/v1/nodes/idle/management/boot_device"), "its answers")
    assert balanced.get("/v1/nodes/idle") == before
    balanced.provision("idle", "provide", "available")


def test_verbs_for_nodes_of_a_paused_conductor_are_done_by_the_other(balanced: Service) -> None:
    programs = started(balanced, FIRST, SECOND)
    names = [f"node-{number}" for number in range(NODES)]
    for name in names:
        balanced.create(name)
        balanced.provision(name, "manage", "manageable")
    assert set(owners(balanced, names).values()) == {FIRST, SECOND}
    pause(programs[SECOND])
    for name in names:
        balanced.provision(name, "provide", "available")
    runs = [balanced.get(f"/v1/nodes/{name}/runs")["runs"][0]["conductor"] for name in names]
    assert set(runs) == {FIRST}


APIS, ROUNDS, PAUSE = 4, 10, 1.1
"""APIs, the looks at each, and the seconds between them: an API repeats its answer for a second."""


def test_apis_stay_ready_while_a_paused_conductor_counts_as_living(fleet: Service) -> None:
    ports = [fleet.port, *(free_port() for _ in range(APIS - 1))]
    for port in ports:
        settings = fleet.folder / f"api-{port}.conf"
        settings.write_text(f"[api]\nport = {port}\n", encoding="utf-8")
        fleet.start("ironic-lite-api", "--config-file", str(settings))
    programs = {host: conductor(fleet, host) for host in (FIRST, SECOND)}
    urls = [f"http://{service.HOST}:{port}/readyz" for port in ports]
    for url in urls:
        service.until(lambda url=url: fleet.session.get(url, timeout=60).ok, url)  # type: ignore[misc]
    service.until(lambda: conductors(fleet) == {FIRST, SECOND}, "the conductors")
    pause(programs[SECOND])
    seen = []
    for _ in range(ROUNDS):
        seen += [fleet.session.get(url, timeout=60).status_code for url in urls]
        time.sleep(PAUSE)
    assert sum(status != 200 for status in seen) <= 1, seen
    assert conductors(fleet) == {FIRST, SECOND}


def test_processes_of_a_conductor_are_called_by_their_ports(fleet: Service) -> None:
    text = fleet.settings.read_text(encoding="utf-8")
    with_two = text.replace("[conductor]\n", "[conductor]\nprocesses = 2\n")
    fleet.settings.write_text(with_two, encoding="utf-8")
    fleet.start("ironic-lite-api")
    program = fleet.start("ironic-lite-conductor", host="localhost")
    both = {"localhost", "localhost:2"}
    service.until(lambda: conductors(fleet) == both, "two processes")
    names = [f"node-{number}" for number in range(NODES)]
    for name in names:
        fleet.create(name)
        fleet.provision(name, "manage", "manageable")
    assert set(owners(fleet, names).values()) == both
    assert program.stop() == 0


@pytest.mark.parametrize("script", ["ironic-lite-api", "ironic-lite-conductor", "ironic-lite"])
def test_program_without_certificates_does_not_start(fleet: Service, script: str) -> None:
    text = fleet.settings.read_text(encoding="utf-8")
    fleet.settings.write_text(text.replace("cert_file = ", "#"), encoding="utf-8")
    program = fleet.start(script)
    assert program.process.wait(service.PATIENCE) == 2
    assert "direct:// needs [direct]cert_file" in program.said()
