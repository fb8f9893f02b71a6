"""Processes apart, as on several machines: a database server, a broker, TLS, and `direct://`."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping

import psutil
import pytest
import requests

from ironic_lite.rpc.sockets import client
from tests.emulators import redfish
from tests.support import balancer, database_servers, direct_rpc, private_servers, rabbit, service
from tests.support.ports import HOST, free_port
from tests.support.service import Program, Service

# The processes run apart, as on several machines: a database server, a broker, two conductors.

NODES = 6
QUORUM = """
[oslo_messaging_rabbit]
rabbit_quorum_queue = true
rabbit_transient_quorum_queue = true
"""


@pytest.fixture(params=database_servers.SERVERS)
def fleet(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A configuration with a database server and a broker, the database upgraded."""
    with contextlib.ExitStack() as made:
        database = made.enter_context(database_servers.own_database(request.param, "fleet"))
        broker = made.enter_context(rabbit.own_url())
        found = made.enter_context(service.service())
        text = found.settings.read_text(encoding="utf-8")
        found.settings.write_text(
            text.replace("[DEFAULT]\n", f"[DEFAULT]\ntransport_url = {broker}\n").replace(
                "[conductor]\n", "[conductor]\nhash_ring_reset_interval = 1\n"
            )
            + f"\n[database]\nconnection = {database}\n{QUORUM}",
            encoding="utf-8",
        )
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        yield found


def conductors(fleet: Service) -> set[str]:
    """Return the host names of the conductors alive."""
    listed = (fleet.get("/v1/conductors") or {}).get("conductors", [])
    return {row["hostname"] for row in listed if row["alive"]}


def test_two_conductors_share_the_fleet_over_a_broker(fleet: Service) -> None:
    api = fleet.start("ironic-lite-api")
    first = fleet.start("ironic-lite-conductor", host="first")
    second = fleet.start("ironic-lite-conductor", host="second")
    service.until(lambda: conductors(fleet) == {"first", "second"}, "two conductors")
    names = [f"node-{number}" for number in range(NODES)]
    for name in names:
        fleet.create(name)
        fleet.provision(name, "manage", "manageable")
        fleet.provision(name, "provide", "available")
        fleet.provision(name, "active", "active")
    owners = {fleet.get(f"/v1/nodes/{name}")["conductor"] for name in names}
    assert owners <= {"first", "second"}
    another = listen_elsewhere(fleet)
    assert first.stop() == 0  # which it does when every API knows
    for name in names:
        fleet.provision(name, "deleted", "available")
    assert conductors(fleet) == {"second"}
    assert api.stop(signal.SIGTERM) == 0
    fleet.url = another
    assert {name for name in names if fleet.provision(name, "manage", "manageable")} == set(names)
    assert second.stop() == 0


def listen_elsewhere(fleet: Service) -> str:
    """Start one more API, as on another machine, and return its URL when it answers."""
    port = free_port()
    settings = fleet.folder / "another.conf"
    settings.write_text(f"[api]\nport = {port}\n", encoding="utf-8")
    fleet.start("ironic-lite-api", "--config-file", str(settings))
    url = f"http://{service.HOST}:{port}"
    service.until(lambda: requests.get(f"{url}/v1", timeout=60).ok, "another API")
    return url


def test_a_conductor_waiting_for_its_broker_still_stops_on_a_signal() -> None:
    away = f"rabbit://guest:guest@{service.HOST}:{free_port()}/"
    with service.service() as found:
        text = found.settings.read_text(encoding="utf-8")
        settings = text.replace("[DEFAULT]\n", f"[DEFAULT]\ntransport_url = {away}\n")
        found.settings.write_text(settings, encoding="utf-8")
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
        conductor = found.start("ironic-lite-conductor")
        service.until(lambda: "rabbit" in conductor.said().lower(), "the broker is missed")
        assert conductor.stop() == 0


# An API and two conductors over ``direct://``: the loss of one, its return, and pauses.

FIRST, SECOND = "127.0.0.1", "127.0.0.2"
DIRECT_NODES = 24  # each conductor owns some, but for one run in millions
ANSWER_SECONDS = 5


@pytest.fixture
def direct_fleet() -> Iterator[Service]:
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
def balanced(direct_fleet: Service) -> Iterator[Service]:
    """The same with two APIs behind the shipped haproxy.cfg."""
    with balancer.before(direct_fleet):
        yield direct_fleet


def conductor(fleet: Service, host: str) -> Program:
    """Start a conductor on a machine of its own."""
    settings = fleet.folder / f"machine-{host}.conf"
    settings.write_text(f"[direct]\nbind_host = {host}\n", encoding="utf-8")
    return fleet.start("ironic-lite-conductor", "--config-file", str(settings), host=host)


def started(fleet: Service, *hosts: str) -> dict[str, Program]:
    """Start conductors, and wait until the API knows them."""
    programs = {host: conductor(fleet, host) for host in hosts}
    service.until(lambda: direct_conductors(fleet) == set(hosts), "the conductors")
    return programs


def direct_conductors(fleet: Service) -> set[str]:
    """Return the names of the conductors alive."""
    listed = (fleet.get("/v1/conductors") or {}).get("conductors", [])
    return {row["hostname"] for row in listed if row["alive"]}


def owners(fleet: Service, names: list[str]) -> dict[str, str]:
    return {name: fleet.get(f"/v1/nodes/{name}")["conductor"] for name in names}


def test_request_for_a_node_of_a_killed_conductor_is_done_by_the_other(balanced: Service) -> None:
    programs = started(balanced, FIRST, SECOND)
    names = [f"node-{number}" for number in range(DIRECT_NODES)]
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
    service.until(lambda: time.monotonic() - since > client.PROVEN_SECONDS, "the pause")


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
    names = [f"node-{number}" for number in range(DIRECT_NODES)]
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


def test_apis_stay_ready_while_a_paused_conductor_counts_as_living(direct_fleet: Service) -> None:
    ports = [direct_fleet.port, *(free_port() for _ in range(APIS - 1))]
    for port in ports:
        settings = direct_fleet.folder / f"api-{port}.conf"
        settings.write_text(f"[api]\nport = {port}\n", encoding="utf-8")
        direct_fleet.start("ironic-lite-api", "--config-file", str(settings))
    programs = {host: conductor(direct_fleet, host) for host in (FIRST, SECOND)}
    urls = [f"http://{service.HOST}:{port}/readyz" for port in ports]
    for url in urls:
        service.until(lambda url=url: direct_fleet.session.get(url, timeout=60).ok, url)  # type: ignore[misc]
    service.until(lambda: direct_conductors(direct_fleet) == {FIRST, SECOND}, "the conductors")
    pause(programs[SECOND])
    seen = []
    for _ in range(ROUNDS):
        seen += [direct_fleet.session.get(url, timeout=60).status_code for url in urls]
        time.sleep(PAUSE)
    assert sum(status != 200 for status in seen) <= 1, seen
    assert direct_conductors(direct_fleet) == {FIRST, SECOND}


def test_processes_of_a_conductor_are_called_by_their_ports(direct_fleet: Service) -> None:
    text = direct_fleet.settings.read_text(encoding="utf-8")
    with_two = text.replace("[conductor]\n", "[conductor]\nprocesses = 2\n")
    direct_fleet.settings.write_text(with_two, encoding="utf-8")
    direct_fleet.start("ironic-lite-api")
    program = direct_fleet.start("ironic-lite-conductor", host="localhost")
    both = {"localhost", "localhost:2"}
    service.until(lambda: direct_conductors(direct_fleet) == both, "two processes")
    names = [f"node-{number}" for number in range(DIRECT_NODES)]
    for name in names:
        direct_fleet.create(name)
        direct_fleet.provision(name, "manage", "manageable")
    assert set(owners(direct_fleet, names).values()) == both
    assert program.stop() == 0


@pytest.mark.parametrize("script", ["ironic-lite-api", "ironic-lite-conductor", "ironic-lite"])
def test_program_without_certificates_does_not_start(direct_fleet: Service, script: str) -> None:
    text = direct_fleet.settings.read_text(encoding="utf-8")
    direct_fleet.settings.write_text(text.replace("cert_file = ", "#"), encoding="utf-8")
    program = direct_fleet.start(script)
    assert program.process.wait(service.PATIENCE) == 2
    assert "direct:// needs [direct]cert_file" in program.said()


# Calls over a broker that speaks TLS alone: one of our own, on free ports.

SETTINGS = """\
loopback_users = none
listeners.tcp = none
listeners.ssl.1 = {host}:{port}
ssl_options.certfile = {folder}/bmc.pem
ssl_options.keyfile = {folder}/bmc.key
ssl_options.verify = verify_none
"""


class Broker(private_servers.RabbitMQ):
    """RabbitMQ with a certificate that is its own authority."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder, names=free_port())
        self.authority, _ = redfish.certificate(folder)
        for name in ("bmc.pem", "bmc.key"):
            path = self.folder / name
            shutil.copy(folder / name, path)
            path.chmod(0o600)
            if self._user is not None:
                shutil.chown(path, self._user)
        told = SETTINGS.format(host=HOST, port=self.port, folder=self.folder)
        self.settings.write_text(told, encoding="utf-8")

    def environment(self) -> Mapping[str, str]:
        """Return the environment without the port that would have no TLS."""
        ours = super().environment()
        plain = ("RABBITMQ_NODE_PORT", "RABBITMQ_NODE_IP_ADDRESS")
        return {name: value for name, value in ours.items() if name not in plain}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that speaks TLS alone."""
    with tempfile.TemporaryDirectory(prefix="tls-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        try:
            found = Broker(folder)
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        try:
            found.start()
            yield found
        finally:
            found.close()


def settings(broker: Broker, authority: pathlib.Path, host: str = HOST) -> str:
    """Return what makes our processes speak TLS with the broker."""
    return (
        f"[DEFAULT]\ntransport_url = rabbit://guest:guest@{host}:{broker.port}/\n"
        f"[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = {authority}\n"
    )


@pytest.mark.xdist_group("broker_tls")
def test_a_machine_is_led_over_a_broker_with_tls(broker: Broker) -> None:
    with service.service(settings(broker, broker.authority)) as found:
        found.start()
        found.up()
        found.create("metal")
        assert found.provision("metal", "manage", "manageable")["last_error"] is None
        connected = broker.said("list_connections", "ssl", "ssl_protocol").splitlines()
        assert len(connected) > 1
        assert {line.split()[0] for line in connected[1:]} == {"true"}, connected


@pytest.mark.xdist_group("broker_tls")
@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_a_broker_that_is_not_who_it_should_be_gets_no_word(
    broker: Broker, tmp_path: pathlib.Path, wrong: str
) -> None:
    stranger, _ = redfish.certificate(tmp_path)
    told = (
        settings(broker, stranger)
        if wrong == "authority"
        else settings(broker, broker.authority, "localhost")
    )
    with service.service(told) as found:
        program = found.start()
        service.until(lambda: "certificate verify failed" in program.said(), "a refusal")
        assert broker.said("list_connections", "ssl").split()[1:] == []
        ready = service.until(lambda: found.ask("GET", "/readyz").status_code, "the API")
        assert ready == 503
