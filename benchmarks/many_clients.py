"""Memory and responsiveness of one API with ten thousand clients at once.

First each client sends a heartbeat over its own connection, as agents do after an outage; refused
ones are repeated. Then two hundred clients are in the middle of a body of 4 MiB, and eight hundred
open a connection and send nothing. Meanwhile GETs are sent, each over a new connection, and each
must be answered or told to retry.
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
from benchmarks.figures import Figure, report

CLIENTS = 10_000
LARGE = 4 * 1024 * 1024
SENDERS = 200
LONGEST = 120.0
"""Seconds."""
_MIB = 1024 * 1024
_GET = harness.get("/v1/nodes?limit=1").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
_REFUSED = (409, 503)


class Watch(threading.Thread):
    """Reads a node repeatedly, and records the memory of the service."""

    def __init__(self, service: harness.Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._ended = threading.Event()
        self.most = 0
        self.lags: list[float] = []
        self.statuses: dict[int, int] = {}

    def run(self) -> None:
        while not self._ended.wait(0.1):
            self.most = max(self.most, _memory(self._service))
            begin = time.perf_counter()
            status = _ask(self._service.port, _GET)
            self.lags.append(time.perf_counter() - begin)
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        self.join(LONGEST)


def _memory(service: harness.Service) -> int:
    """Return the bytes that the processes of a service hold, those they share counted in each."""
    return sum(int(one.memory_info().rss) for one in service.family())


def _ask(port: int, request: bytes) -> int:
    """Return the status of an answer, 0 for none."""
    try:
        with socket.create_connection((harness.HOST, port), timeout=LONGEST) as line:
            line.sendall(request)
            return _status(line.recv(1 << 16))
    except OSError:
        return 0


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


class Agents:
    """One connection for each heartbeat; who is refused, or finds no way in, comes again."""

    def __init__(self, port: int, requests: Sequence[bytes]) -> None:
        self._port = port
        self._waiting = list(enumerate(requests))
        self._selector = selectors.DefaultSelector()
        self.refused = 0
        self.taken = 0

    def run(self, seconds: float) -> None:
        """Send all, and receive until each was taken or the time is over."""
        end = time.monotonic() + seconds
        later: list[tuple[float, bytes]] = [(0.0, request) for _, request in self._waiting]
        while (later or self._selector.get_map()) and time.monotonic() < end:
            now = time.monotonic()
            due = [each for each in later if each[0] <= now]
            later = [each for each in later if each[0] > now]
            for _, request in due:
                self._send(request)
            for key, _ in self._selector.select(0.2):
                again = self._receive(key)
                if again is not None:
                    later.append((time.monotonic() + again, key.data))
        for key in list(self._selector.get_map().values()):
            self._drop(key)

    def _send(self, request: bytes) -> None:
        line = socket.socket()
        line.setblocking(False)
        line.connect_ex((harness.HOST, self._port))
        self._selector.register(line, selectors.EVENT_WRITE, request)

    def _receive(self, key: selectors.SelectorKey) -> float | None:
        """Go on with a connection; return seconds until its request is to come again."""
        line = key.fileobj
        assert isinstance(line, socket.socket)
        try:
            if key.events == selectors.EVENT_WRITE:
                line.sendall(key.data)
                self._selector.modify(line, selectors.EVENT_READ, key.data)
                return None
            status = _status(line.recv(1 << 16))
        except OSError:
            status = 0
        self._drop(key)
        if status == 202:
            self.taken += 1
            return None
        if status not in (0, *_REFUSED):
            raise RuntimeError(f"status {status}")
        self.refused += 1
        return 2.0

    def _drop(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]  # sockets only


def _stuck(port: int, count: int) -> list[socket.socket]:
    """Open connections: some in the middle of a large body, the others idle."""
    lines = []
    head = (
        "PUT /v1/nodes/x/states/provision HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {LARGE}\r\n\r\n"
    ).encode()
    for number in range(count):
        line = socket.socket()
        line.setblocking(False)
        line.connect_ex((harness.HOST, port))
        lines.append(line)
        if number < SENDERS:
            line.setblocking(True)
            line.settimeout(0.2)
            with contextlib.suppress(OSError):  # until it takes no more
                line.sendall(head + b'"' * (LARGE - 1))
    return lines


def _described(what: str, watch: Watch, before: int) -> list[Figure]:
    return [
        Figure(f"{what}: memory more", (watch.most - before) / _MIB, "MiB", 512),
        Figure("... a GET beside them, p50", statistics.median(watch.lags) * 1000, "ms"),
        Figure("... longest", max(watch.lags) * 1000, "ms"),
        Figure("... answered", watch.statuses.get(200, 0)),
        Figure("... told to come back", watch.statuses.get(503, 0)),
        Figure("... without an answer", watch.statuses.get(0, 0), "", 0),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * CLIENTS)), hard))
    with harness.folder() as folder:
        opened = harness.database(folder)
        uuids = harness.fill(opened, CLIENTS)
        heartbeats.prepare(opened, uuids, "available")
        requests = [heartbeats.beat(uuid) for uuid in uuids]
        with harness.service(folder) as service:
            harness.load(service, [_GET.replace(b"Connection: close\r\n", b"")] * 100)
            before = _memory(service)
            agents, first = Agents(service.port, requests), Watch(service)
            first.start()
            begin = time.perf_counter()
            agents.run(LONGEST)
            taken_in = time.perf_counter() - begin
            first.end()
            between, second = _memory(service), Watch(service)
            lines = _stuck(service.port, CLIENTS // 10)
            second.start()
            time.sleep(5)
            second.end()
            for line in lines:
                line.close()
        opened.close()
    return report(
        [
            *_described("10 000 heartbeats at once", first, before),
            Figure(f"... of them not taken within {LONGEST:g} s", CLIENTS - agents.taken, "", 0),
            Figure("... all taken in", taken_in, "s"),
            Figure("... refused for now, and sent again", agents.refused),
            *_described("200 large bodies and 800 idle connections", second, between),
            Figure("memory in the end, all processes", second.most / _MIB, "MiB"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
