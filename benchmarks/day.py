"""Cost of a day in a fleet of 100 000 nodes with five conductors, by component.

API and a conductor run in this process on SQLite, so their CPU time contains that of the database.
The fleet has ``NODES`` nodes with runs and history; the other four conductors are rows. Each
component is driven by its own functions and measured for a part of a day. `Part` has the number by
which the measurement is multiplied for a day: how often the component acts, how many conductors
act, and, for components that look at every node, how many nodes there are. The other components
cost the same in every fleet, as ``fleet_size`` shows.

The driver is ``fake``: the time of BMCs and agents is not counted (see ``power_sync``).
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import contextlib  # noqa: E402  threads.native() must run before any oslo library is imported
import dataclasses  # noqa: E402
import functools  # noqa: E402
import itertools  # noqa: E402
import logging  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402

import sqlalchemy as sa  # noqa: E402

from benchmarks import harness, heartbeats, recovery  # noqa: E402
from benchmarks.figures import Figure, report  # noqa: E402
from ironic_lite.core import clock  # noqa: E402
from ironic_lite.db.engine.session import Connection, Database  # noqa: E402
from ironic_lite.db.queries import conductors  # noqa: E402
from ironic_lite.db.tables import models  # noqa: E402
from tests.support import population  # noqa: E402
from tests.support.in_process import InProcess  # noqa: E402
from tests.support.statements import count_statements  # noqa: E402

FLEET = 100_000
NODES = 4_000
SCALE = FLEET / NODES
CONDUCTORS = 5
DAY = 86_400
AT_WORK = 2_000
"""Machines that send heartbeats all day, one in `BEAT` seconds each."""
BEAT = 60
CLEANED = 24_000
"""Nodes that batches clean in a day, with three steps each."""
WATCHERS = 20
"""Clients that read every event."""
DEATHS = 24
CORES = 1.0
"""Budget: cores that are busy all day, for all five conductors and the API."""
_STEPS = [{"interface": "management", "step": "reset_bmc"}] * 3
_BATCH, _BEATS, _LOST, _READ = 150, 400, 40, 1000
_ROUNDS = 5
_PATIENCE = 300.0
_SEEN = 3.1  # seconds in which a conductor reads who lives
_TABLES = ("events", "runs", "run_steps", "run_logs", "batch_nodes")


@dataclasses.dataclass(frozen=True)
class Part:
    """A measured component.

    :ivar cpu: CPU seconds of the measurement.
    :ivar times: by which the measurement is multiplied for a day.
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
    """A fleet and its conductor."""

    def __init__(self, opened: Database) -> None:
        self.database = opened
        self.uuids = population.fill(opened, NODES)
        options: dict[str, object] = {
            "conductor__hash_ring_reset_interval": 15,
            "conductor__workers_pool_size": 100,
            "conductor__max_concurrent_clean": 10_000,
            "conductor__node_history_minimum_days": 0,
        }
        self.whole = InProcess(opened, **options)
        self.parts: list[Part] = []

    def others(self, online: bool) -> None:
        """Let the other conductors live, or be stopped."""
        rig, names = self.whole.rig, [f"other-{number}" for number in range(1, CONDUCTORS)]
        runtime = rig.service.runtime
        rows = runtime.registry.rows()

        def write(conn: Connection) -> None:
            for host in names:
                if not conductors.touch(conn, host=host, now=clock.now(), online=online):
                    key = conductors.register(
                        conn, host=host, group="", version=None, now=clock.now()
                    )
                    conductors.set_interfaces(conn, key, rows)

        self.database.write(write)
        time.sleep(_SEEN)

    def measure(
        self,
        name: str,
        act: Callable[[], object],
        times: float,
        budget: float,
        *,
        rounds: int = 1,
    ) -> None:
        """Run a component, with the work it starts, and remember its cost.

        :param rounds: of a component that can be repeated; the median counts.
        """
        costs = []
        for _ in range(rounds):
            with count_statements(self.database) as sent:
                begin = time.process_time()
                act()
                self._rest()
                costs.append(time.process_time() - begin)
        found = Part(name, statistics.median(costs), len(sent), times, budget)
        print(found, flush=True)
        self.parts.append(found)

    def _rest(self) -> None:
        if not self.whole.rig.service.runtime.workers.wait_idle(_PATIENCE):
            raise RuntimeError("the conductor's work has not ended")

    def sweep(self, name: str) -> Callable[[], None]:
        """Return a sweep of the conductor."""
        return functools.partial(self.whole.rig.sweep, name)


# -- components --------------------------------------------------------------------------------


def sweeps(day: Day) -> None:
    """Measure the sweeps: those that look at each node, and all others."""
    service, settings = day.whole.rig.service, day.whole.rig.service.runtime.conf.conductor
    day.others(online=True)
    # The first comparison of all nodes also notices what it will find well from then on.
    day.whole.rig.sweep("power sync")
    service.power.settle(_PATIENCE)
    per_node = CONDUCTORS * SCALE
    day.others(online=True)
    power = day.sweep("power sync")
    day.measure("power sync, without the BMCs", power, 720 * per_node, 0.7, rounds=_ROUNDS)
    day.measure("moved nodes, first look", day.sweep("moved nodes"), 2 * DEATHS * SCALE, 0.1)
    day.others(online=True)
    rounds = DAY / 180 * per_node
    moved = day.sweep("moved nodes")
    day.measure("moved nodes, nothing new", moved, rounds, 0.1, rounds=_ROUNDS)
    day.measure("old history", day.sweep("old history"), per_node, 0.1)
    often = {"orphans": 3, "allocations": 3, "joins and leaves": 3, "batches": 2, "time-outs": 60}
    often |= {"overdue steps": 60, "hanging work": 10, "webhooks": 1}
    often |= {"power recovery": settings.power_failure_recovery_interval or 300}
    for name, seconds in often.items():
        act = day.sweep(name)
        act()
        times = DAY / seconds * CONDUCTORS
        day.measure(f"{name}, every {seconds} s", act, times, 0.05, rounds=_ROUNDS)
    day.measure("keepalive, every 10 s", service.keepalive.beat, DAY / 10 * CONDUCTORS, 0.05)


def beats(day: Day) -> None:
    """Measure heartbeats of machines in a step of their BMC."""
    some = day.uuids[:_BEATS]
    heartbeats.prepare(day.database, some, "clean wait")
    body = {"callback_url": heartbeats.URL, "agent_token": heartbeats.TOKEN}
    body |= {"agent_version": "13.0.0", "agent_verify_ca": heartbeats.PEM}
    asked = {"X-OpenStack-Ironic-API-Version": "1.68"}

    def beat() -> None:
        for uuid in some:
            answer = day.whole.api.post(f"/v1/heartbeat/{uuid}", body, headers=asked)
            if answer.status != 202:
                raise RuntimeError(answer.text)

    beat()
    count = AT_WORK * DAY / BEAT
    name, budget = f"{count / 1e6:.2g} million heartbeats", 0.1 + count / DAY / 1e3
    day.measure(name, beat, count / _BEATS, budget, rounds=_ROUNDS)
    at_rest = sa.update(models.nodes).where(models.nodes.c.uuid.in_(some))
    chosen = at_rest.values(provision_state="active", driver_internal_info={}, clean_step=None)
    day.database.write(lambda conn: conn.execute(chosen))


def batches(day: Day) -> dict[str, float]:
    """Measure a batch of cleans with three steps; return rows and bytes of each node."""
    day.others(online=False)
    wanted = _free(day.database)[:_BATCH]
    body = {
        "nodes": {"uuid": ",".join(wanted)},
        "expect": _BATCH,
        "request": {"target": "clean", "clean_steps": _STEPS},
        "waves": ["100%"],
    }
    before = _sizes(day.database)

    def run() -> None:
        answer = day.whole.api.post("/v1/batches", body)
        if answer.status != 201:
            raise RuntimeError(answer.text)
        place = f"/v1/batches/{answer.json['uuid']}"
        for _ in itertools.count():
            day.whole.rig.sweep("batches")
            day.whole.rig.service.runtime.workers.wait_idle(_PATIENCE)
            if day.whole.api.get(place).json["state"] != "running":
                return

    name = f"{CLEANED} cleans of 3 steps, by batches"
    day.measure(name, run, CLEANED / _BATCH, CLEANED * 0.012 / DAY + 0.01)
    after = _sizes(day.database)
    return {name: (after[name] - before[name]) / _BATCH for name in after}


def watchers(day: Day, events: float) -> None:
    """Measure clients that read each event of a day."""
    path = f"/v1/events?limit={_READ}"

    def read() -> None:
        if len(day.whole.api.get(path).json["events"]) != _READ:
            raise RuntimeError("there are too few events")

    read()
    told = f"{WATCHERS} watchers of {events / 1e3:.0f} 000 events"
    day.measure(told, read, WATCHERS * events / _READ, 0.05)


def deaths(day: Day) -> None:
    """Measure nodes in a clean step whose conductor dies, until they are at rest."""
    some = _free(day.database)[-_LOST:]
    day.others(online=False)
    recovery.die(day.database, some, ended=True)
    count = AT_WORK / CONDUCTORS * DEATHS
    day.measure(
        f"{DEATHS} deaths, {count:.0f} nodes", lambda: _recover(day, some), count / _LOST, 0.01
    )


def _recover(day: Day, some: Sequence[str]) -> None:
    node = models.nodes.c
    left = sa.select(sa.func.count()).where(node.uuid.in_(some), node.provision_state == "cleaning")
    end = time.monotonic() + _PATIENCE
    while day.database.read(lambda conn: conn.execute(left).scalar()):
        if time.monotonic() > end:
            raise RuntimeError("nodes of a dead conductor are not at rest")
        day.whole.rig.sweep("orphans")
        day.whole.rig.service.runtime.workers.wait_idle(_PATIENCE)


def readers(day: Day) -> None:
    """Measure what operators and monitoring read."""
    api = day.whole.api
    paths = {
        "a table of all nodes, each hour": ("/v1/nodes?limit=1000", 24 * FLEET / 1000, 0.01),
        "counts of nodes, each 15 s": ("/v1/stats/nodes?by=provision_state", 5760 * SCALE, 0.05),
        "runs that failed, each 15 s": ("/v1/runs?state=failed&limit=100", 5760, 0.01),
    }
    for name, (path, times, budget) in paths.items():
        api.get(path)
        time.sleep(2.1)  # counts are kept for two seconds
        day.measure(name, functools.partial(api.get, path), times, budget)


# -- sizes ---------------------------------------------------------------------------------------


def _free(database: Database) -> list[str]:
    """Return the manageable nodes of the conductor's driver, in their order."""
    node = models.nodes.c
    wanted = (node.provision_state == "manageable", node.driver == "fake-hardware")
    chosen = sa.select(node.uuid).where(*wanted).order_by(node.id)
    return list(database.read(lambda conn: conn.execute(chosen).scalars().all()))


def _sizes(database: Database) -> dict[str, float]:
    """Return rows of the tables of history, and the bytes of all pages in use."""

    def read(conn: Connection) -> dict[str, float]:
        found = {}
        for name in _TABLES:
            count = sa.select(sa.func.count()).select_from(models.metadata.tables[name])
            found[name] = float(conn.execute(count).scalar_one())
        used = "SELECT (SELECT page_count FROM pragma_page_count) - freelist_count"
        pages = conn.exec_driver_sql(f"{used} FROM pragma_freelist_count").scalar()
        size = conn.exec_driver_sql("PRAGMA page_size").scalar()
        return {**found, "bytes": float((pages or 0) * (size or 0))}

    return database.read(read)


def main() -> int:
    """Measure and print; return the exit status."""
    logging.disable()
    with harness.folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        day = Day(opened)
        size = _sizes(opened)["bytes"] / NODES * FLEET
        print(f"{'component':<44}{'measured':>12}{'SQL':>7} {'times':>10}{'a day':>11}{'SQL':>10}")
        sweeps(day)
        beats(day)
        each = batches(day)
        watchers(day, each["events"] * CLEANED)
        deaths(day)
        readers(day)
        day.whole.close()
    found = [Figure(f"{one.name}: cores", one.cores, "", one.budget) for one in day.parts]
    cores = sum(one.cores for one in day.parts)
    rows = [Figure(f"rows of a clean: {name}", each[name]) for name in _TABLES]
    grown = each["bytes"] * CLEANED / 1e9
    return report(
        [
            *found,
            Figure(f"all: cores of {CONDUCTORS} conductors and the API", cores, "", CORES),
            *rows,
            Figure("database of 100 000 nodes at the start", size / 1e9, "GB"),
            Figure("growth in a day, before history is trimmed", grown, "GB", 1.0),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
