"""Complete service for a benchmark: real processes, SQLite and ``local://`` in its own folder.

The API and the bare application are served by granian with the same settings. Their CPU time is
counted by the kernel, so a busy machine delays a benchmark but hardly changes its figures.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson
import psutil

from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import migrate
from ironic_lite.domain import fields
from tests.support.service import ON_THIS_MACHINE

HOST = "127.0.0.1"
PATIENCE = 60.0
"""Seconds a service may take to start, to finish what it was asked, or to stop."""
FOLDER = "IRONIC_LITE_BENCH_FOLDER"
"""Environment variable that tells `bare` where the database is."""

_INTERFACES = {f"{kind}_interface": "fake" for kind in fields.INTERFACE_KINDS}


# -- the database ----------------------------------------------------------------------------


def database(folder: pathlib.Path) -> Database:
    """Open the database of a folder."""
    return session.open_database(f"sqlite:///{folder}/ironic-lite.sqlite")


def node(number: int) -> dict[str, Any]:
    """Return the columns of a node as operators have them: named, addressed, described."""
    now = clock.now()
    return {
        **_INTERFACES,
        "network_interface": "noop",
        "storage_interface": "noop",
        "uuid": str(uuid.uuid4()),
        "name": f"node-{number}",
        "driver": "fake-hardware",
        "driver_info": {"address": f"192.0.2.{number % 250}", "username": "a", "password": "b"},
        "driver_internal_info": {"clean_steps": None, "agent_url": "https://192.0.2.1:9999"},
        "properties": {"cpus": 8, "memory_mb": 65536, "local_gb": 480, "cpu_arch": "x86_64"},
        "extra": {"rack": f"r{number % 40}"},
        "instance_info": {},
        "provision_state": "manageable",
        "provision_updated_at": now,
        "power_state": "power on",
        "resource_class": "baremetal",
        "created_at": now,
        "updated_at": now,
    }


def fill(opened: Database, count: int) -> list[str]:
    """Migrate a database and add nodes, a third of them with two traits; return their UUIDs."""
    migrate.upgrade(opened)
    rows = [node(number) for number in range(count)]

    def write(conn: Connection) -> None:
        for row in rows:
            nodes.insert(conn, row)
        some = [row["uuid"] for row in rows[::3]]
        pairs = [(one, trait) for one in some for trait in ("CUSTOM_GOLD", "HW_CPU_X86_VMX")]
        driver: Any = conn.connection.dbapi_connection
        driver.executemany("INSERT INTO node_traits (node_uuid, trait) VALUES (?, ?)", pairs)

    opened.write(write)
    return [row["uuid"] for row in rows]


# -- processes -------------------------------------------------------------------------------


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
        self._parent = psutil.Process(pid)

    def family(self) -> list[psutil.Process]:
        """Return all the processes."""
        return [self._parent, *self._parent.children(recursive=True)]

    def cpu(self) -> float:
        """Return the CPU seconds that all the processes have used."""
        return cpu(self.family())


@contextlib.contextmanager
def service(
    folder: pathlib.Path,
    more: str = "",
    source: pathlib.Path | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[Service]:
    """Run ``ironic-lite``, which is API and conductor, on the database of a folder.

    :param more: lines of [api].
    :param source: another checkout of the project to run it from.
    :param environment: further environment variables.
    """
    port = free_port()
    settings = folder / "bench.conf"
    settings.write_text(
        f"[DEFAULT]\nstate_path = {folder}\nhost = bench\nenabled_hardware_types = fake-hardware\n"
        f"[api]\nport = {port}\n{more}[conductor]\nsync_power_state_interval = 0\n"
        f"max_concurrent_clean = 10000\n{ON_THIS_MACHINE}"
    )
    command = (sys.executable, "-m", "ironic_lite.cmd.all", "--config-file", settings)
    with _running(command, folder, environment, source=source) as process:
        _wait_for(port, "/v1/nodes?limit=1", process)
        wait_until(lambda: orjson.loads(_conductors(port))["conductors"], "a conductor")
        yield Service(folder, port, process.pid)


@contextlib.contextmanager
def api(
    folder: pathlib.Path, name: str, connection: str, counter: pathlib.Path | None = None
) -> Iterator[Service]:
    """Run ``ironic-lite-api`` alone, with one worker, on a database.

    :param name: of its configuration file.
    :param counter: a file of `counted`, in which the API counts its statements.
    """
    port = free_port()
    settings = folder / f"{name}.conf"
    settings.write_text(
        f"[DEFAULT]\nstate_path = {folder}\nhost = bench\n[database]\nconnection = {connection}\n"
        f"[api]\nport = {port}\nworkers = 1\n"
    )
    program = ("benchmarks.counting_api", counter) if counter else ("ironic_lite.cmd.api",)
    command = (sys.executable, "-m", *program, "--config-file", settings)
    with _running(command, folder) as process:
        _wait_for(port, "/v1/nodes?limit=1", process)
        yield Service(folder, port, process.pid)


@contextlib.contextmanager
def bare(folder: pathlib.Path) -> Iterator[Service]:
    """Run the bare application on the database of a folder."""
    port = free_port()
    command = _granian("benchmarks.bare:application", port)
    with _running(command, folder, {FOLDER: str(folder)}) as process:
        _wait_for(port, "/", process)
        yield Service(folder, port, process.pid)


def _granian(application: str, port: int) -> tuple[str, ...]:
    """Return the command that serves an application as ``ironic_lite.api.server`` serves ours."""
    server = (sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws")
    threads = ("--blocking-threads", "64", "--runtime-mode", "mt", "--log-level", "warning")
    return (*server, *threads, "--host", HOST, "--port", str(port), application)


@contextlib.contextmanager
def _running(
    command: Sequence[str | pathlib.Path],
    folder: pathlib.Path,
    more: dict[str, str] | None = None,
    source: pathlib.Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **(more or {})}, stdout=log, stderr=log, cwd=source
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until(what: Callable[[], Any], about: str) -> Any:
    """Return the first true value of ``what()``.

    :raises RuntimeError: it never comes.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if found := what():
                return found
        time.sleep(0.02)
    raise RuntimeError(f"{about}: not within {PATIENCE} s")


def _wait_for(port: int, path: str, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        with Client(port) as client:
            client.send(get(path))
            return client.receive()[0] == 200

    wait_until(answers, "an answer")


def _conductors(port: int) -> bytes:
    with Client(port) as client:
        client.send(get("/v1/conductors"))
        return client.receive()[1]


def free_port() -> int:
    """Return a free port."""
    with socket.create_server((HOST, 0)) as taken:
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def folder() -> Iterator[pathlib.Path]:
    """A folder with a short name: the path of a unix socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="bench-") as path:
        yield pathlib.Path(path)


# -- the client ------------------------------------------------------------------------------


def get(path: str) -> bytes:
    """Return a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def put(path: str, body: Any) -> bytes:
    """Return a PUT request with a JSON body."""
    sent = orjson.dumps(body)
    head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent


def post(path: str, body: Any, *, version: str) -> bytes:
    """Return a POST request with a JSON body, of an API version."""
    sent = orjson.dumps(body)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"X-OpenStack-Ironic-API-Version: {version}\r\n"
    return f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent


class Client:
    """One kept connection, and no more of HTTP than answers of known length."""

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

    def receive(self) -> tuple[int, bytes]:
        """Return status and body of the answer."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        lengths = [line for line in lines if line.startswith(b"content-length:")]
        wanted = int(lengths[0].partition(b":")[2]) if lengths else 0
        parts, have = [body], len(body)
        while have < wanted:
            parts.append(self._more())
            have += len(parts[-1])
        return int(lines[0].split()[1]), b"".join(parts)

    def _more(self) -> bytes:
        got = self._socket.recv(1 << 18)
        if not got:
            raise ConnectionError("the server has closed the connection")
        return got


def load(service: Service, requests: Sequence[bytes], *, connections: int = 4) -> float:
    """Send requests over several kept connections; return the CPU milliseconds of each.

    :raises RuntimeError: an answer was not 200.
    """
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(Client(service.port)) for _ in range(connections)]
        begin = service.cpu()
        for start in range(0, len(requests), connections):
            busy = list(zip(clients, requests[start : start + connections], strict=False))
            for client, request in busy:
                client.send(request)
            for client, _ in busy:
                status, body = client.receive()
                if status != 200:
                    raise RuntimeError(f"status {status}: {body[:500]!r}")
        return (service.cpu() - begin) / len(requests) * 1000
