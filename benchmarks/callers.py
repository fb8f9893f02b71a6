"""Time until a verb is accepted, and a GET answered, while 200 nodes are at work.

The nodes are cleaned by steps that do nothing, so that the conductor is never idle, or by steps
that wait as for a BMC. Meanwhile a client requests a verb of other nodes, fifty times a second, and
another one reads a node over its own connection. The steps are the load: no other request is sent.
``python -m benchmarks.callers 1 2 --database postgresql`` measures one conductor process and two.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from benchmarks import harness
from benchmarks.figures import Figure, quantile, report, size
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from tests.support import database_servers
from tests.support.service import short_folder

AT_WORK = size(200, smoke=60)
"""Nodes at work, more than the default limit of concurrent cleans."""
CALLS = size(200, smoke=5)
STEPS = size(120, smoke=12)
STARTERS = 10
PAUSE = 0.02
"""Seconds between two requests of one client."""
SECONDS = size(0.2, smoke=1.0)
"""Seconds of a step that waits."""
LEAST = size(150, smoke=1)
"""Nodes at work below which the measurement ends."""
OPTIONS = """\
[conductor]
workers_pool_size = 400
processes = {processes}
"""


class Caller(threading.Thread):
    """Sends one request after another over one connection, and records the milliseconds of each."""

    def __init__(self, port: int, requests: Sequence[bytes], status: int) -> None:
        super().__init__(daemon=True)
        self._port, self._requests, self._status = port, requests, status
        self.stopping = threading.Event()
        self.times: list[float] = []
        self.refused = 0

    def run(self) -> None:
        with harness.Client(self._port) as client:
            for request in self._requests:
                if self.stopping.wait(PAUSE):
                    break
                begin = time.perf_counter()
                client.send(request)
                status, _ = client.receive()
                if self.stopping.is_set():
                    break
                self.times.append((time.perf_counter() - begin) * 1000)
                self.refused += status != self._status


def cleaning(opened: Database, uuids: Sequence[str]) -> int:
    """Return how many of these nodes are being cleaned."""
    node = models.nodes.c
    query = sa.select(sa.func.count()).where(node.provision_state == "cleaning")
    query = query.where(node.uuid.in_(uuids))
    return int(opened.read(lambda conn: conn.execute(query).scalar_one()))


def measure(processes: int, url: str | None, *, seconds: float) -> tuple[Caller, Caller, float]:
    """Return a client of verbs, one of GETs, and the CPU share of all processes.

    :param url: of an empty database; None for SQLite.
    :param seconds: duration of each step of the nodes at work.
    """
    options = OPTIONS.format(processes=processes)
    options += f"[database]\nconnection = {url}\n" if url else ""
    with short_folder() as folder, contextlib.ExitStack() as stack:
        found = session.open_database(url) if url else harness.database(folder)
        opened = stack.enter_context(contextlib.closing(found))
        uuids = harness.fill(opened, AT_WORK + CALLS)
        working, others = uuids[:AT_WORK], uuids[AT_WORK:]
        slow = sa.update(models.nodes).values(driver_info={"fake_step_seconds": seconds})
        opened.write(lambda conn: conn.execute(slow.where(models.nodes.c.uuid.in_(working))))
        service = stack.enter_context(harness.service(folder, options))
        harness.wait_until(lambda: harness.alive(service.port) == processes, "the conductors")
        steps = STEPS // 6 if seconds else STEPS
        cleans = [harness.clean(uuid, steps) for uuid in working]
        harness.exchange(service.port, cleans, connections=STARTERS, expected=202)
        verbs = Caller(service.port, [harness.clean(uuid, 1) for uuid in others], 202)
        gets = [harness.get(f"/v1/nodes/{others[-1]}")] * CALLS * 10
        reads = Caller(service.port, gets, 200)
        begin, cpu = time.monotonic(), service.cpu()
        verbs.start()
        reads.start()
        while verbs.is_alive() and cleaning(opened, working) >= LEAST:
            verbs.join(0.3)
        share = (service.cpu() - cpu) / (time.monotonic() - begin)
        for each in (verbs, reads):
            each.stopping.set()
            each.join(harness.PATIENCE)
    return verbs, reads, share


def _figures(load: str, verbs: Caller, reads: Caller, cpu: float) -> list[Figure]:
    return [
        Figure(f"{load}: a verb, p50", quantile(verbs.times, 0.5), "ms", 20),
        Figure("... p99", quantile(verbs.times, 0.99), "ms", 100),
        Figure("... refused", verbs.refused, f"of {len(verbs.times)}", 0),
        Figure("... a GET, p50", quantile(reads.times, 0.5), "ms"),
        Figure("... p99", quantile(reads.times, 0.99), "ms", 5),
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processes", nargs="*", type=int, default=[1])
    parser.add_argument("--database", choices=database_servers.KINDS, default="sqlite")
    args = parser.parse_args()
    found: list[Figure] = []
    for count in args.processes:
        nodes = f"{count} process{'es' if count > 1 else ''}, {AT_WORK} nodes"
        for state, seconds in (("at work", 0.0), (f"in steps of {SECONDS:g} s", SECONDS)):
            with _database(args.database) as url:
                measured = measure(count, url, seconds=seconds)
            found += _figures(f"{nodes} {state}", *measured)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
