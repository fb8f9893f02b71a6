"""Rate, CPU and memory of the HTTP server, and the effect of slow clients on others.

``python -m benchmarks.http_server CHECKOUT`` also runs another checkout of the project, in turns,
and prints the figures of both.
"""

from __future__ import annotations

import contextlib
import pathlib
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks import harness
from benchmarks.figures import Figure, report

NODES = 200
REQUESTS = 2000
POSTS = 500
ROUNDS = 5
CONNECTIONS = 8
SLOW = 300
"""Clients that have sent a part of a body, and no more."""
_MIB = 1024
_HEAD = b"POST /v1/heartbeat/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n{"


class Side:
    """One checkout, serving, and what was measured of it."""

    def __init__(self, name: str, service: harness.Service) -> None:
        self.name = name
        self.service = service
        self.found: dict[tuple[str, str, float | None], list[float]] = {}
        [self._api] = [
            one for one in service.family() if one.net_connections("tcp") and _listens(one, service)
        ][-1:]

    def add(self, name: str, unit: str, value: float, budget: float | None = None) -> None:
        """Note a figure of this round."""
        self.found.setdefault((name, unit, budget), []).append(value)

    def memory(self) -> float:
        """Return the MiB that the serving process has for itself, and its share of the rest."""
        return float(self._api.memory_full_info().pss) / (_MIB * _MIB)

    def figures(self) -> Iterator[Figure]:
        """Return the median of each figure."""
        for (name, unit, budget), values in self.found.items():
            yield Figure(f"{self.name}: {name}", statistics.median(values), unit, budget)


def _listens(process: object, service: harness.Service) -> bool:
    there = process.net_connections("tcp")  # type: ignore[attr-defined]
    return any(one.laddr.port == service.port for one in there)


def _rate(side: Side, name: str, requests: list[bytes], budget: float | None = None) -> None:
    begin = time.perf_counter()
    cost = harness.load(side.service, requests, connections=CONNECTIONS)
    side.add(f"{name}, CPU", "ms", cost, budget)
    side.add(f"{name}, rate", "1/s", len(requests) / (time.perf_counter() - begin))


def _lag(side: Side, request: bytes, *, count: int = 30) -> float:
    """Return the seconds that the slowest of some GETs takes, each over a new connection."""
    slowest = 0.0
    for _ in range(count):
        begin = time.perf_counter()
        with harness.Client(side.service.port) as client:
            client.send(request)
            client.receive()
        slowest = max(slowest, time.perf_counter() - begin)
    return slowest


def _slow(side: Side, request: bytes) -> None:
    before = side.memory()
    with contextlib.ExitStack() as opened:
        for _ in range(SLOW):
            address = (harness.HOST, side.service.port)
            line = opened.enter_context(socket.create_connection(address, harness.PATIENCE))
            line.sendall(_HEAD)
        time.sleep(1)
        side.add(f"slowest GET beside {SLOW} slow bodies", "s", _lag(side, request), 2)
        side.add(f"threads beside {SLOW} slow bodies", "", side._api.num_threads())
        side.add(f"memory of {SLOW} slow bodies", "MiB", side.memory() - before, 40)


def _fill(folder: pathlib.Path, source: str | None) -> list[str]:
    """Fill a database by the migrations of a checkout; return the UUIDs of its nodes."""
    code = (
        "import contextlib, pathlib, sys; from benchmarks import harness\n"
        "with contextlib.closing(harness.database(pathlib.Path(sys.argv[1]))) as database:\n"
        "    print(*harness.fill(database, int(sys.argv[2])))"
    )
    command = (sys.executable, "-c", code, str(folder), str(NODES))
    found = subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    return found.stdout.split()


def main(sources: list[str]) -> int:
    """Measure and print; return the exit status."""
    with contextlib.ExitStack() as opened:
        folders = [opened.enter_context(harness.folder()) for _ in [None, *sources]]
        sides, asked = [], {}
        for folder, source in zip(folders, [None, *sources], strict=True):
            uuids = _fill(folder, source)
            path = pathlib.Path(source) if source else None
            name = path.name if path else "this"
            side = Side(name, opened.enter_context(harness.service(folder, source=path)))
            sides.append(side)
            asked[name] = [harness.get(f"/v1/nodes/{uuids[i % NODES]}") for i in range(REQUESTS)]
            side.add("memory, idle", "MiB", side.memory())
            harness.load(side.service, asked[name])
        for _ in range(ROUNDS):
            for side in sides:
                _rate(side, "GET a node", asked[side.name], 0.6)
                _rate(side, "GET /livez", [harness.get("/livez")] * REQUESTS)
        for side in sides:
            side.add("memory after the requests", "MiB", side.memory())
            _slow(side, asked[side.name][0])
    every: Callable[[Side], Iterator[Figure]] = Side.figures
    return report(sorted((one for side in sides for one in every(side)), key=_subject))


def _subject(figure: Figure) -> str:
    return figure.name.partition(": ")[2]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
