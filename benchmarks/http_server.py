"""Rate, CPU and memory of the HTTP server, and the effect of slow clients on others.

``python -m benchmarks.http_server CHECKOUT`` also runs another checkout of the project, in turns,
and prints the figures of both.
"""

from __future__ import annotations

import contextlib
import pathlib
import socket
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import psutil

from benchmarks import harness
from benchmarks.figures import Figure, report, size
from tests.support.service import short_folder

NODES = size(200, smoke=5)
REQUESTS = size(2000, smoke=20)
ROUNDS = size(5, smoke=1)
CONNECTIONS = 8
SLOW = size(300, smoke=10)
"""Clients that have sent a part of a body."""
_MIB = 1024 * 1024
_HEAD = b"POST /v1/heartbeat/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n{"


class Side:
    """The service of one checkout, and its figures."""

    def __init__(self, name: str, service: harness.Service) -> None:
        self.name = name
        self.service = service
        self.values: dict[tuple[str, str, float | None], list[float]] = {}
        self._api = next(one for one in service.family()[::-1] if _listens(one, service.port))
        nodes = [f"/v1/nodes/node-{number}" for number in range(NODES)]
        new = {"driver": "fake-hardware"}
        posts = [
            harness.request("POST", "/v1/nodes", {**new, "name": path.rpartition("/")[2]})
            for path in nodes
        ]
        harness.exchange(service.port, posts, connections=1, expected=201)
        self.gets = [harness.get(nodes[number % NODES]) for number in range(REQUESTS)]

    def add(self, name: str, unit: str, value: float, budget: float | None = None) -> None:
        """Add a figure of this round."""
        self.values.setdefault((name, unit, budget), []).append(value)

    def memory(self) -> float:
        """Return the PSS of the serving process in MiB."""
        return float(self._api.memory_full_info().pss) / _MIB

    def threads(self) -> int:
        """Return the number of threads of the serving process."""
        return int(self._api.num_threads())

    def figures(self) -> Iterator[Figure]:
        """Return the median of each figure."""
        for (name, unit, budget), values in self.values.items():
            yield Figure(f"{self.name}: {name}", statistics.median(values), unit, budget)


def _listens(process: psutil.Process, port: int) -> bool:
    return any(one.laddr.port == port for one in process.net_connections("tcp"))


def _add_rate(
    side: Side, name: str, requests: Sequence[bytes], budget: float | None = None
) -> None:
    begin = time.perf_counter()
    cpu = harness.load(side.service, requests, connections=CONNECTIONS)
    side.add(f"{name}, CPU", "ms", cpu, budget)
    side.add(f"{name}, rate", "1/s", len(requests) / (time.perf_counter() - begin))


def _longest(side: Side, *, count: int = 30) -> float:
    """Return the seconds of the slowest of some GETs, each over a new connection."""
    slowest = 0.0
    for _ in range(count):
        begin = time.perf_counter()
        with harness.Client(side.service.port) as client:
            client.send(side.gets[0])
            client.receive(expected=200)
        slowest = max(slowest, time.perf_counter() - begin)
    return slowest


def _add_slow_clients(side: Side) -> None:
    before = side.memory()
    with contextlib.ExitStack() as opened:
        for _ in range(SLOW):
            address = (harness.HOST, side.service.port)
            connection = socket.create_connection(address, harness.PATIENCE)
            opened.enter_context(connection).sendall(_HEAD)
        time.sleep(1)
        side.add(f"slowest GET beside {SLOW} slow bodies", "s", _longest(side), 2)
        side.add(f"threads beside {SLOW} slow bodies", "", side.threads())
        side.add(f"memory of {SLOW} slow bodies", "MiB", side.memory() - before, 40)


def main(checkouts: Sequence[str]) -> int:
    """Measure and print; return the exit status."""
    sources = {"this": None, **{pathlib.Path(one).name: pathlib.Path(one) for one in checkouts}}
    with contextlib.ExitStack() as stack:
        sides = []
        for name, source in sources.items():
            folder = stack.enter_context(short_folder())
            side = Side(name, stack.enter_context(harness.service(folder, source=source)))
            sides.append(side)
            side.add("memory, idle", "MiB", side.memory())
            harness.load(side.service, side.gets)
        for _ in range(ROUNDS):
            for side in sides:
                _add_rate(side, "GET a node", side.gets, 0.6)
                _add_rate(side, "GET /livez", [harness.get("/livez")] * REQUESTS)
        for side in sides:
            side.add("memory after the requests", "MiB", side.memory())
            _add_slow_clients(side)
    return report(sorted((each for side in sides for each in side.figures()), key=_subject))


def _subject(figure: Figure) -> str:
    return figure.name.partition(": ")[2]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
