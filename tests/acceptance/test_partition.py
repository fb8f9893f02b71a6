"""Two machines of the shipped configuration behind the shipped haproxy.cfg; one is cut off.

``make partition`` cuts for 95 s, over ``direct://`` and over RabbitMQ.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from typing import Any, NamedTuple

import pytest
import requests

from tests.support import balancer, partition, private_servers, service
from tests.support.ports import free_port
from tests.support.service import CONDUCTOR_UP

SECONDS = float(os.environ.get("PARTITION_SECONDS", "14"))
"""How long a machine is cut off."""
RATE = 4
"""Verbs in a second."""
BEFORE, AFTER = 4.0, 8.0
"""Seconds of load before the cut, and behind it."""
NODES = 40
MOST_FAILED = {"direct": 2, "rabbit": 15 * RATE}
"""Requests that may fail, as docs/three-machines.rst says."""
TRANSPORTS = ["direct", "rabbit"] if "PARTITION_SECONDS" in os.environ else ["direct"]

pytestmark = [
    balancer.NEEDED,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
    pytest.mark.xdist_group("partition"),
]


class Answer(NamedTuple):
    """What a client saw: ``at`` in seconds since the cut; ``status`` 0 is no answer."""

    at: float
    seconds: float
    status: int
    ours: bool
    retry_after: str | None
    text: str


class Client:
    """Sends verbs at a constant rate, however long their answers take."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[Answer] = []
        self._pool = futures.ThreadPoolExecutor(100)
        self._sent: list[futures.Future[None]] = []
        self._zero = 0.0

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Send one request."""
        login = (partition.USER, partition.PASSWORD)
        return requests.request(
            method, self.url + path, json=body, auth=login, verify=False, timeout=100
        )

    def drive(self, seconds: float, nodes: list[str]) -> None:
        """Send verbs for some seconds."""
        begun = time.monotonic()
        for number in range(int(seconds * RATE)):
            time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            node = nodes[len(self._sent) % len(nodes)]
            self._sent.append(self._pool.submit(self._verb, node))

    def idle(self) -> None:
        """Wait for all answers."""
        futures.wait(self._sent)

    def cut(self, act: Callable[[], None]) -> None:
        """Cut while no request is under way, and no node locked: these have no answer, or 409."""
        self.idle()
        service.until(self._at_rest, "the locks of all nodes")
        act()
        self._zero = time.monotonic()

    def _at_rest(self) -> bool:
        answer = self.ask("GET", "/v1/nodes?fields=reservation&limit=1000")
        return answer.ok and not any(one["reservation"] for one in answer.json()["nodes"])

    def _verb(self, node: str) -> None:
        begun, path = time.monotonic(), f"/v1/nodes/{node}/states/power"
        status, ours, later, text = 0, False, None, ""
        try:
            answer = self.ask("PUT", path, {"target": "rebooting"})
            status, text = answer.status_code, answer.text
            ours = not balancer.own(answer)
            later = answer.headers.get("Retry-After")
        except requests.RequestException as why:
            text = repr(why)
        took = time.monotonic() - begun
        self.answers.append(Answer(begun - self._zero, took, status, ours, later, text))

    def failed(self) -> list[Answer]:
        """Return the answers that are no success."""
        return sorted(one for one in self.answers if one.status != 202)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


class Member(private_servers.RabbitMQ):
    """A broker of the shipped rabbitmq.conf, on a machine, or here without one."""

    def __init__(
        self, folder: pathlib.Path, names: int, address: str, machine: partition.Machine | None
    ) -> None:
        super().__init__(folder, f"rabbitmq-{address}", names)
        self._user = None  # namespaces are of root
        self.address = address
        self.node = f"rabbit@{address}"
        self._machine = machine

    def command(self) -> list[str]:
        """Return what starts it."""
        mine = super().command()
        return mine if self._machine is None else self._machine.inside(*mine)

    def environment(self) -> Mapping[str, str]:
        """Return where all its things are."""
        interface = "{" + self.address.replace(".", ",") + "}"
        return {
            **super().environment(),
            "ERL_EPMD_ADDRESS": self.address,
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_NODE_IP_ADDRESS": self.address,
            "RABBITMQ_NODE_PORT": "",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {interface}",
        }

    def answers(self) -> bool:
        """Return whether the server accepts requests."""
        with contextlib.suppress(OSError), socket.create_connection((self.address, 5671), 2):
            return True
        return False


@contextlib.contextmanager
def brokers(programs: partition.Site, here: str) -> Iterator[str]:
    """Run a cluster of three with the shipped rabbitmq.conf; give the settings of clients."""
    names, cookie = free_port(), secrets.token_hex(16)
    places = [(one.address, one) for one in programs.machines] + [(here, None)]
    members = [Member(programs.folder, names, *place) for place in places]
    text = (partition.EXAMPLES / "rabbitmq.conf").read_text(encoding="utf-8")
    for name, (address, _) in zip(("one", "two", "three"), places, strict=True):
        text = text.replace(f"{name}.example.org", address)
    programs.authority.issue("rabbit", *(address for address, _ in places))
    text = text.replace("/etc/rabbitmq/rabbit-ca.pem", str(programs.authority.file))
    text = text.replace("/etc/rabbitmq/rabbit", f"{programs.folder}/rabbit")
    with contextlib.ExitStack() as made, futures.ThreadPoolExecutor() as pool:
        for one in members:
            one.settings.write_text(text + "loopback_users = none\n", encoding="utf-8")
            secret = one.folder / ".erlang.cookie"
            secret.write_text(cookie)
            secret.chmod(0o400)
            made.callback(one.stop)
        list(pool.map(lambda one: one.start(), members))
        running = "rabbit@"
        service.until(
            lambda: members[2].said("cluster_status").count(running) >= 2 * len(members),
            "a cluster",
        )
        hosts = ",".join(f"guest:guest@{address}:5671" for address, _ in places)
        yield (
            f"[DEFAULT]\ntransport_url = rabbit://{hosts}/\n"
            "[oslo_messaging_rabbit]\nssl = true\n"
            f"ssl_ca_file = {programs.authority.file}\n"
            "rabbit_quorum_queue = true\nrabbit_transient_quorum_queue = true\n"
        )


@contextlib.contextmanager
def site(
    broker: bool,
) -> Iterator[tuple[partition.Site, list[partition.Machine], str]]:
    """Run an API and a conductor on each of two machines; give also the balancer's URL."""
    with contextlib.ExitStack() as made:
        folder = made.enter_context(service.short_folder())
        folder.chmod(0o755)  # for the user of the database
        here, found = made.enter_context(partition.machines("one", "two"))
        try:
            database = private_servers.PostgreSQL(folder, here)
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        made.callback(database.stop)
        url = database.url(database.port).replace(service.HOST, here)
        programs = partition.Site(folder, found, url)
        made.callback(programs.clear)
        if broker:
            programs.settings = made.enter_context(brokers(programs, here))
        upgrade = programs.start("ironic-lite-dbsync", "conductor.conf", found[0], "upgrade")
        assert upgrade.process.wait(service.PATIENCE) == 0
        for one in found:
            programs.start("ironic-lite-conductor", "conductor.conf", one)
            programs.start("ironic-lite-api", "api.conf", one)
        for one in found:
            conductor = programs.programs[f"{one.name}-ironic-lite-conductor"]
            service.until(functools.partial(conductor.pids, CONDUCTOR_UP), conductor.log.name)
        apis = [f"{one.address}:6385" for one in found]
        port = made.enter_context(balancer.run(folder, apis, programs.authority.file))
        yield programs, found, f"https://{service.HOST}:{port}"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_machine_that_is_cut_off_costs_clients_little(transport: str) -> None:
    with site(transport == "rabbit") as (_, found, url):
        client = Client(url)
        service.until(lambda: client.ask("GET", "/readyz").ok, "an API")
        service.until(lambda: alive(client) == 2, "both conductors")
        nodes = [create(client, number) for number in range(NODES)]
        owners = {client.ask("GET", f"/v1/nodes/{one}").json()["conductor"] for one in nodes}
        assert owners == {one.address for one in found}
        client.drive(BEFORE, nodes)
        client.cut(found[0].cut)
        client.drive(SECONDS, nodes)
        found[0].join()
        client.drive(AFTER, nodes)
        client.idle()
        client.close()
        failed = client.failed()
        slow = max(one.seconds for one in client.answers)
        print(f"{len(client.answers)} verbs, {len(failed)} failed, the slowest took {slow:.1f} s")
        print(*failed, sep="\n")
        assert [one for one in failed if not one.ours] == []
        assert all(one.status == 503 and one.retry_after for one in failed)
        assert len(failed) <= MOST_FAILED[transport]


def alive(client: Client) -> int:
    """Return the number of living conductors."""
    answer = client.ask("GET", "/v1/conductors")
    return sum(one["alive"] for one in answer.json()["conductors"]) if answer.ok else 0


def create(client: Client, number: int) -> str:
    """Create a node; return its UUID."""
    body = {"driver": "fake-hardware", "name": f"node-{number}"}
    answer = client.ask("POST", "/v1/nodes", body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["uuid"])
