"""Sorted and filtered lists read the rows that they return, whatever the order of enrollment.

SQLite counts the instructions of its virtual machine, MariaDB the rows it has read, and PostgreSQL
the rows of each part of a plan.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import fleet_runs, node_counts, nodes
from ironic_lite.db.tables import models
from tests.support.database_rows import new_uuid
from tests.support.sqlite_instructions import count_instructions

NODES, LATE, BARE, RARE = 3000, 30, 100, 5
LIMIT = 5
MOST = {"sqlite": 1200, "postgresql": 700, "mysql": 700, "mariadb": 700}
"""What a page may cost; a walk past all other nodes costs more than this."""
SOME = {"sqlite": 200, "postgresql": 20, "mysql": 20, "mariadb": 20}
"""What a page of one value may cost; a sort of all its rows costs more than this."""
_FILTERS = ("driver", "conductor_group", "resource_class", "owner", "lessee", "shard", "fault")
_FLAGS = ("maintenance", "retired")
SORTED = (*_FILTERS, *_FLAGS, "data_state", "uuid", "name", "instance_uuid", "provision_state")

Ask = Callable[[Connection], Any]


@pytest.fixture
def fleet(database: Database) -> Iterator[Database]:
    """Nodes of which the last ones have other values; one in a hundred has none where it may."""
    rows = [_node(number) for number in range(NODES)]
    at = clock.ago(3600)
    begun = [at + datetime.timedelta(seconds=number) for number in range(NODES)]
    runs = [
        {
            **{"uuid": new_uuid(), "node_uuid": row["uuid"], "verb": "clean"},
            **{"state": "failed" if number % 3 else "done", "started_at": began},
        }
        for number, (row, began) in enumerate(zip(reversed(rows), begun, strict=True))
    ]

    def write(conn: Connection) -> None:
        conn.execute(models.nodes.insert(), rows)
        conn.execute(models.runs.insert(), runs)

    database.write(write)
    _analyze(database)
    yield database


def _analyze(database: Database) -> None:
    """Renew the statistics of a server, as it does by itself; operators do not ask SQLite to."""
    word = "VACUUM ANALYZE" if database.kind == "postgresql" else "ANALYZE TABLE"
    if database.kind != "sqlite":
        engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            conn.execute(sa.text(f"{word} nodes, runs"))


def _node(number: int) -> dict[str, Any]:
    late, bare = number >= NODES - LATE, number % BARE == 0
    value = "late" if late else f"early-{number % 2}"
    return {
        **dict.fromkeys(_FILTERS, value),
        **dict.fromkeys(("owner", "lessee", "shard", "fault"), None if bare else value),
        "driver": "rare" if number >= NODES - RARE else value,
        **dict.fromkeys(_FLAGS, late),
        "uuid": new_uuid(),
        "name": None if bare else f"node-{number}",
        "instance_uuid": None if bare else new_uuid(),
        "provision_state": "active" if late else "available",
        "data_state": "dirty" if late else "clean",
        "created_at": clock.now(),
    }


def cost(database: Database, ask: Ask) -> int:
    """Return what the statements of a function cost."""
    measures = {"sqlite": count_instructions, "postgresql": _plan_rows}
    measure = measures.get(database.kind, _rows_read)
    return database.read(lambda conn: measure(conn, ask))


def _rows_read(conn: Connection, ask: Ask) -> int:
    def read() -> int:
        found = conn.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler_read%%'")
        return sum(int(value) for _, value in found)

    before = read()
    ask(conn)
    return read() - before


def _plan_rows(conn: Connection, ask: Ask) -> int:
    count = 0

    def explain(
        _conn: Any, cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> None:
        nonlocal count
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        [[[found]]] = cursor.fetchall()
        count += _rows_of(found["Plan"])

    sa.event.listen(conn.engine, "before_cursor_execute", explain)
    try:
        ask(conn)
    finally:
        sa.event.remove(conn.engine, "before_cursor_execute", explain)
    return count


def _rows_of(plan: dict[str, Any]) -> int:
    mine = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    return int(mine * plan["Actual Loops"]) + sum(map(_rows_of, plan.get("Plans", ())))


def dear(
    database: Database, asked: dict[str, Ask], most: Mapping[str, int] = MOST
) -> dict[str, int]:
    """Return what costs more than it may."""
    found = {name: cost(database, ask) for name, ask in asked.items()}
    return {name: one for name, one in found.items() if one > most[database.kind]}


def _page(**more: Any) -> Ask:
    return lambda conn: nodes.page(conn, columns=("uuid", "name"), limit=LIMIT, **more)


def test_a_sorted_page_costs_what_it_returns(fleet: Database) -> None:
    asked = {
        f"{sort} {direction}": _page(sort=sort, direction=direction)
        for sort in SORTED
        for direction in ("asc", "desc")
    }
    assert dear(fleet, asked) == {}


def test_a_sorted_page_behind_a_marker_costs_what_it_returns(fleet: Database) -> None:
    middle = NODES // 2  # has no name; the next node has one

    def marker(place: int) -> str:
        chosen = sa.select(models.nodes.c.uuid).order_by(models.nodes.c.id).offset(place).limit(1)
        return fleet.read(lambda conn: str(conn.execute(chosen).scalar_one()))

    asked = {
        f"{sort} {direction} {place}": _page(
            sort=sort, direction=direction, marker_id=marker(place)
        )
        for sort in SORTED
        for direction in ("asc", "desc")
        for place in (middle, middle + 1)
    }
    assert dear(fleet, asked) == {}


def test_a_filter_reads_its_index_in_the_order_of_the_list(fleet: Database) -> None:
    asked = {name: _page(where={name: "late"}) for name in _FILTERS if name != "driver"}
    asked |= {name: _page(where={name: True}) for name in _FLAGS}
    asked |= {"data_state": _page(where={"data_state": "dirty"})}
    assert dear(fleet, asked, SOME) == {}


def test_runs_of_few_nodes_pass_no_other_run_by(fleet: Database) -> None:
    """The rare driver's runs are the oldest."""

    def page(**where: Any) -> Ask:
        return lambda conn: fleet_runs.page(conn, columns=("uuid",), where=where, limit=LIMIT)

    asked = {
        "absent driver": page(driver=["absent"]),
        "rare driver": page(driver=["rare"]),
        "rare driver, failed": page(driver=["rare"], state=["failed"]),
        "absent class": page(resource_class=["absent"]),
        "latest": page(latest=True),
    }
    assert dear(fleet, asked) == {}


def test_counts_read_an_index_alone(fleet: Database) -> None:
    lines: list[str] = []

    def explain(
        conn: Any, cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> None:
        word = "EXPLAIN QUERY PLAN" if conn.dialect.name == "sqlite" else "EXPLAIN"
        cursor.execute(f"{word} {statement}", parameters)
        lines.extend(str(tuple(row)) for row in cursor.fetchall())

    def ask(conn: Connection) -> None:
        sa.event.listen(conn.engine, "before_cursor_execute", explain)
        try:
            node_counts.nodes(conn)
            nodes.counts(conn, by=("provision_state",), where={}, most=9)
        finally:
            sa.event.remove(conn.engine, "before_cursor_execute", explain)

    fleet.read(ask)
    words = {"sqlite": "COVERING INDEX", "postgresql": "Index Only Scan"}
    found = [line for line in lines if words.get(fleet.kind, "Using index") in line]
    assert len(found) == 2, lines
