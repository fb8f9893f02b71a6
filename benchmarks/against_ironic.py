"""CPU of this service and of OpenStack Ironic for the same requests, in one run.

``python -m benchmarks.against_ironic VENV``: VENV is a virtual environment with Ironic, as ``make
bench-ironic`` creates one; without it, only this service is measured. Both services have the same
configuration, fake hardware and nodes. They take turns workload by workload, so other load slows
both down. The CPU is that of all their processes, without the CPU that they use at rest.

``--scaled`` gives both an API and a conductor of their own, hosts of this machine's RabbitMQ
and databases of its MariaDB or, for this service, PostgreSQL; it needs ``make services``. This
service uses direct:// instead of RabbitMQ with ``--rpc direct``.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psutil
import sqlalchemy as sa

from benchmarks import harness
from benchmarks.figures import size
from tests.support import database_servers, direct_rpc, rabbit
from tests.support.ports import free_port
from tests.support.service import short_folder

Json = dict[str, Any]

NODES = size(60, smoke=2)
ROUNDS = size(3, smoke=1)
REST = size(5.0, smoke=0.5)
"""Seconds in which the CPU at rest is measured."""
VERSION = "1.95"
_MANY = size(100, smoke=4)
"""Requests of a round, for workloads that may read a node more than once."""
_PAGE = 100
_KINDS = ("console", "inspect", "raid", "bios", "firmware", "vendor", "rescue")
_SETTINGS = """
[DEFAULT]
state_path = {folder}
host = {host}
auth_strategy = noauth
{rpc}
enabled_hardware_types = fake-hardware
{interfaces}
enabled_deploy_interfaces = fake,direct
enabled_boot_interfaces = fake
enabled_management_interfaces = fake
enabled_power_interfaces = fake
enabled_storage_interfaces = noop
enabled_network_interfaces = noop
[api]
host_ip = 127.0.0.1
port = {port}
{workers}
restrict_lookup = false
[database]
connection = {database}
[conductor]
sync_power_state_interval = 0
automated_clean = true
max_concurrent_clean = 1000
max_concurrent_deploy = 1000
[agent]
require_tls = false
[deploy]
erase_devices_priority = 0
erase_devices_metadata_priority = 0
[oslo_messaging_notifications]
driver = noop
"""
_REFERENCE = """
[DEFAULT]
log_file = {folder}/service.log
use_stderr = false
tempdir = {folder}
"""


@dataclasses.dataclass(frozen=True)
class Place:
    """URLs of RPC and database; empty: one process with SQLite."""

    rpc: str = ""
    database: str = ""


class Contender:
    """One of the two services, with its nodes."""

    def __init__(
        self, name: str, folder: pathlib.Path, scripts: pathlib.Path, place: Place
    ) -> None:
        self.name = name
        self.nodes: list[str] = []
        self.tokens: dict[str, str] = {}
        self.at_rest = 0.0
        self._folder = folder
        self._port = free_port()
        self._scripts = scripts
        self._processes: list[psutil.Process] = []
        self._stack = contextlib.ExitStack()
        self._place = place
        url = place.database or f"sqlite:///{folder}/service.sqlite"
        self._database = sa.create_engine(url.replace("mariadb://", "mysql+pymysql://"))
        self._url = url

    # -- its processes ---------------------------------------------------------------------------

    def start(self, reference: bool) -> None:
        """Create the database, start the processes, and wait for a conductor.

        :param reference: this is Ironic.
        """
        self.launch(self.prepare(reference))
        harness.wait_until(self._has_conductor, f"a conductor of {self.name}")
        time.sleep(2)
        begin = self.cpu()
        time.sleep(REST)
        self.at_rest = (self.cpu() - begin) / REST

    def prepare(self, reference: bool) -> list[list[str]]:
        """Write the configuration, create the database, and return the commands to start.

        ``ironic-lite`` with SQLite creates its database itself.

        :param reference: this is Ironic.
        """
        prefix = "ironic" if reference else "ironic-lite"
        settings = self._folder / "service.conf"
        interfaces = "\n".join(f"enabled_{kind}_interfaces = fake,no-{kind}" for kind in _KINDS)
        alone = "rpc_transport = none" if reference else ""
        rpc = f"transport_url = {self._place.rpc}" if self._place.rpc else alone
        text, host = _SETTINGS + (_REFERENCE if reference else ""), self.name
        if self._place.rpc == direct_rpc.URL:
            text += direct_rpc.settings(direct_rpc.options(self._folder))
            host = direct_rpc.HOSTS[0]
        settings.write_text(
            text.format(
                folder=self._folder,
                host=host,
                interfaces=interfaces,
                port=self._port,
                rpc=rpc,
                workers=f"{'api_' if reference else ''}workers = 1",
                database=self._driver_url(reference),
            )
        )
        config = ("--config-file", str(settings))
        with (self._folder / "out.log").open("ab") as log:
            if reference or self._place.database:
                act = "create_schema" if reference else "upgrade"
                create = [str(self._scripts / f"{prefix}-dbsync"), *config, act]
                subprocess.run(create, check=True, stdout=log, stderr=log)
        programs = ("-api", "-conductor") if self._place.rpc else ("",)
        return [[str(self._scripts / f"{prefix}{program}"), *config] for program in programs]

    def launch(self, commands: Sequence[Sequence[str]]) -> None:
        """Start the processes."""
        with (self._folder / "out.log").open("ab") as log:
            for command in commands:
                process = subprocess.Popen(command, stdout=log, stderr=log)
                self._stack.callback(harness.stop, process)
                self._processes.append(psutil.Process(process.pid))

    def _driver_url(self, reference: bool) -> str:
        return self._url.replace("mariadb://", "mysql+pymysql://") if reference else self._url

    def _has_conductor(self) -> bool:
        with harness.Client(self._port) as client:
            status, body = self._exchange(client, "GET", "/v1/drivers", None)
        return status == 200 and bool(json.loads(body)["drivers"])

    def end_processes(self) -> None:
        """End the processes; `launch` starts new ones."""
        self._stack.close()
        self._processes.clear()

    def stop(self) -> None:
        """End the processes and close the database."""
        self.end_processes()
        self._database.dispose()

    def cpu(self) -> float:
        """Return the CPU seconds of all processes."""
        return sum(harness.cpu(harness.family(parent.pid)) for parent in self._processes)

    # -- requests --------------------------------------------------------------------------------

    def accepted(self, method: str, path: str, body: Any = None) -> bool:
        """Return whether the service answers, and accepts a request."""
        with harness.Client(self._port) as client:
            return self._exchange(client, method, path, body)[0] < 400

    def _exchange(
        self, client: harness.Client, method: str, path: str, body: Any
    ) -> tuple[int, bytes]:
        client.send(harness.request(method, path, body, version=VERSION))
        return client.receive()

    def send(self, requests: Sequence[tuple[str, str, Any]]) -> list[Any]:
        """Send requests one after another over one kept connection; return the bodies.

        :raises RuntimeError: one was refused.
        """
        found = []
        with harness.Client(self._port) as client:
            for method, path, body in requests:
                status, answer = self._exchange(client, method, path, body)
                if status >= 400:
                    raise RuntimeError(f"{self.name}: {method} {path}: {status} {answer[:500]!r}")
                found.append(json.loads(answer) if answer else None)
        return found

    def settled(self, state: str) -> None:
        """Wait until no node is locked, and all have a provision state."""
        query = sa.text(
            "SELECT count(*) FROM nodes WHERE reservation IS NOT NULL OR provision_state != :state"
        )

        def done() -> bool:
            with self._database.connect() as conn:
                return not conn.execute(query, {"state": state}).scalar_one()

        harness.wait_until(done, f"all nodes of {self.name} {state}")


# -- what is measured ----------------------------------------------------------------------------

Work = Callable[[Contender], int]
"""Does a workload; returns the number of its operations."""


def _enroll(one: Contender) -> int:
    kinds = {f"{kind}_interface": "fake" for kind in ("raid", "bios")}
    bodies = [
        {
            "uuid": str(uuid.uuid4()),
            "name": f"r{number}",
            "driver": "fake-hardware",
            "deploy_interface": "fake",
            "resource_class": "baremetal",
            "properties": {"cpus": 8, "memory_mb": 65536, "local_gb": 480, "cpu_arch": "x86_64"},
            "extra": {"rack": f"r{number % 40}"},
            **kinds,
        }
        for number in range(NODES)
    ]
    one.send([("POST", "/v1/nodes", body) for body in bodies])
    one.nodes = [str(body["uuid"]) for body in bodies]
    return NODES


def _each(one: Contender, count: int) -> list[str]:
    return [one.nodes[number % NODES] for number in range(count)]


def _get(one: Contender) -> int:
    one.send([("GET", f"/v1/nodes/{node}", None) for node in _each(one, 3 * _MANY)])
    return 3 * _MANY


def _page(one: Contender) -> int:
    one.send([("GET", f"/v1/nodes?limit={_PAGE}", None)] * _MANY)
    return _MANY


def _detail(one: Contender) -> int:
    one.send([("GET", f"/v1/nodes/detail?limit={_PAGE}", None)] * (_MANY // 4))
    return _MANY // 4


def _patch(one: Contender) -> int:
    stamp = str(time.monotonic())
    patch = [{"op": "add", "path": "/extra/stamp", "value": stamp}]
    one.send([("PATCH", f"/v1/nodes/{node}", patch) for node in one.nodes])
    return NODES


def _verb(target: str, state: str, **more: Any) -> Work:
    def work(one: Contender) -> int:
        body = {"target": target, **more}
        one.send([("PUT", f"/v1/nodes/{node}/states/provision", body) for node in one.nodes])
        one.settled(state)
        return NODES

    return work


def _steps(count: int) -> list[Json]:
    return [{"interface": "bios", "step": "factory_reset"}] * count


def _lookup(one: Contender) -> int:
    answers = one.send([("GET", f"/v1/lookup?node_uuid={node}", None) for node in one.nodes])
    for node, answer in zip(one.nodes, answers, strict=True):
        token = answer["config"].get("agent_token")
        if token and not token.startswith("*"):
            one.tokens[node] = token
    return NODES


def _heartbeat(one: Contender) -> int:
    requests = [
        (
            "POST",
            f"/v1/heartbeat/{node}",
            {
                "callback_url": "http://192.0.2.1:9999",
                "agent_token": one.tokens[node],
                "agent_version": "13.0.0",
            },
        )
        for node in one.nodes
    ]
    one.send(requests * 2)
    one.settled("manageable")
    return 2 * NODES


def _interface(name: str) -> Work:
    def work(one: Contender) -> int:
        patch = [{"op": "add", "path": "/deploy_interface", "value": name}]
        one.send([("PATCH", f"/v1/nodes/{node}", patch) for node in one.nodes])
        return NODES

    return work


def _destroy(one: Contender) -> int:
    one.send([("DELETE", f"/v1/nodes/{node}", None) for node in one.nodes])
    return NODES


LIFE: Mapping[str, Work] = {
    "enroll: POST of a node": _enroll,
    "GET of a node": _get,
    f"list of {NODES} nodes": _page,
    f"detailed list of {NODES} nodes": _detail,
    "PATCH of a node": _patch,
    "manage": _verb("manage", "manageable"),
    "clean with one step": _verb("clean", "manageable", clean_steps=_steps(1)),
    "clean with ten steps": _verb("clean", "manageable", clean_steps=_steps(10)),
    "(agents may come)": _interface("direct"),
    "lookup": _lookup,
    "heartbeat of a node at rest": _heartbeat,
    "(agents may go)": _interface("fake"),
    "provide, with automated clean": _verb("provide", "available"),
    "deploy: active": _verb("active", "active"),
    "undeploy: deleted, with automated clean": _verb("deleted", "available"),
    "DELETE of a node": _destroy,
}
"""Workloads in the order of a node's life; those in parentheses are not reported."""
AIM = 20.0
"""Least ratio of Ironic's CPU to ours, for each workload."""


def _measure(one: Contender, work: Work) -> float:
    """Return the CPU milliseconds of one operation, without the use at rest."""
    begin, since = one.cpu(), time.monotonic()
    count = work(one)
    spent = one.cpu() - begin - one.at_rest * (time.monotonic() - since)
    return spent / count * 1000


def compare(contenders: Sequence[Contender], rounds: int) -> dict[str, list[float]]:
    """Return for each workload the CPU milliseconds of each contender, the median of all rounds."""
    found: dict[str, list[list[float]]] = {name: [[] for _ in contenders] for name in LIFE}
    for _ in range(rounds):
        for name, work in LIFE.items():
            for one, each in zip(contenders, found[name], strict=True):
                each.append(_measure(one, work))
    return {
        name: [statistics.median(each) for each in sides]
        for name, sides in found.items()
        if name[0] != "("
    }


@contextlib.contextmanager
def _places(scaled: str, rpc: str) -> Iterator[list[Place]]:
    """Give the places of this service and of Ironic."""
    if not scaled:
        yield [Place(), Place()]
        return
    with contextlib.ExitStack() as stack:
        kinds = (scaled, "mysql")
        brokers = [stack.enter_context(rabbit.own_url()) for _ in kinds]
        if rpc == "direct":
            brokers[0] = direct_rpc.URL
        databases = [
            stack.enter_context(database_servers.own_database(kind, f"against_{number}"))
            for number, kind in enumerate(kinds)
        ]
        yield [Place(*each) for each in zip(brokers, databases, strict=True)]


def main() -> int:
    """Measure and print a table; return 0 if each workload reaches the aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", nargs="?", type=pathlib.Path, help="environment with Ironic")
    parser.add_argument("--scaled", choices=("mysql", "postgresql"), default="")
    parser.add_argument("--rpc", choices=("rabbit", "direct"), default="rabbit")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    services = {"ours": pathlib.Path(sys.executable).parent}
    if args.venv:
        services["ironic"] = args.venv / "bin"
    with contextlib.ExitStack() as stack:
        places = stack.enter_context(_places(args.scaled, args.rpc))
        contenders = []
        for (name, scripts), place in zip(services.items(), places, strict=False):
            folder = stack.enter_context(short_folder())
            one = Contender(name, folder, scripts, place)
            stack.callback(one.stop)
            one.start(reference=name == "ironic")
            contenders.append(one)
        print("at rest:", *(f"{one.name} {one.at_rest:.2%} of a core" for one in contenders))
        found = compare(contenders, args.rounds)
    print(f"{'CPU of one, in ms':<44}{'ours':>9}{'Ironic':>9}{'ratio':>8}")
    for name, (ours, *ironic) in found.items():
        columns = "".join(f"{theirs:>9.1f}{theirs / ours:>8.1f}" for theirs in ironic)
        print(f"{name:<44}{ours:>9.3f}{columns}")
    reached = all(theirs / ours >= AIM for ours, *ironic in found.values() for theirs in ironic)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
