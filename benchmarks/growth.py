"""Cost of requests and sweeps in a fleet of 1 000 nodes, and in larger ones.

API and a conductor run in this process for each fleet, in turns. The CPU time is that of this
process, which contains SQLite, and of the server processes of PostgreSQL. ``python -m
benchmarks.growth postgresql 1000 10000 100000`` measures PostgreSQL and these fleets. Other
arguments select the rows whose names contain one of them: ``benchmarks.growth recovery "runs,"``.
``tests/db/test_lists.py`` checks more statements, by counting SQLite's instructions.
"""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import contextlib  # noqa: E402  threads.native() must run before any oslo library is imported
import itertools  # noqa: E402
import logging  # noqa: E402
import pathlib  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402

import sqlalchemy as sa  # noqa: E402

from benchmarks import harness, heartbeats, recovery  # noqa: E402
from benchmarks.figures import Figure, report, size  # noqa: E402
from ironic_lite.core.json_types import Row  # noqa: E402
from ironic_lite.db.engine import session  # noqa: E402
from ironic_lite.db.engine.session import Connection, Database  # noqa: E402
from ironic_lite.db.queries import nodes, ports  # noqa: E402
from ironic_lite.db.tables import models  # noqa: E402
from tests.support import population, private_servers  # noqa: E402
from tests.support.in_process import InProcess  # noqa: E402
from tests.support.service import short_folder  # noqa: E402

FLEETS = size((1_000, 100_000), smoke=(300,))
BUDGET = 1.1
ROUNDS = size(9, smoke=1)
_SECONDS = size(0.05, smoke=0.0)
"""CPU seconds of a measurement."""
_HEARTBEATS = 50
"""Nodes that send heartbeats."""
_CLEANED, _LOST = size((40, 10), smoke=(2, 2))
_PATIENCE = 60.0


class Fleet:
    """A fleet with its service in this process."""

    def __init__(self, opened: Database, count: int) -> None:
        self._uuids = population.fill(opened, count)
        self.service = InProcess(opened, conductor__max_concurrent_clean=10_000)
        self._others = itertools.cycle(self._uuids[:-200:7])
        heartbeats.prepare(opened, self._uuids[:_HEARTBEATS], "clean wait")
        self._waiting = itertools.cycle(self._uuids[:_HEARTBEATS])
        self._database = opened
        cleaned, self._lost = _manageable(opened)
        self._cleaned = itertools.cycle(cleaned)
        self._servers: list[pathlib.Path] = []

    def find_servers(self) -> None:
        """Find the server processes of all connections, which workers open when they need one."""
        if self._database.kind == "postgresql":
            pids = sa.text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
            found = self._database.read(lambda conn: conn.execute(pids).scalars().all())
            self._servers = [pathlib.Path(f"/proc/{pid}/schedstat") for pid in found]

    def cpu(self) -> float:
        """Return the CPU seconds of this process and of its servers."""
        servers = sum(int(one.read_text().split()[0]) for one in self._servers if one.exists())
        return time.process_time() + servers / 1e9

    def node(self) -> str:
        """Return the next node."""
        return next(self._others)

    def middle(self) -> str:
        """Return the node in the middle of the list."""
        return self._uuids[len(self._uuids) // 2]

    def get(self, path: str) -> None:
        """Send a GET."""
        response = self.service.api.get(path)
        if response.status != 200:
            raise RuntimeError(response.text)

    def heartbeat(self) -> None:
        """Send a heartbeat."""
        path, headers = f"/v1/heartbeat/{next(self._waiting)}", heartbeats.HEADERS
        response = self.service.api.post(path, heartbeats.body(), headers=headers)
        if response.status != 202:
            raise RuntimeError(response.text)

    def clean(self) -> None:
        """Take a node through a manual clean with three steps."""
        node = next(self._cleaned)
        path = f"/v1/nodes/{node}/states/provision"
        body = {"target": "clean", "clean_steps": harness.clean_steps(3)}
        response = self.service.api.put(path, body)
        if response.status != 202:
            raise RuntimeError(response.text)
        self._wait([node])

    def recover(self) -> None:
        """Finish the nodes of a conductor that died in the first of their two clean steps."""
        recovery.lose_conductor(self._database, self._lost, ended=True)
        self.service.rig.sweep("orphans")
        self._wait(self._lost)

    def _wait(self, uuids: Sequence[str]) -> None:
        """Wait for the end of the work.

        :raises RuntimeError: a node is locked or not manageable.
        """
        self.service.rig.service.runtime.workers.wait_idle(_PATIENCE)
        node = models.nodes.c
        chosen = sa.select(node.provision_state, node.reservation).where(node.uuid.in_(uuids))
        found = self._database.read(lambda conn: [tuple(row) for row in conn.execute(chosen)])
        if set(found) != {("manageable", None)}:
            raise RuntimeError(f"states and locks after the work: {found}")


def _manageable(opened: Database) -> tuple[list[str], list[str]]:
    """Return manageable nodes to clean, and others for `Fleet.recover`."""
    node = models.nodes.c
    conditions = (node.provision_state == "manageable", node.driver == "fake-hardware")
    query = sa.select(node.uuid).where(*conditions).order_by(node.id).limit(_CLEANED + _LOST)
    found = list(opened.read(lambda conn: conn.execute(query).scalars()))
    return found[_LOST:], found[:_LOST]


Act = Callable[[Fleet], object]


def _nodes(query: str) -> Act:
    return lambda fleet: fleet.get(f"/v1/nodes?limit=5&{query}")


def _behind(sort: str) -> Act:
    return lambda fleet: fleet.get(f"/v1/nodes?limit=5&sort_key={sort}&marker={fleet.middle()}")


def _ports_of_project(conn: Connection) -> list[Row]:
    return ports.page(conn, columns=("uuid",), where={"project": "project-7"}, limit=100)


def _counts_by_state(conn: Connection) -> object:
    return nodes.counts(conn, by=("provision_state",), where={}, most=100)


def _runs(query: str) -> Act:
    return lambda fleet: fleet.get(f"/v1/runs?limit=9&{query}")


def _sweep(name: str) -> Act:
    return lambda fleet: fleet.service.rig.sweep(name)


FILTERS = (
    *("provision_state=available", "provision_state=clean%20failed", "provision_state=deploying"),
    *("owner=project-7", f"owner={population.PROJECT}", f"project={population.PROJECT}"),
    *(f"resource_class={population.CLASS}", f"conductor_group={population.GROUP}", "driver=rare"),
    *(f"shard={population.SHARD},shard-7", "sharded=false", "maintenance=true", "retired=true"),
    *("associated=false", "fault=power%20failure", "data_state=dirty", "held=true"),
)
SORTS = ("name", "owner", "driver", "updated_at")
OF_RUNS = (
    *("", "state=failed", "state=waiting", "verb=deploy", "requester=nobody", "project=nobody"),
    *("code=StepFailed", "latest=true", "latest=true&state=failed"),
    *("driver=rare", "driver=absent", f"resource_class={population.CLASS}&state=failed"),
)
SWEEPS = (
    *("time-outs", "orphans", "allocations", "power recovery", "batches", "overdue steps"),
    "hanging work",
)
ACTS: dict[str, Act] = {
    "GET a node": lambda fleet: fleet.get(f"/v1/nodes/{fleet.node()}"),
    "page of 100 in mid-list": lambda fleet: fleet.get(
        f"/v1/nodes?limit=100&marker={fleet.middle()}"
    ),
    "page of 1000": lambda fleet: fleet.get("/v1/nodes?limit=1000"),
    "heartbeat": Fleet.heartbeat,
    "clean with three steps": Fleet.clean,
    f"recovery of {_LOST} nodes": Fleet.recover,
    "a node's history": lambda fleet: fleet.get(f"/v1/nodes/{fleet.node()}/history"),
    **{f"nodes, {query}": _nodes(query) for query in FILTERS},
    **{f"nodes by {sort}": _nodes(f"sort_key={sort}") for sort in SORTS},
    **{f"nodes by {sort} in mid-list": _behind(sort) for sort in SORTS},
    "ports of a shard": lambda fleet: fleet.get("/v1/ports?limit=100&shard=shard-7"),
    "ports of a project": lambda fleet: fleet.service.database.read(_ports_of_project),
    "metrics' counts": lambda fleet: fleet.service.database.read(nodes.count_by_state),
    "counts by state": lambda fleet: fleet.service.database.read(_counts_by_state),
    **{f"runs, {query or 'all'}": _runs(query) for query in OF_RUNS},
    **{f"sweep: {name}": _sweep(name) for name in SWEEPS},
    "keepalive": lambda fleet: fleet.service.rig.service.keepalive.beat(),
}


def _timed(fleet: Fleet, act: Act) -> float:
    """Return the CPU milliseconds of an action, repeated for a while."""
    fleet.find_servers()
    begin, count = fleet.cpu(), 0
    while count == 0 or fleet.cpu() - begin < _SECONDS:
        act(fleet)
        count += 1
    return (fleet.cpu() - begin) / count * 1000


def compare(name: str, act: Act, fleets: Sequence[Fleet], counts: Sequence[int]) -> list[Figure]:
    """Return the cost in the first fleet, and the ratios of the others to it."""
    for fleet in fleets:
        act(fleet)
    rounds = [[_timed(fleet, act) for fleet in fleets] for _ in range(ROUNDS)]
    small = statistics.median(one[0] for one in rounds)
    figures = [Figure(f"{name}: CPU with {counts[0]} nodes", small, "ms")]
    for place, count in enumerate(counts[1:], 1):
        ratio = statistics.median(one[place] / one[0] for one in rounds)
        figures.append(Figure(f"... with {count}", ratio, "x", BUDGET))
    return figures


def _databases(kind: str, opened: contextlib.ExitStack, counts: Sequence[int]) -> list[Database]:
    """Return an empty database for each fleet."""
    databases = []
    for _ in counts:
        folder = opened.enter_context(short_folder())
        if kind == "sqlite":
            databases.append(opened.enter_context(contextlib.closing(harness.database(folder))))
            continue
        folder.chmod(0o755)  # the server runs as another user
        server = opened.enter_context(private_servers.database("postgresql", folder))
        database = session.open_database(server.url(server.port), statement_timeout=0)
        databases.append(opened.enter_context(contextlib.closing(database)))
    return databases


def main(words: Sequence[str]) -> int:
    """Measure and print; return the exit status."""
    kind = "postgresql" if "postgresql" in words else "sqlite"
    counts = [int(word) for word in words if word.isdigit()] or FLEETS
    parts = [word for word in words if not word.isdigit() and word not in {"sqlite", "postgresql"}]
    acts = {name: act for name, act in ACTS.items() if not parts or any(p in name for p in parts)}
    logging.disable()
    with contextlib.ExitStack() as opened:
        fleets = []
        for database, count in zip(_databases(kind, opened, counts), counts, strict=True):
            fleets.append(Fleet(database, count))
            opened.enter_context(contextlib.closing(fleets[-1].service))
        return report(
            figure for name, act in acts.items() for figure in compare(name, act, fleets, counts)
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
