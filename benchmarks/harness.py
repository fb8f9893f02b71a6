"""The service for a benchmark: real processes, SQLite and ``local://`` in a folder, and a client.

The API and the bare application are served by granian with the same settings. The kernel counts
their CPU time, so a busy machine delays a benchmark but hardly changes its figures.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import psutil
import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import migrate, models
from tests.support import population
from tests.support.ports import free_port
from tests.support.service import ON_THIS_MACHINE

HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds a service may take to start, to finish its work, or to stop."""
FOLDER = "IRONIC_LITE_BENCH_FOLDER"
"""Environment variable with the folder of the database, for `bare`."""
SETTINGS = """\
[DEFAULT]
state_path = {folder}
host = bench
enabled_hardware_types = fake-hardware
[api]
port = {port}
[conductor]
sync_power_state_interval = 0
max_concurrent_clean = 10000
"""


# -- the database ----------------------------------------------------------------------------


def database(folder: pathlib.Path) -> Database:
    """Open the database of a folder."""
    return session.open_database(f"sqlite:///{folder}/ironic-lite.sqlite")


def node(number: int) -> dict[str, Any]:
    """Return the columns of a node as operators have them: named, addressed, described."""
    now = clock.now()
    return {
        **population.machine(number),
        "uuid": str(uuid.uuid4()),
        "provision_state": "manageable",
        "provision_updated_at": now,
        "power_state": "power on",
        "resource_class": "baremetal",
        "created_at": now,
        "updated_at": now,
    }


def insert(opened: Database, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert nodes in one transaction."""

    def write(conn: Connection) -> None:
        for row in rows:
            nodes.insert(conn, dict(row))

    opened.write(write)


def fill(opened: Database, count: int) -> list[str]:
    """Migrate a database and add nodes, a third of them with two traits; return their UUIDs."""
    migrate.upgrade(opened)
    rows = [node(number) for number in range(count)]
    insert(opened, rows)
    uuids = [str(row["uuid"]) for row in rows]
    traits = [
        {"node_uuid": one, "trait": trait}
        for one in uuids[::3]
        for trait in ("CUSTOM_GOLD", "HW_CPU_X86_VMX")
    ]
    opened.write(lambda conn: conn.execute(sa.insert(models.traits), traits))
    return uuids


def unfinished(opened: Database) -> int:
    """Return how many nodes are locked or not manageable."""
    node = models.nodes.c
    condition = sa.or_(node.reservation.is_not(None), node.provision_state != "manageable")
    query = sa.select(sa.func.count()).where(condition)
    return int(opened.read(lambda conn: conn.execute(query).scalar_one()))


# -- processes -------------------------------------------------------------------------------


def family(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def cpu(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU seconds, user and system, of the processes that still run.

    The kernel's CPU clock of a process has nanoseconds and includes the threads that have ended;
    ``/proc/PID/stat`` has steps of 10 ms. The clock's number is that of clock_getcpuclockid(3).
    """
    total = 0.0
    for process in processes:
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~process.pid << 3) | 2)
    return total


class Service:
    """A process and its children that serve one port."""

    def __init__(self, folder: pathlib.Path, port: int, pid: int) -> None:
        self.folder = folder
        self.port = port
        self._pid = pid

    def family(self) -> list[psutil.Process]:
        """Return all the processes."""
        return family(self._pid)

    def cpu(self) -> float:
        """Return the CPU seconds that all the processes have used."""
        return cpu(self.family())

    def memory(self) -> int:
        """Return the resident bytes of all the processes; shared pages count in each of them."""
        return sum(int(one.memory_info().rss) for one in self.family())


def configure(
    folder: pathlib.Path, port: int, options: str = "", *, name: str = "bench"
) -> pathlib.Path:
    """Write a configuration file; BMCs and agents may be on this machine.

    :param options: further sections, which override `SETTINGS`.
    """
    path = folder / f"{name}.conf"
    path.write_text(SETTINGS.format(folder=folder, port=port) + ON_THIS_MACHINE + options)
    return path


@contextlib.contextmanager
def service(
    folder: pathlib.Path,
    options: str = "",
    *,
    source: pathlib.Path | None = None,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Iterator[Service]:
    """Run ``ironic-lite``, which is API and conductor, on the database of a folder.

    :param options: further sections of the configuration.
    :param port: of the API, None for a free one.
    :param source: another checkout of the project to run it from.
    :param environment: further environment variables.
    """
    port = port or free_port()
    command = ("ironic_lite.cmd.all", "--config-file", str(configure(folder, port, options)))
    with program(folder, *command, environment=environment, source=source) as process:
        _wait_for_answer(port, "/v1/nodes?limit=1", process)
        wait_until(lambda: alive(port), "a conductor")
        yield Service(folder, port, process.pid)


@contextlib.contextmanager
def api(
    folder: pathlib.Path, connection: str, *, counter: pathlib.Path | None = None
) -> Iterator[Service]:
    """Run ``ironic-lite-api`` alone, with one worker, on a database.

    :param counter: a file of `counting_api`, in which the API counts its statements.
    """
    port = free_port()
    options = f"[database]\nconnection = {connection}\n"
    settings = configure(folder, port, options, name=f"api-{port}")
    module = ("benchmarks.counting_api", str(counter)) if counter else ("ironic_lite.cmd.api",)
    with program(folder, *module, "--config-file", str(settings)) as process:
        _wait_for_answer(port, "/v1/nodes?limit=1", process)
        yield Service(folder, port, process.pid)


@contextlib.contextmanager
def bare(folder: pathlib.Path) -> Iterator[Service]:
    """Run the bare application on the database of a folder, as ``ironic_lite.api.server`` does."""
    port = free_port()
    threads = ("--blocking-threads", "64", "--runtime-mode", "mt", "--log-level", "warning")
    address = ("--host", HOST, "--port", str(port))
    command = ("granian", "--interface", "wsgi", "--no-ws", *threads, *address)
    variables = {FOLDER: str(folder)}
    application = "benchmarks.bare:application"
    with program(folder, *command, application, environment=variables) as process:
        _wait_for_answer(port, "/", process)
        yield Service(folder, port, process.pid)


@contextlib.contextmanager
def program(
    folder: pathlib.Path,
    module: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    source: pathlib.Path | None = None,
) -> Iterator[psutil.Popen]:
    """Run ``python -m MODULE`` with its output in the file ``log`` of a folder; stop it at the end.

    :param source: the folder to run it in.
    """
    with (folder / "log").open("ab") as log:
        process = psutil.Popen(
            (sys.executable, "-m", module, *arguments),
            env={**os.environ, **(environment or {})},
            stdout=log,
            stderr=log,
            cwd=source,
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes] | psutil.Popen) -> None:
    """Terminate a process; kill it if it does not end in time."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
        process.kill()
        process.wait()


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Return the first true value of ``condition()``.

    :raises RuntimeError: it does not become true in time.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if found := condition():
                return found
        time.sleep(0.02)
    raise RuntimeError(f"{what}: not within {PATIENCE} s")


def _wait_for_answer(port: int, path: str, process: psutil.Popen) -> None:
    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        return fetch(port, path)[0] == 200

    wait_until(answers, "an answer")


def alive(port: int) -> int:
    """Return the number of living conductors, as the API reports it."""
    status, body = fetch(port, "/v1/conductors")
    return body.count(b'"alive":true') if status == 200 else 0


# -- the client ------------------------------------------------------------------------------


def request(method: str, path: str, body: Any = None, *, version: str | None = None) -> bytes:
    """Return an HTTP request, with a JSON body if one is given.

    :param version: of the API; None sends no version.
    """
    sent = b"" if body is None else orjson.dumps(body)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if version is not None:
        head += f"X-OpenStack-Ironic-API-Version: {version}\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n"
    return f"{head}\r\n".encode() + sent


def get(path: str) -> bytes:
    """Return a GET request."""
    return request("GET", path)


def clean(node_uuid: str, steps: int) -> bytes:
    """Return the request for a manual clean with steps that do nothing."""
    path = f"/v1/nodes/{node_uuid}/states/provision"
    return request("PUT", path, {"target": "clean", "clean_steps": clean_steps(steps)})


def clean_steps(count: int) -> list[dict[str, str]]:
    """Return clean steps of the fake driver that do nothing."""
    return [{"interface": "management", "step": "reset_bmc"}] * count


class Client:
    """A client with one kept connection; it reads responses of known length."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._socket.sendall(request)

    def receive(self, expected: int | None = None) -> tuple[int, bytes]:
        """Return status and body of the response.

        :raises RuntimeError: the status is not the expected one.
        """
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        lengths = [line for line in lines if line.startswith(b"content-length:")]
        length = int(lengths[0].partition(b":")[2]) if lengths else 0
        parts, have = [body], len(body)
        while have < length:
            parts.append(self._more())
            have += len(parts[-1])
        status, content = int(lines[0].split()[1]), b"".join(parts)
        if expected not in (None, status):
            raise RuntimeError(f"status {status}: {content[:500]!r}")
        return status, content

    def _more(self) -> bytes:
        received = self._socket.recv(1 << 18)
        if not received:
            raise ConnectionError("the server has closed the connection")
        return received


def fetch(port: int, path: str) -> tuple[int, bytes]:
    """Return status and body of a GET over a new connection."""
    with Client(port) as client:
        client.send(get(path))
        return client.receive()


def load(service: Service, requests: Sequence[bytes], *, connections: int = 4) -> float:
    """Send requests over several kept connections; return the CPU milliseconds of each.

    :raises RuntimeError: a response was not 200.
    """
    begin = service.cpu()
    exchange(service.port, requests, connections=connections)
    return (service.cpu() - begin) / len(requests) * 1000


def exchange(
    port: int, requests: Sequence[bytes], *, connections: int, expected: int | None = 200
) -> list[tuple[int, bytes]]:
    """Send requests over kept connections, one at a time on each; return status and body of each.

    :raises RuntimeError: a response has another status than the expected one.
    """
    found = []
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(Client(port)) for _ in range(connections)]
        for start in range(0, len(requests), connections):
            busy = list(zip(clients, requests[start : start + connections], strict=False))
            for client, each in busy:
                client.send(each)
            found += [client.receive(expected) for client, _ in busy]
    return found
