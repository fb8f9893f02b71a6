"""Rate of cleans with one, two and four conductor processes, on PostgreSQL with RabbitMQ.

Each node is cleaned by three steps that do nothing, requested as fast as the API accepts them. The
CPU of each part for one node gives the limit of the part on a machine of its own, and so the size
of a fleet: see `model`. The CPU of the broker, and the WAL, are those of the whole server, so no
other program may use it. Without PostgreSQL or RabbitMQ, the benchmark prints NOT MEASURED.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import sys
from collections.abc import Iterator

import psutil
import pytest
import sqlalchemy as sa

from benchmarks import conductors, harness
from benchmarks.figures import Figure, not_measured, report, size
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import models
from tests.support import database_servers, rabbit
from tests.support.ports import free_port
from tests.support.service import short_folder

NODES = size(200, smoke=5)
COUNTS = size((1, 2, 4), smoke=(2,))
WARM_UP = size(40, smoke=2)
"""Cleans before the measurement: statements are compiled and cached."""
OPTIONS = """\
[DEFAULT]
transport_url = {broker}
[database]
connection = {database}
[conductor]
processes = {count}
hash_ring_reset_interval = 1
heartbeat_interval = 2
"""
_KIB = 1024.0


@dataclasses.dataclass(frozen=True, slots=True)
class _Totals:
    """CPU of each part, transactions, bytes."""

    api: float
    conductor: float
    database: float
    broker: float
    transactions: float
    sessions: float
    wal: float
    stored: float


@dataclasses.dataclass(frozen=True, slots=True)
class Cost(_Totals):
    """Cost of one node's clean, CPU in milliseconds; and cleans per second."""

    rate: float


class _Backends:
    """The CPU of the processes of PostgreSQL that serve one database, including ended ones."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._seen: dict[int, float] = {}

    def cpu(self) -> float:
        """Return the CPU seconds so far; an ended process counts with its last measured value."""
        for one in psutil.process_iter(["name", "cmdline"]):
            command = " ".join(one.info["cmdline"] or ())
            if one.info["name"] == "postgres" and self._database in command:
                self._seen[one.pid] = harness.cpu([one]) or self._seen.get(one.pid, 0.0)
        return sum(self._seen.values())


def _brokers() -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["name"]) if one.info["name"] == "beam.smp"]


def _server_totals(opened: Database) -> tuple[float, float, float, float]:
    """Return transactions, sessions, bytes of WAL and bytes of this database."""

    def read(conn: Connection) -> tuple[float, float, float, float]:
        conn.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
        row = conn.execute(
            sa.text(
                "SELECT xact_commit, sessions, pg_current_wal_lsn() - '0/0'::pg_lsn, "
                "pg_database_size(datname) FROM pg_stat_database WHERE datname = current_database()"
            )
        ).one()
        return tuple(map(float, row))  # type: ignore[return-value]

    return opened.read(read)


def _registered(opened: Database) -> int:
    """Return how many conductors are registered."""
    query = sa.select(sa.func.count()).select_from(models.conductors)
    return int(opened.read(lambda conn: conn.execute(query).scalar_one()))


@contextlib.contextmanager
def _running(
    folder: pathlib.Path, count: int, url: str, broker: str, opened: Database
) -> Iterator[tuple[harness.Service, psutil.Process, psutil.Process]]:
    port = free_port()
    options = OPTIONS.format(count=count, database=url, broker=broker)
    settings = harness.configure(folder, port, options)
    with contextlib.ExitStack() as stack:
        conductor = stack.enter_context(conductors.program(folder, settings, "conductor"))
        harness.wait_until(lambda: _registered(opened) == count, "the conductors")
        api = stack.enter_context(conductors.program(folder, settings, "api"))
        harness.wait_until(lambda: harness.alive(port) == count, "the API")
        yield harness.Service(folder, port, os.getpid()), api, conductor


def measure(count: int, url: str, broker: str) -> Cost:
    """Return the cost of a clean with so many processes."""
    with short_folder() as folder, contextlib.closing(session.open_database(url)) as opened:
        uuids = harness.fill(opened, NODES)
        with _running(folder, count, url, broker, opened) as (service, api, conductor):
            conductors.clean_rate(service, opened, uuids[:WARM_UP])
            backends = _Backends(str(opened.url.database))

            def totals() -> _Totals:
                return _Totals(
                    harness.cpu(harness.family(api.pid)),
                    harness.cpu(harness.family(conductor.pid)),
                    backends.cpu(),
                    harness.cpu(_brokers()),
                    *_server_totals(opened),
                )

            before = totals()
            rate = conductors.clean_rate(service, opened, uuids)
            after = totals()
    each = {
        one.name: (getattr(after, one.name) - getattr(before, one.name)) / NODES
        for one in dataclasses.fields(_Totals)
    }
    each |= {part: 1000 * each[part] for part in ("api", "conductor", "database", "broker")}
    return Cost(rate=rate, **each)


def model(cost: Cost, *, machines: int, fleet: int) -> list[Figure]:
    """Return the needs of a fleet by the CPU of one node's clean, one core for each process.

    The part with the lowest rate limits the rate of the service.
    """
    per_core = 1000 / cost.conductor
    return [
        Figure("model: nodes/s of one core of a conductor", per_core, "nodes/s"),
        Figure("... of one core of the API", 1000 / cost.api, "nodes/s"),
        Figure("... of one core of the database", 1000 / cost.database, "nodes/s"),
        Figure("... of one core of the broker", 1000 / cost.broker, "nodes/s"),
        Figure(f"... {machines} conductors of 4 cores", 4 * machines * per_core, "nodes/s"),
        Figure(
            "... cores of the database for that", 4 * machines * per_core * cost.database / 1000
        ),
        Figure(
            f"... {fleet} nodes cleaned once", fleet / (4 * machines * per_core) / 60, "minutes"
        ),
        Figure("... their rows", fleet * cost.stored / 1024**3, "GiB"),
    ]


def _figures(count: int, cost: Cost) -> list[Figure]:
    return [
        Figure(
            f"clean of {conductors.STEPS} steps, {count} conductor processes", cost.rate, "nodes/s"
        ),
        Figure("... CPU of the API", cost.api, "ms"),
        Figure("... of the conductor", cost.conductor, "ms"),
        Figure("... of the database, sessions of this service", cost.database, "ms"),
        Figure("... of the broker, with its other clients", cost.broker, "ms"),
        Figure("... transactions", cost.transactions),
        Figure("... new sessions of the database", cost.sessions),
        Figure("... WAL, with other databases", cost.wal / _KIB, "KiB"),
        Figure("... stored rows and indexes", cost.stored / _KIB, "KiB"),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processes", nargs="*", type=int, default=COUNTS)
    found: list[Figure] = []
    costs = []
    for count in parser.parse_args().processes:
        with contextlib.ExitStack() as stack:
            try:
                label = f"processes_{count}"
                url = stack.enter_context(database_servers.own_database("postgresql", label))
                broker = stack.enter_context(rabbit.own_url())
            except pytest.skip.Exception as error:
                return not_measured(error)
            costs.append(measure(count, url, broker))
        found += _figures(count, costs[-1])
    found += model(costs[0], machines=10, fleet=100_000)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
