"""Memory and response times of one API with ten thousand clients at once.

First each client sends a heartbeat over its own connection, as agents do after an outage; refused
ones are sent again. Then two hundred clients are in the middle of a body of 4 MiB, and eight
hundred open a connection and send nothing. Meanwhile GETs are sent, each over a new connection, and
each must get a response, which may be 503.
"""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import statistics
import sys
import threading
import time
from collections.abc import Sequence

from benchmarks import harness, heartbeats
from benchmarks.figures import Figure, report, size
from benchmarks.open_loop import LONGEST, REFUSALS
from tests.support.service import short_folder

CLIENTS = size(10_000, smoke=50)
STUCK = size(1000, smoke=20)
LARGE_BODIES = size(200, smoke=10)
"""Clients of `STUCK` in the middle of a body; the others are idle."""
BODY = 4 * 1024 * 1024
"""Bytes of a body."""
_MIB = 1024 * 1024
_PATH = "/v1/nodes?limit=1"
_GET = harness.get(_PATH).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


class Monitor(threading.Thread):
    """Reads a node repeatedly, and records the memory of the service."""

    def __init__(self, service: harness.Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._stopping = threading.Event()
        self.memory = 0
        """The largest value."""
        self.times: list[float] = []
        self.statuses: dict[int, int] = {}

    def run(self) -> None:
        while not self._stopping.wait(0.1):
            self.memory = max(self.memory, self._service.memory())
            begin = time.perf_counter()
            status = _fetch(self._service.port)
            self.times.append(time.perf_counter() - begin)
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def stop(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self.join(LONGEST)


def _fetch(port: int) -> int:
    """Return the status of a GET, 0 without a response."""
    try:
        with socket.create_connection((harness.HOST, port), timeout=LONGEST) as connection:
            connection.sendall(_GET)
            return _status(connection.recv(1 << 16))
    except OSError:
        return 0


def _status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1]) if response else 0


def _connect(port: int) -> socket.socket:
    """Begin to connect, without waiting."""
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex((harness.HOST, port))
    return connection


class Agents:
    """One connection for each heartbeat; a heartbeat is sent again until it is accepted."""

    def __init__(self, port: int, requests: Sequence[bytes]) -> None:
        self._port = port
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self.refused = 0
        self.accepted = 0

    def run(self, seconds: float) -> None:
        """Send all, and receive until each is accepted or the time has passed."""
        end = time.monotonic() + seconds
        queue = [(0.0, request) for request in self._requests]
        while (queue or self._selector.get_map()) and time.monotonic() < end:
            now = time.monotonic()
            due = [request for at, request in queue if at <= now]
            queue = [(at, request) for at, request in queue if at > now]
            for request in due:
                connection = _connect(self._port)
                self._selector.register(connection, selectors.EVENT_WRITE, request)
            for key, _ in self._selector.select(0.2):
                delay = self._continue(key)
                if delay is not None:
                    queue.append((time.monotonic() + delay, key.data))
        for key in list(self._selector.get_map().values()):
            self._close(key)

    def _continue(self, key: selectors.SelectorKey) -> float | None:
        """Send or receive; return the seconds after which the request is to be sent again."""
        connection = key.fileobj
        assert isinstance(connection, socket.socket)
        try:
            if key.events == selectors.EVENT_WRITE:
                connection.sendall(key.data)
                self._selector.modify(connection, selectors.EVENT_READ, key.data)
                return None
            status = _status(connection.recv(1 << 16))
        except OSError:
            status = 0
        self._close(key)
        if status == 202:
            self.accepted += 1
            return None
        if status not in (0, *REFUSALS):
            raise RuntimeError(f"status {status}")
        self.refused += 1
        return 2.0

    def _close(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]  # sockets only


def _stuck_clients(port: int) -> list[socket.socket]:
    """Open connections: some in the middle of a large body, the others idle."""
    connections = []
    head = (
        "PUT /v1/nodes/x/states/provision HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {BODY}\r\n\r\n"
    ).encode()
    for number in range(STUCK):
        connection = _connect(port)
        connections.append(connection)
        if number < LARGE_BODIES:
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):  # the server reads no more
                connection.sendall(head + b'"' * (BODY - 1))
    return connections


def _figures(name: str, monitor: Monitor, before: int) -> list[Figure]:
    return [
        Figure(f"{name}: additional memory", (monitor.memory - before) / _MIB, "MiB", 512),
        Figure("... a GET, p50", statistics.median(monitor.times) * 1000, "ms"),
        Figure("... longest", max(monitor.times) * 1000, "ms"),
        Figure("... GETs with 200", monitor.statuses.get(200, 0)),
        Figure("... with 503", monitor.statuses.get(503, 0)),
        Figure("... without a response", monitor.statuses.get(0, 0), "", 0),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * CLIENTS)), hard))
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        uuids = harness.fill(opened, CLIENTS)
        heartbeats.prepare(opened, uuids, "available")
        requests = [heartbeats.heartbeat(uuid) for uuid in uuids]
        with harness.service(folder) as service:
            return report(_measure(service, requests))


def _measure(service: harness.Service, requests: Sequence[bytes]) -> list[Figure]:
    harness.load(service, [harness.get(_PATH)] * 100)
    before = service.memory()
    agents, first = Agents(service.port, requests), Monitor(service)
    first.start()
    begin = time.perf_counter()
    agents.run(LONGEST)
    seconds = time.perf_counter() - begin
    first.stop()
    between, second = service.memory(), Monitor(service)
    connections = _stuck_clients(service.port)
    second.start()
    time.sleep(size(5, smoke=1))
    second.stop()
    for connection in connections:
        connection.close()
    return [
        *_figures(f"{CLIENTS} heartbeats at once", first, before),
        Figure(f"... not accepted within {LONGEST:g} s", CLIENTS - agents.accepted, "", 0),
        Figure("... all accepted after", seconds, "s"),
        Figure("... refused, and sent again", agents.refused),
        *_figures(
            f"{LARGE_BODIES} large bodies, {STUCK - LARGE_BODIES} idle connections", second, between
        ),
        Figure("memory at the end, all processes", second.memory / _MIB, "MiB"),
    ]


if __name__ == "__main__":
    sys.exit(main())
