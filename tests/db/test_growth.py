"""Lists and sweeps cost what they return: as much in a fleet ten times as large.

SQLite counts the instructions of its virtual machine, which depend on neither the machine nor its
load. ``benchmarks/growth.py`` measures the same on PostgreSQL.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import allocations, batch_sweeps, fleet_runs, nodes, overdue, sweeps
from ironic_lite.db.queries import conductors as db_conductors
from tests.support import population
from tests.support.sqlite_instructions import count_instructions

SMALL, LARGE = 500, 5000
MOST = 1.1
LIMIT = 5
_BRIEF = ("uuid", "name", "provision_state")
_RUN = ("uuid", "node_uuid", "node_name", "state", "started_at")

NODES: dict[str, dict[str, Any]] = {
    "all": {},
    "state": {"provision_state": "available"},
    "rare state": {"provision_state": "clean failed"},
    "absent state": {"provision_state": "deploying"},
    "states": {"provision_state": ["available", "clean wait"]},
    "rare states": {"provision_state": ["clean failed", "deploying"]},
    "free and available": {"associated": False, "provision_state": "available"},
    "rare class": {"resource_class": population.CLASS},
    "rare driver": {"driver": "rare"},
    "rare group": {"conductor_group": population.GROUP},
    "rare owner": {"owner": population.PROJECT},
    "project": {"project": "project-7"},
    "rare project": {"project": population.PROJECT},
    "absent project": {"project": "absent"},
    "project and state": {"project": population.PROJECT, "provision_state": ["active", "rescue"]},
    "shards": {"shard": [population.SHARD, "absent"]},
    "not sharded": {"sharded": False},
    "maintenance": {"maintenance": True},
    "no maintenance": {"maintenance": False},
    "rare owner without maintenance": {"maintenance": False, "owner": "absent"},
    "retired": {"retired": True},
    "fault": {"fault": "power failure"},
    "dirty": {"data_state": "dirty"},
    "held": {"held": True},
    "lessee": {"lessee": "absent"},
    "instance name": {"instance_name": "absent"},
}
RUNS: dict[str, dict[str, Any]] = {
    "all": {},
    "failed": {"state": ["failed"]},
    "failed or aborted": {"state": ["failed", "aborted"]},
    "under way": {"state": ["running", "waiting"]},
    "verb": {"verb": ["clean"]},
    "absent verb": {"verb": ["deploy"]},
    "absent requester": {"requester": "nobody"},
    "absent project": {"project": "nobody"},
    "code": {"code": ["StepFailed"]},
    "latest": {"latest": True},
    "latest failed": {"latest": True, "state": ["failed"]},
    "rare driver": {"driver": ["rare"]},
    "absent driver": {"driver": ["absent"]},
    "failed of rare class": {"resource_class": [population.CLASS], "state": ["failed"]},
}


def _sweep(ask: Callable[..., Any], **values: Any) -> Callable[[Connection], Any]:
    return lambda conn: ask(conn, **values)


SWEEPS: dict[str, Callable[[Connection], Any]] = {
    "timers": lambda conn: sweeps.due(conn, now=clock.now(), limit=100),
    "time-outs": lambda conn: sweeps.overdue(
        conn, state="clean wait", before=clock.ago(60), limit=100
    ),
    "locks": _sweep(sweeps.held, limit=5000),
    "orphans": _sweep(sweeps.unheld, states=["cleaning", "deploying"], limit=5000),
    "power recovery": _sweep(sweeps.in_fault, fault="power failure", limit=500),
    "power recovery, other fault": _sweep(sweeps.in_fault, fault="clean failure", limit=500),
    "limit of cleans": _sweep(sweeps.count_in, states=["cleaning", "clean wait"]),
    "a page of the power sync": _sweep(sweeps.for_power_sync, skip_states=["enroll"], limit=100),
    "a page of moved nodes": _sweep(sweeps.standing, states=["active", "clean wait"], limit=100),
    "batches": batch_sweeps.open_batches,
    "allocations": allocations.unsettled,
    "members": db_conductors.members,
}


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Database]]:
    """A small and a large fleet."""
    with contextlib.ExitStack() as opened:
        folder = tmp_path_factory.mktemp("fleets")
        yield _fleet(opened, folder, SMALL), _fleet(opened, folder, LARGE)


def _fleet(opened: contextlib.ExitStack, folder: pathlib.Path, count: int) -> Database:
    database = session.open_database(f"sqlite:///{folder}/{count}.sqlite")
    opened.callback(database.close)
    population.fill(database, count)
    return database


def work(database: Database, ask: Callable[[Connection], Any]) -> int:
    """Return the instructions of SQLite for the statements of a function."""
    return database.read(lambda conn: count_instructions(conn, ask))


def check(fleets: tuple[Database, Database], ask: Callable[[Connection], Any]) -> None:
    """Check that the large fleet costs hardly more than the small one."""
    small, large = (work(database, ask) for database in fleets)
    assert large <= small * MOST, f"{small} instructions with {SMALL} nodes, {large} with {LARGE}"


@pytest.mark.parametrize("asked", NODES)
def test_a_page_of_nodes_costs_what_it_returns(
    fleets: tuple[Database, Database], asked: str
) -> None:
    check(fleets, lambda conn: nodes.page(conn, columns=_BRIEF, where=NODES[asked], limit=LIMIT))


@pytest.mark.parametrize("asked", ["all", "state", "states", "project", "no maintenance"])
def test_a_page_after_a_marker_costs_what_it_returns(
    fleets: tuple[Database, Database], asked: str
) -> None:
    where = NODES[asked]

    def page(conn: Connection) -> None:
        [first] = nodes.page(conn, columns=("uuid",), where=where, limit=1)
        found = nodes.page(conn, columns=_BRIEF, where=where, marker_id=first["uuid"], limit=LIMIT)
        assert len(found) == LIMIT

    check(fleets, page)


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["name", "owner", "resource_class", "driver", "maintenance"])
def test_a_sorted_page_costs_what_it_returns(
    fleets: tuple[Database, Database], sort: str, direction: str
) -> None:
    order: dict[str, Any] = {"sort": sort, "direction": direction, "limit": LIMIT}

    def pages(conn: Connection) -> None:
        found = nodes.page(conn, columns=_BRIEF, **order)
        nodes.page(conn, columns=_BRIEF, marker_id=found[-1]["uuid"], **order)

    check(fleets, pages)


@pytest.mark.parametrize("asked", RUNS)
def test_a_page_of_runs_costs_what_it_returns(
    fleets: tuple[Database, Database], asked: str
) -> None:
    # Each run belongs to one node, so no more are asked for than the small fleet has.
    check(fleets, lambda conn: fleet_runs.page(conn, columns=_RUN, where=RUNS[asked], limit=9))


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_costs_what_it_finds(fleets: tuple[Database, Database], name: str) -> None:
    check(fleets, SWEEPS[name])


def test_looking_for_long_steps_costs_what_is_under_way(
    fleets: tuple[Database, Database],
) -> None:
    class Reader:
        def __init__(self, conn: Connection) -> None:
            self.conn = conn

        def read(self, ask: Callable[[Connection], Any]) -> Any:
            return ask(self.conn)

    def look(conn: Connection) -> None:
        reader: Any = Reader(conn)
        assert len(list(overdue.long_steps(reader, clock.after(60)))) == 80

    check(fleets, look)
