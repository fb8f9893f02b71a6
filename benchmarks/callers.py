"""Time until a verb is accepted, and a GET answered, while 200 nodes are at work.

The nodes are cleaned by steps that do nothing, so that the conductor is never idle, or by steps
that wait as for a BMC. Meanwhile a client requests a verb of other nodes, fifty times a second, and
another one reads a node over its own connection. The steps are the load: no other request is sent.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from benchmarks import conductors, harness
from benchmarks import processes as fleets
from benchmarks.figures import Figure, report
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from tests.support import database_servers

AT_WORK = 200
CALLS = 200
STEPS = 120
STARTERS = 10
PAUSE = 0.02
"""Seconds between two requests of one client."""
SECONDS = 0.2
"""Seconds of a step that waits."""
LEAST = 150
"""Nodes at work below which the measurement ends."""
SETTINGS = """\
workers = 1
[conductor]
workers_pool_size = 400
max_concurrent_clean = 1000
"""


class Caller(threading.Thread):
    """Sends one request after another over one connection, and records the milliseconds of each."""

    def __init__(self, port: int, requests: Sequence[bytes], wanted: int) -> None:
        super().__init__(daemon=True)
        self._port, self._requests, self._wanted = port, requests, wanted
        self.ended = threading.Event()
        self.times: list[float] = []
        self.refused = 0

    def run(self) -> None:
        with harness.Client(self._port) as client:
            for request in self._requests:
                if self.ended.wait(PAUSE):
                    break
                begin = time.perf_counter()
                client.send(request)
                status, _ = client.receive()
                if self.ended.is_set():
                    break
                self.times.append((time.perf_counter() - begin) * 1000)
                self.refused += status != self._wanted


def _clean(steps: int) -> dict[str, Any]:
    listed = [{"interface": "management", "step": "reset_bmc"}] * steps
    return {"target": "clean", "clean_steps": listed}


def _verb(uuid: str, body: dict[str, Any]) -> bytes:
    return harness.put(f"/v1/nodes/{uuid}/states/provision", body)


def busy(opened: Database, uuids: Sequence[str]) -> int:
    """Return how many of these nodes are at work."""
    nodes = models.nodes.c
    asked = sa.select(sa.func.count()).where(nodes.provision_state == "cleaning")
    asked = asked.where(nodes.uuid.in_(uuids))
    return int(opened.read(lambda conn: conn.execute(asked).scalar_one()))


def _begin_work(service: harness.Service, uuids: Sequence[str], steps: int) -> None:
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(harness.Client(service.port)) for _ in range(STARTERS)]
        for first in range(0, len(uuids), STARTERS):
            some = list(zip(clients, uuids[first : first + STARTERS], strict=False))
            for client, uuid in some:
                client.send(_verb(uuid, _clean(steps)))
            for client, _ in some:
                status, body = client.receive()
                if status != 202:
                    raise RuntimeError(f"status {status}: {body[:500]!r}")


def measured(
    processes: int, url: str | None, *, at_work: int, seconds: float = 0.0
) -> tuple[Caller, Caller, float]:
    """Return a client of verbs, one of GETs, and the CPU share of all processes.

    :param url: of an empty database; None for SQLite.
    :param at_work: the number of nodes at work.
    :param seconds: that each of their steps waits.
    """
    more = SETTINGS + (f"processes = {processes}\n" if processes > 1 else "")
    more += f"[database]\nconnection = {url}\n" if url else ""
    with harness.folder() as folder, contextlib.ExitStack() as stack:
        found = session.open_database(url) if url else harness.database(folder)
        opened = stack.enter_context(contextlib.closing(found))
        fill: Any = fleets.fill if url else harness.fill
        uuids = fill(opened, AT_WORK + CALLS)
        working, others = uuids[:at_work], uuids[AT_WORK:]
        told = sa.update(models.nodes).values(driver_info={"fake_step_seconds": seconds})
        opened.write(lambda conn: conn.execute(told.where(models.nodes.c.uuid.in_(working))))
        with harness.service(folder, more) as service:
            harness.wait_until(
                lambda: conductors.alive(service.port) == processes, "the conductors"
            )
            _begin_work(service, working, STEPS if not seconds else STEPS // 6)
            reads = [harness.get(f"/v1/nodes/{others[-1]}")] * CALLS * 10
            verbs = Caller(service.port, [_verb(one, _clean(1)) for one in others], 202)
            getter = Caller(service.port, reads, 200)
            begun, cpu = time.monotonic(), service.cpu()
            verbs.start()
            getter.start()
            while verbs.is_alive() and (not at_work or busy(opened, working) >= LEAST):
                verbs.join(0.3)
            spent = (service.cpu() - cpu) / (time.monotonic() - begun)
            for one in (verbs, getter):
                one.ended.set()
            getter.join(harness.PATIENCE)
            verbs.join(harness.PATIENCE)
    return verbs, getter, spent


def _share(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] if times else float("nan")


def _figures(about: str, found: tuple[Caller, Caller, float]) -> list[Figure]:
    verbs, reads, cpu = found
    return [
        Figure(f"{about}: a verb, p50", _share(verbs.times, 0.5), "ms", 20),
        Figure("... p99", _share(verbs.times, 0.99), "ms", 100),
        Figure("... refused", verbs.refused, f"of {len(verbs.times)}", 0),
        Figure("... a GET, p50", _share(reads.times, 0.5), "ms"),
        Figure("... p99", _share(reads.times, 0.99), "ms", 5),
        Figure("... CPU of all processes", cpu * 100, "%"),
    ]


@contextlib.contextmanager
def _database(kind: str) -> Iterator[str | None]:
    if kind == "sqlite":
        yield None
        return
    with database_servers.own_database(kind, "callers") as url:
        yield url


def main() -> int:
    """Measure and print; return the exit status."""
    asked = argparse.ArgumentParser()
    asked.add_argument("processes", nargs="*", type=int, default=[1])
    asked.add_argument("--database", choices=database_servers.KINDS, default="sqlite")
    args = asked.parse_args()
    print(f"load average {os.getloadavg()[0]:.0f}, {os.cpu_count()} cores")
    found: list[Figure] = []
    for count in args.processes:
        about = f"{count} process{'es' if count > 1 else ''}, {AT_WORK} nodes"
        for what, seconds in (("at work", 0.0), (f"in steps of {SECONDS:g} s", SECONDS)):
            with _database(args.database) as url:
                got = measured(count, url, at_work=AT_WORK, seconds=seconds)
            found += _figures(f"{about} {what}", got)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
