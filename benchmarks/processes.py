"""Rate of cleans with one, two and four conductor processes, on PostgreSQL with RabbitMQ.

Each node is cleaned by three steps that do nothing, requested as fast as the API accepts them. The
CPU of each part for one node gives the limit of the part on a machine of its own, and so the size
of a fleet: see `model`. The CPU of the broker, and the WAL, are those of the whole server, so other
users of it must rest. Without PostgreSQL or RabbitMQ, the benchmark prints NOT MEASURED.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence

import psutil
import pytest
import sqlalchemy as sa

from benchmarks import conductors, harness
from benchmarks.figures import Figure, report
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import migrate, models
from tests.support import database_servers, rabbit

NODES = 200
COUNTS = (1, 2, 4)
SETTINGS = """\
[DEFAULT]
state_path = {folder}
host = bench
enabled_hardware_types = fake-hardware
transport_url = {broker}
[database]
connection = {database}
[api]
port = {port}
workers = 1
[conductor]
processes = {count}
sync_power_state_interval = 0
hash_ring_reset_interval = 1
heartbeat_interval = 2
max_concurrent_clean = 10000
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


def _seconds(processes: Sequence[psutil.Process]) -> float:
    total = 0.0
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total


def _family(parent: psutil.Process) -> list[psutil.Process]:
    return [parent, *parent.children(recursive=True)]


class _Backends:
    """The CPU of the database server's processes for one database, those that have ended too."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._seen: dict[int, float] = {}

    def look(self) -> float:
        """Return the CPU seconds seen so far; a process counts until it was last seen."""
        for one in psutil.process_iter(["name", "cmdline"]):
            if one.info["name"] == "postgres" and self._database in " ".join(
                one.info["cmdline"] or ()
            ):
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = one.cpu_times()
                    self._seen[one.pid] = times.user + times.system
        return sum(self._seen.values())


def _brokers() -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["name"]) if one.info["name"] == "beam.smp"]


def _server_totals(opened: Database) -> tuple[float, float, float, float]:
    """Return transactions, sessions, bytes of WAL and bytes of this database."""

    def ask(conn: Connection) -> tuple[float, float, float, float]:
        conn.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
        row = conn.execute(
            sa.text(
                "SELECT xact_commit, sessions, pg_current_wal_lsn() - '0/0'::pg_lsn, "
                "pg_database_size(datname) FROM pg_stat_database WHERE datname = current_database()"
            )
        ).one()
        return tuple(map(float, row))  # type: ignore[return-value]

    return opened.read(ask)


def fill(opened: Database, count: int) -> list[str]:
    """Migrate a database and add nodes; return their UUIDs."""
    migrate.upgrade(opened)
    rows = [harness.node(number) for number in range(count)]

    def write(conn: Connection) -> None:
        for row in rows:
            nodes.insert(conn, row)

    opened.write(write)
    return [row["uuid"] for row in rows]


def _registered(opened: Database) -> int:
    """Return how many conductors are registered."""
    asked = sa.select(sa.func.count()).select_from(models.conductors)
    return int(opened.read(lambda conn: conn.execute(asked).scalar_one()))


@contextlib.contextmanager
def _running(
    folder: pathlib.Path, count: int, url: str, broker: str, opened: Database
) -> Iterator[tuple[harness.Service, psutil.Process, psutil.Process]]:
    port = harness.free_port()
    text = SETTINGS.format(folder=folder, port=port, count=count, database=url, broker=broker)
    (folder / "fleet.conf").write_text(text)
    with contextlib.ExitStack() as stack:
        conductor = stack.enter_context(conductors.program(folder, "conductor"))
        harness.wait_until(lambda: _registered(opened) == count, "the conductors")
        api = stack.enter_context(conductors.program(folder, "api"))
        service = harness.Service(folder, port, os.getpid())
        harness.wait_until(lambda: conductors.alive(port) == count, "the API")
        yield service, api, conductor


def measured(count: int, url: str, broker: str) -> Cost:
    """Return the cost of a clean with so many processes."""
    with harness.folder() as folder, contextlib.closing(session.open_database(url)) as opened:
        uuids = fill(opened, NODES)
        with _running(folder, count, url, broker, opened) as (service, api, conductor):
            conductors.rate(service, opened, uuids[:40])  # statements are compiled and cached
            backends = _Backends(str(opened.url.database))

            def totals() -> _Totals:
                return _Totals(
                    _seconds(_family(api)),
                    _seconds(_family(conductor)),
                    backends.look(),
                    _seconds(_brokers()),
                    *_server_totals(opened),
                )

            before = totals()
            rate = conductors.rate(service, opened, uuids)
            after = totals()
    each = {
        one.name: (getattr(after, one.name) - getattr(before, one.name)) / NODES
        for one in dataclasses.fields(_Totals)
    }
    each |= {part: 1000 * each[part] for part in ("api", "conductor", "database", "broker")}
    return Cost(rate=rate, **each)


def model(cost: Cost, *, machines: int, fleet: int) -> list[Figure]:
    """Return what a fleet needs by the CPU of one node's clean, one core for each process.

    Each part is taken for its own: the rate of all is that of the part with the least.
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
        Figure("... of the database, its sessions only", cost.database, "ms"),
        Figure("... of the broker, all its users", cost.broker, "ms"),
        Figure("... transactions", cost.transactions),
        Figure("... new sessions of the database", cost.sessions),
        Figure("... WAL, all its users", cost.wal / _KIB, "KiB"),
        Figure("... stored rows and indexes", cost.stored / _KIB, "KiB"),
    ]


def main() -> int:
    """Measure and print; return the exit status."""
    asked = argparse.ArgumentParser()
    asked.add_argument("processes", nargs="*", type=int, default=COUNTS)
    found: list[Figure] = []
    costs = []
    print(f"load average {os.getloadavg()[0]:.0f}, {os.cpu_count()} cores")
    for count in asked.parse_args().processes:
        with contextlib.ExitStack() as stack:
            try:
                label = f"processes_{count}"
                url = stack.enter_context(database_servers.own_database("postgresql", label))
                broker = stack.enter_context(rabbit.own_url())
            except pytest.skip.Exception as why:
                print(f"NOT MEASURED: {why}")
                return 0
            costs.append(measured(count, url, broker))
        found += _figures(count, costs[-1])
    found += model(costs[0], machines=10, fleet=100_000)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
