"""Cost of a day in a fleet of 100 000 nodes with five conductors, by component.

API and a conductor run in this process on SQLite, so their CPU time contains that of the database.
The fleet has ``NODES`` nodes with runs and history; the other four conductors are rows. A part of
the work of each component is measured. `Component` has the number by which this is multiplied for a
day: how often the component works, on how many conductors, and, for components that read every
node, in how many nodes. The other components cost the same in every fleet, as ``fleet_size`` shows.

The driver is ``fake``: the time of BMCs and agents is not counted (see ``power_sync``).
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import contextlib  # noqa: E402  threads.native() must run before any oslo library is imported
import dataclasses  # noqa: E402
import functools  # noqa: E402
import logging  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any  # noqa: E402

import sqlalchemy as sa  # noqa: E402

from benchmarks import harness, heartbeats, recovery  # noqa: E402
from benchmarks.figures import Figure, report, size  # noqa: E402
from ironic_lite.core import clock  # noqa: E402
from ironic_lite.db.engine.session import Connection, Database  # noqa: E402
from ironic_lite.db.queries import conductors  # noqa: E402
from ironic_lite.db.tables import models  # noqa: E402
from tests.support import population  # noqa: E402
from tests.support.in_process import InProcess  # noqa: E402
from tests.support.service import short_folder  # noqa: E402
from tests.support.statements import count_statements  # noqa: E402

FLEET = 100_000
NODES = size(4_000, smoke=300)
SCALE = FLEET / NODES
CONDUCTORS = 5
DAY = 86_400
AT_WORK = 2_000
"""Machines that send heartbeats all day, one in `INTERVAL` seconds each."""
INTERVAL = 60
CLEANED = 24_000
"""Nodes that batches clean in a day, with three steps each."""
WATCHERS = 20
"""Clients that read every event."""
DEATHS = 24
CORES = 1.0
"""Budget: cores that are busy all day, for all five conductors and the API."""
_BATCH, _HEARTBEATS, _LOST, _PAGE = size((150, 400, 40, 1000), smoke=(3, 5, 3, 10))
"""Nodes of a measured batch, heartbeats, nodes of a dead conductor, and events of a page."""
_ROUNDS = size(5, smoke=1)
_PATIENCE = 300.0
_CONDUCTORS_KEPT = 3.1
"""Seconds for which a conductor keeps the list of conductors."""
_COUNTS_KEPT = size(2.1, smoke=0.0)
"""Seconds for which the API keeps counts of nodes."""
_TABLES = ("events", "runs", "run_steps", "run_logs", "batch_nodes")


@dataclasses.dataclass(frozen=True)
class Component:
    """A measured component.

    :ivar cpu: CPU seconds of the measurement.
    :ivar times: factor of the measurement for a day.
    :ivar budget: cores that are busy all day.
    """

    name: str
    cpu: float
    statements: int
    times: float
    budget: float

    @property
    def cores(self) -> float:
        """Return how many cores are busy all day."""
        return self.cpu * self.times / DAY

    def __str__(self) -> str:
        text = f"{self.name:<44}{self.cpu * 1000:>9.1f} ms{self.statements:>7} x{self.times:>9.0f}"
        return f"{text}{self.cpu * self.times:>9.0f} s{self.statements * self.times / DAY:>8.1f}/s"


class Day:
    """A fleet with its service, and the measured components."""

    def __init__(self, opened: Database) -> None:
        self.database = opened
        self.uuids = population.fill(opened, NODES)
        options: dict[str, Any] = {
            "conductor__hash_ring_reset_interval": 15,
            "conductor__workers_pool_size": 100,
            "conductor__max_concurrent_clean": 10_000,
            "conductor__node_history_minimum_days": 0,
        }
        self.service = InProcess(opened, **options)
        self.conductor = self.service.rig.service
        self.components: list[Component] = []

    def set_others(self, *, online: bool) -> None:
        """Write the rows of the other conductors, alive or stopped."""
        hosts = [f"other-{number}" for number in range(1, CONDUCTORS)]
        rows = self.conductor.runtime.registry.rows()

        def write(conn: Connection) -> None:
            for host in hosts:
                if not conductors.touch(conn, host=host, now=clock.now(), online=online):
                    key = conductors.register(
                        conn, host=host, group="", version=None, now=clock.now()
                    )
                    conductors.set_interfaces(conn, key, rows)

        self.database.write(write)
        time.sleep(_CONDUCTORS_KEPT)

    def measure(
        self,
        name: str,
        act: Callable[[], object],
        times: float,
        budget: float,
        *,
        rounds: int = 1,
    ) -> None:
        """Measure a component, with the work it starts.

        :param rounds: of a component that can be repeated; the median counts.
        """
        costs = []
        for _ in range(rounds):
            with count_statements(self.database) as sent:
                begin = time.process_time()
                act()
                self.wait_idle()
                costs.append(time.process_time() - begin)
        component = Component(name, statistics.median(costs), len(sent), times, budget)
        print(component, flush=True)
        self.components.append(component)

    def wait_idle(self) -> None:
        """Wait for the end of the conductor's work."""
        if not self.conductor.runtime.workers.wait_idle(_PATIENCE):
            raise RuntimeError("the conductor's work has not ended")

    def sweep(self, name: str) -> Callable[[], None]:
        """Return a sweep of the conductor."""
        return functools.partial(self.service.rig.sweep, name)


# -- components --------------------------------------------------------------------------------


def sweeps(day: Day) -> None:
    """Measure the sweeps: those that read each node, and all others."""
    settings = day.conductor.runtime.conf.conductor
    day.set_others(online=True)
    # The first sweep costs more, because it has no results of an earlier one.
    day.sweep("power sync")()
    day.conductor.power.settle(_PATIENCE)
    per_node = CONDUCTORS * SCALE
    day.set_others(online=True)
    power = day.sweep("power sync")
    day.measure("power sync, without the BMCs", power, 720 * per_node, 0.7, rounds=_ROUNDS)
    day.measure("moved nodes, first sweep", day.sweep("moved nodes"), 2 * DEATHS * SCALE, 0.1)
    day.set_others(online=True)
    times = DAY / 180 * per_node
    moved = day.sweep("moved nodes")
    day.measure("moved nodes, no change", moved, times, 0.1, rounds=_ROUNDS)
    day.measure("old history", day.sweep("old history"), per_node, 0.1)
    intervals = {
        "orphans": 3,
        "allocations": 3,
        "joins and leaves": 3,
        "batches": 2,
        "time-outs": 60,
    }
    intervals |= {"overdue steps": 60, "hanging work": 10, "webhooks": 1}
    intervals |= {"power recovery": settings.power_failure_recovery_interval or 300}
    for name, seconds in intervals.items():
        sweep = day.sweep(name)
        sweep()
        times = DAY / seconds * CONDUCTORS
        day.measure(f"{name}, every {seconds} s", sweep, times, 0.05, rounds=_ROUNDS)
    keepalive = day.conductor.keepalive.beat
    day.measure("keepalive, every 10 s", keepalive, DAY / 10 * CONDUCTORS, 0.05)


def agents(day: Day) -> None:
    """Measure heartbeats of machines in a step of their BMC."""
    uuids = day.uuids[:_HEARTBEATS]
    heartbeats.prepare(day.database, uuids, "clean wait")

    def send() -> None:
        for uuid in uuids:
            path, headers = f"/v1/heartbeat/{uuid}", heartbeats.HEADERS
            response = day.service.api.post(path, heartbeats.body(), headers=headers)
            if response.status != 202:
                raise RuntimeError(response.text)

    send()
    count = AT_WORK * DAY / INTERVAL
    name, budget = f"{count / 1e6:.2g} million heartbeats", 0.1 + count / DAY / 1e3
    day.measure(name, send, count / _HEARTBEATS, budget, rounds=_ROUNDS)
    update = sa.update(models.nodes).where(models.nodes.c.uuid.in_(uuids))
    update = update.values(provision_state="active", driver_internal_info={}, clean_step=None)
    day.database.write(lambda conn: conn.execute(update))


def batches(day: Day) -> dict[str, float]:
    """Measure a batch of cleans with three steps; return rows and bytes of each node."""
    day.set_others(online=False)
    uuids = _manageable(day.database)[:_BATCH]
    body = {
        "nodes": {"uuid": ",".join(uuids)},
        "expect": _BATCH,
        "request": {"target": "clean", "clean_steps": harness.clean_steps(3)},
        "waves": ["100%"],
    }
    before = _sizes(day.database)

    def run() -> None:
        response = day.service.api.post("/v1/batches", body)
        if response.status != 201:
            raise RuntimeError(response.text)
        path = f"/v1/batches/{response.json['uuid']}"
        end = time.monotonic() + _PATIENCE
        while (state := day.service.api.get(path).json["state"]) == "running":
            if time.monotonic() > end:
                raise RuntimeError("the batch has not ended")
            day.service.rig.sweep("batches")
            day.wait_idle()
        if state != "done":
            raise RuntimeError(f"the batch has ended as {state}")

    name = f"{CLEANED} cleans of 3 steps, by batches"
    day.measure(name, run, CLEANED / _BATCH, CLEANED * 0.012 / DAY + 0.01)
    after = _sizes(day.database)
    return {name: (after[name] - before[name]) / _BATCH for name in after}


def watchers(day: Day, events: float) -> None:
    """Measure clients that read each event of a day."""
    path = f"/v1/events?limit={_PAGE}"

    def read() -> None:
        if len(day.service.api.get(path).json["events"]) != _PAGE:
            raise RuntimeError("there are too few events")

    read()
    name = f"{WATCHERS} watchers of {events / 1e3:.0f} 000 events"
    day.measure(name, read, WATCHERS * events / _PAGE, 0.05)


def deaths(day: Day) -> None:
    """Measure nodes in a clean step whose conductor dies, until they are at rest."""
    uuids = _manageable(day.database)[-_LOST:]
    day.set_others(online=False)
    recovery.lose_conductor(day.database, uuids, ended=True)
    count = AT_WORK / CONDUCTORS * DEATHS
    name = f"{DEATHS} deaths of a conductor, {count:.0f} nodes"
    day.measure(name, lambda: _recover(day, uuids), count / _LOST, 0.01)


def _recover(day: Day, uuids: Sequence[str]) -> None:
    node = models.nodes.c
    conditions = (node.uuid.in_(uuids), node.provision_state == "cleaning")
    query = sa.select(sa.func.count()).where(*conditions)
    end = time.monotonic() + _PATIENCE
    while day.database.read(lambda conn: conn.execute(query).scalar()):
        if time.monotonic() > end:
            raise RuntimeError("nodes of a dead conductor are not at rest")
        day.service.rig.sweep("orphans")
        day.wait_idle()


def readers(day: Day) -> None:
    """Measure requests of operators and of monitoring."""
    api = day.service.api
    paths = {
        "a table of all nodes, each hour": ("/v1/nodes?limit=1000", 24 * FLEET / 1000, 0.01),
        "counts of nodes, each 15 s": ("/v1/stats/nodes?by=provision_state", 5760 * SCALE, 0.05),
        "runs that failed, each 15 s": ("/v1/runs?state=failed&limit=100", 5760, 0.01),
    }
    for name, (path, times, budget) in paths.items():
        api.get(path)
        time.sleep(_COUNTS_KEPT)
        day.measure(name, functools.partial(api.get, path), times, budget)


# -- sizes ---------------------------------------------------------------------------------------


def _manageable(database: Database) -> list[str]:
    """Return the manageable nodes of the conductor's driver, in their order."""
    node = models.nodes.c
    conditions = (node.provision_state == "manageable", node.driver == "fake-hardware")
    query = sa.select(node.uuid).where(*conditions).order_by(node.id)
    return list(database.read(lambda conn: conn.execute(query).scalars().all()))


def _sizes(database: Database) -> dict[str, float]:
    """Return the rows of the tables of history, and the bytes of all used pages."""

    def read(conn: Connection) -> dict[str, float]:
        rows = {}
        for name in _TABLES:
            count = sa.select(sa.func.count()).select_from(models.metadata.tables[name])
            rows[name] = float(conn.execute(count).scalar_one())
        used = "SELECT (SELECT page_count FROM pragma_page_count) - freelist_count"
        pages = conn.exec_driver_sql(f"{used} FROM pragma_freelist_count").scalar()
        size = conn.exec_driver_sql("PRAGMA page_size").scalar()
        return {**rows, "bytes": float((pages or 0) * (size or 0))}

    return database.read(read)


def main() -> int:
    """Measure and print; return the exit status."""
    logging.disable()
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        day = Day(opened)
        size = _sizes(opened)["bytes"] / NODES * FLEET
        print(f"{'component':<44}{'measured':>12}{'SQL':>7} {'times':>10}{'a day':>11}{'SQL':>10}")
        sweeps(day)
        agents(day)
        each = batches(day)
        watchers(day, each["events"] * CLEANED)
        deaths(day)
        readers(day)
        day.service.close()
    found = [Figure(f"{one.name}: cores", one.cores, "", one.budget) for one in day.components]
    cores = sum(one.cores for one in day.components)
    rows = [Figure(f"rows of a clean: {name}", each[name]) for name in _TABLES]
    growth = each["bytes"] * CLEANED / 1e9
    return report(
        [
            *found,
            Figure(f"all: cores of {CONDUCTORS} conductors and the API", cores, "", CORES),
            *rows,
            Figure("database of 100 000 nodes at the start", size / 1e9, "GB"),
            Figure("growth in a day, before history is trimmed", growth, "GB", 1.0),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
