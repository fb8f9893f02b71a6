"""Lists walk every row once, and cost what they return, by the indexes that they need."""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.api.resources import queries
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import (
    allocations,
    fleet_runs,
    nodes,
    ports,
    resources,
    step_durations,
    sweeps,
)
from ironic_lite.db.queries import conductors as db_conductors
from ironic_lite.db.tables import models
from ironic_lite.db.tables.models.column import metadata
from ironic_lite.domain import fields
from ironic_lite.features.batches import rows as batches_rows
from tests.support import population, whole_api
from tests.support.database_rows import NOON, add_node, new_uuid
from tests.support.sqlite_instructions import count_instructions
from tests.support.statements import count_statements

# Pages walk every row once, in one order on all databases, whatever is sorted by.

SORTABLE = sorted(
    {field.stored for field in fields.NODE if field.sort and field.stored is not None} | {"id"}
)
# Few values for many rows, so that ties and NULL are everywhere; letters that languages order
# differently from code points.
_TEXTS = (None, "a", "B", "ä", "b", "_", "Z", "a b", "\N{PILE OF POO}")
_ROWS = 14


def sample(number: int, chassis_uuids: list[str]) -> dict[str, Any]:
    """Return values for all sortable columns of one node."""
    values: dict[str, Any] = {}
    for place, column in enumerate(models.nodes.c):
        value = _value(column, number + place)
        if value is not None:
            values[column.key] = value
    values.update(uuid=new_uuid(), chassis_uuid=(None, *chassis_uuids)[number % 3])
    for unique in ("name", "instance_uuid"):
        values[unique] = None if number % 4 == 0 else f"{_TEXTS[1 + number % 8]}{number}"
    return values


def _value(column: Any, number: int) -> Any:
    if column.key == "id" or column.type.python_type is dict:
        return None
    if column.nullable and number % 4 == 0:
        return None
    if column.type.python_type is bool:
        return number % 2 == 1
    if column.type.python_type is datetime.datetime:
        return NOON + datetime.timedelta(microseconds=number % 3)
    if column.type.python_type is int:
        return number % 5
    return str(_TEXTS[1 + number % 8])


def fill(database: Database) -> list[dict[str, Any]]:
    """Add the sample and return all rows as stored."""
    racks = [new_uuid(), new_uuid()]
    for uuid in racks:
        database.write(lambda conn, uuid=uuid: resources.CHASSIS.insert(conn, {"uuid": uuid}))  # type: ignore[misc]
    for number in range(_ROWS):
        add_node(database, **sample(number, racks))
    return listed(database, {"include_children": True})


def listed(database: Database, where: Mapping[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Return one page."""
    return database.read(lambda conn: nodes.page(conn, columns=None, where=where, **more))


def test_every_sort_key_walks_each_row_once_and_in_order(database: Database) -> None:
    rows = fill(database)
    assert len(rows) == _ROWS
    for sort in SORTABLE:
        for direction in ("asc", "desc"):
            expected = sorted(
                rows,
                key=lambda row, sort=sort: (
                    (row[sort] is not None, row[sort] or 0, row["id"])  # type: ignore[misc]
                    if not isinstance(row[sort], str | datetime.datetime)
                    else (True, row[sort], row["id"])
                ),
                reverse=direction == "desc",
            )
            walked: list[str] = []
            marker = None
            while some := listed(
                database,
                {"include_children": True},
                sort=sort,
                direction=direction,
                marker_id=marker,
                limit=3,
            ):
                walked += [row["uuid"] for row in some]
                marker = walked[-1]
            assert walked == [row["uuid"] for row in expected], (sort, direction)


def test_a_page_after_a_marker_is_one_statement(database: Database) -> None:
    first = add_node(database, name="a")
    add_node(database, name="b")
    for sort in ("id", "name"):
        with count_statements(database) as sent:
            rows = listed(database, {}, sort=sort, marker_id=first)
        assert [row["name"] for row in rows] == ["b"]
        assert len(sent) == 1, sent


def test_an_unknown_marker_is_not_found_but_the_last_one_ends_the_list(database: Database) -> None:
    node = add_node(database)
    assert listed(database, {}, marker_id=node) == []
    for sort in ("id", "name"):
        with pytest.raises(errors.NotFound):
            listed(database, {}, sort=sort, marker_id=new_uuid())


def test_row_of_another_project_is_an_unknown_marker(database: Database) -> None:
    """Of nodes, and of what hangs below them, which is found by what its node is."""
    node = [add_node(database, owner=owner) for owner in ("a", "b", "a")]
    port = [new_uuid() for _ in node]
    for number, mine in enumerate(zip(node, port, strict=True)):
        row = {"node_uuid": mine[0], "uuid": mine[1], "address": f"52:54:00:00:00:0{number}"}
        database.write(lambda conn, row=row: ports.insert(conn, row))  # type: ignore[misc]
    for family, uuids in ((nodes.LISTING, node), (ports.FAMILY.listing, port)):
        for sort in ("id", "uuid"):
            after: dict[str, Any] = {"marker_id": uuids[0], "where": {"project": "a"}, "sort": sort}
            order = "asc" if sort == "id" or uuids[0] < uuids[2] else "desc"
            found = database.read(lambda conn: family.page(conn, **after, direction=order))  # noqa: B023
            assert [row["uuid"] for row in found] == [uuids[2]]
            after["marker_id"] = uuids[1]
            for direction in ("asc", "desc"):
                with pytest.raises(errors.NotFound):
                    database.read(lambda conn: family.page(conn, **after, direction=direction))  # noqa: B023


def test_row_of_another_node_is_an_unknown_marker(database: Database) -> None:
    """Where what one node has is listed."""
    node = [add_node(database), add_node(database)]
    port = sorted(new_uuid() for _ in range(3))
    for number, (uuid, mine) in enumerate(zip(port, (0, 1, 0), strict=True)):
        row = {"node_uuid": node[mine], "uuid": uuid, "address": f"52:54:00:00:00:0{number}"}
        database.write(lambda conn, row=row: ports.insert(conn, row))  # type: ignore[misc]

    def after(marker: str, **more: Any) -> list[str]:
        where = {"node_uuid": node[0]}
        found = database.read(lambda conn: ports.page(conn, where=where, marker_id=marker, **more))
        return [row["uuid"] for row in found]

    for sort in ("id", "uuid"):
        assert after(port[0], sort=sort) == [port[2]]
        for direction in ("asc", "desc"):
            with pytest.raises(errors.NotFound):
                after(port[1], sort=sort, direction=direction)


# -- filters ---------------------------------------------------------------------------------


def names(database: Database, **where: Any) -> list[str]:
    """Return the names of the nodes that a filter picks."""
    return [row["name"] for row in listed(database, where)]


@pytest.fixture
def fleet(database: Database) -> dict[str, str]:
    """Four nodes that differ; name -> UUID."""
    uuids = {
        "a": add_node(database, name="a", instance_uuid=new_uuid(), shard="s1", owner="me"),
        "b": add_node(database, name="b", maintenance=True, shard="s2", lessee="me"),
        "c": add_node(database, name="c", driver="redfish", retired=True, fault="power failure"),
    }
    uuids["d"] = add_node(database, name="d", parent_node=uuids["a"], owner="you")
    return uuids


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, "abc"),
        ({"include_children": True}, "abcd"),
        ({"include_children": False}, "abc"),
        ({"associated": True}, "a"),
        ({"associated": False}, "bc"),
        ({"maintenance": True}, "b"),
        ({"maintenance": False, "include_children": True}, "acd"),
        ({"retired": True}, "c"),
        ({"fault": "power failure"}, "c"),
        ({"fault": None}, "ab"),
        ({"driver": "redfish"}, "c"),
        ({"provision_state": "manageable"}, "abc"),
        ({"provision_state": ["enroll", "manageable"]}, "abc"),
        ({"shard": ["s1", "s2"]}, "ab"),
        ({"shard": []}, ""),
        ({"sharded": True}, "ab"),
        ({"sharded": False}, "c"),
        ({"project": "me"}, "ab"),
        ({"owner": "you", "include_children": True}, "d"),
        ({"uuids": []}, ""),
        ({"name": "b", "maintenance": True}, "b"),
        ({"name": "b", "maintenance": False}, ""),
    ],
)
def test_a_filter_picks(
    database: Database, fleet: dict[str, str], where: dict[str, Any], expected: str
) -> None:
    assert names(database, **where) == list(expected)


def test_children_are_listed_by_their_parent(database: Database, fleet: dict[str, str]) -> None:
    assert names(database, parent_node=fleet["a"]) == ["d"]
    assert names(database, uuids=[fleet["a"], fleet["c"], new_uuid()]) == ["a", "c"]


@pytest.mark.parametrize(
    "wanted", ["%", "_", "!", "\\", "'", '"', "50%", "a_c", "x!y", "back\\slash", "emoji 😀"]
)
def test_description_filter_has_no_wildcards(database: Database, wanted: str) -> None:
    add_node(database, name="hit", description=f"there is {wanted.upper()} in it")
    add_node(database, name="miss", description="there 50 abc xy backslash emoji is none in it")
    add_node(database, name="empty")
    assert names(database, description_contains=wanted) == ["hit"]


def test_a_filter_and_a_marker_go_together(database: Database, fleet: dict[str, str]) -> None:
    found = listed(
        database,
        {"sharded": True, "maintenance": [True, False]},
        marker_id=fleet["a"],
        sort="shard",
    )
    assert [row["name"] for row in found] == ["b"]


# Sorted and filtered lists read the rows that they return, whatever the order of enrollment.
#
# SQLite counts the instructions of its virtual machine, MariaDB the rows it has read, and
# PostgreSQL the rows of each part of a plan.

NODES, LATE, BARE, RARE = 3000, 30, 100, 5
LIMIT = 5
MOST_INSTRUCTIONS = {"sqlite": 1200, "postgresql": 700, "mysql": 700, "mariadb": 700}
"""What a page may cost; a walk past all other nodes costs more than this."""
SOME = {"sqlite": 200, "postgresql": 20, "mysql": 20, "mariadb": 20}
"""What a page of one value may cost; a sort of all its rows costs more than this."""
_FILTERS = (
    *("driver", "conductor_group", "resource_class", "owner", "lessee", "shard", "fault"),
    "health",
)
_FLAGS = ("maintenance", "retired")
SORTED = (*_FILTERS, *_FLAGS, "data_state", "uuid", "name", "instance_uuid", "provision_state")

Ask = Callable[[Connection], Any]


@pytest.fixture
def sorted_fleet(database: Database) -> Iterator[Database]:
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
            if database.kind == "postgresql":  # indexes are large of the rows of other tests
                conn.execute(sa.text("VACUUM FULL nodes, runs"))
            conn.execute(sa.text(f"{word} nodes, runs"))
            # While the server's own worker has an older snapshot, rows do not count as visible to
            # all, and the server prefers a sort to an index.
            end = time.monotonic() + 60
            while database.kind == "postgresql" and conn.execute(_HIDDEN).scalar_one():
                assert time.monotonic() < end
                time.sleep(0.1)
                conn.execute(sa.text(f"{word} nodes, runs"))


_HIDDEN = sa.text(
    "SELECT count(*) FROM pg_class WHERE relname IN ('nodes', 'runs') AND relkind = 'r' "
    "AND relallvisible < relpages"
)


def _node(number: int) -> dict[str, Any]:
    late, bare = number >= NODES - LATE, number % BARE == 0
    value = "late" if late else f"early-{number % 2}"
    return {
        **dict.fromkeys(_FILTERS, value),
        **dict.fromkeys(("owner", "lessee", "shard", "fault", "health"), None if bare else value),
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
    database: Database, asked: dict[str, Ask], most: Mapping[str, int] = MOST_INSTRUCTIONS
) -> dict[str, int]:
    """Return what costs more than it may."""
    found = {name: cost(database, ask) for name, ask in asked.items()}
    return {name: one for name, one in found.items() if one > most[database.kind]}


def _page(**more: Any) -> Ask:
    return lambda conn: nodes.page(conn, columns=("uuid", "name"), limit=LIMIT, **more)


def test_a_sorted_page_costs_what_it_returns(sorted_fleet: Database) -> None:
    asked = {
        f"{sort} {direction}": _page(sort=sort, direction=direction)
        for sort in SORTED
        for direction in ("asc", "desc")
    }
    assert dear(sorted_fleet, asked) == {}


def test_a_sorted_page_behind_a_marker_costs_what_it_returns(sorted_fleet: Database) -> None:
    middle = NODES // 2  # has no name; the next node has one

    def marker(place: int) -> str:
        chosen = sa.select(models.nodes.c.uuid).order_by(models.nodes.c.id).offset(place).limit(1)
        return sorted_fleet.read(lambda conn: str(conn.execute(chosen).scalar_one()))

    asked = {
        f"{sort} {direction} {place}": _page(
            sort=sort, direction=direction, marker_id=marker(place)
        )
        for sort in SORTED
        for direction in ("asc", "desc")
        for place in (middle, middle + 1)
    }
    assert dear(sorted_fleet, asked) == {}


def test_a_filter_reads_its_index_in_the_order_of_the_list(sorted_fleet: Database) -> None:
    asked = {name: _page(where={name: "late"}) for name in _FILTERS if name != "driver"}
    asked |= {name: _page(where={name: True}) for name in _FLAGS}
    asked |= {"data_state": _page(where={"data_state": "dirty"})}
    assert dear(sorted_fleet, asked, SOME) == {}


def test_runs_of_few_nodes_pass_no_other_run_by(sorted_fleet: Database) -> None:
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
    assert dear(sorted_fleet, asked) == {}


def test_counts_read_an_index_alone(sorted_fleet: Database) -> None:
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
            nodes.count_by_state(conn)
            nodes.counts(conn, by=("provision_state",), where={}, most=9)
        finally:
            sa.event.remove(conn.engine, "before_cursor_execute", explain)

    sorted_fleet.read(ask)
    words = {"sqlite": "COVERING INDEX", "postgresql": "Index Only Scan"}
    found = [line for line in lines if words.get(sorted_fleet.kind, "Using index") in line]
    assert len(found) == 2, lines


# Lists cost what they give: behind every filter stands an index.
#
# What SQLite reads in a larger fleet is counted below.

COLUMN_OF = {
    "associated": "instance_uuid",
    "sharded": "shard",
    "include_children": "parent_node",
    "node": "node_uuid",
    "nodes": "node_uuid",
    "portgroup": "portgroup_uuid",
    "since": "started_at",
    "before": "started_at",
    "latest": "node_uuid",
    "ended": "ended_at",
}
"""Filters that are told by a column of another name."""
TABLES = {"NODES_RUNS": "runs", "NODES_HOLDS": "holds", "NODES_ERASURES": "erasures"}
"""Resources whose table has another name."""
JOINED = {
    "driver": ("nodes", "driver"),
    "resource_class": ("nodes", "resource_class"),
    "shard": ("nodes", "shard"),
    "conductor_groups": ("nodes", "conductor_group"),
    "batch": ("batch_nodes", "batch_uuid"),
    "serial": ("erasure_disks", "serial"),
}
"""Filters of what belongs to nodes, by a column of the node or of its place in a batch."""
BOTH = {"NODES": ("owner", "lessee"), "RUNBOOKS": ("owner",), "RUNS": ("project",)}
"""What ``project`` is compared with."""
WITHOUT = {
    ("NODES", "conductor"),  # is worked out for each row: see api.resources.rosters
    ("NODES", "description_contains"),  # no index finds the middle of a text
    ("PORTS", "description_contains"),
    ("NODES_RUNS", "verb"),  # of one node, which has 300 runs
    ("RUNS", "overdue"),  # of the runs under way, by their state
    ("NODES", "held"),  # reads the holds in force
    ("NODES", "cause"),  # reads the runs of the cause
    # Of the holds in force, or of one node.
    *((name, "kind") for name in ("HOLDS", "NODES_HOLDS")),
    # At most 100 batches are open, and ended ones stay 90 days.
    *(("BATCHES", asked) for asked in ("state", "project", "requester", "name")),
    *(("BATCHES_NODES", asked) for asked in ("result", "wave")),  # of one batch
}


def led_by(table: sa.Table) -> set[str]:
    """Return the columns by which an index of the table is entered."""
    indexes = [[column.name for column in one.columns] for one in table.indexes]
    indexes += [
        [column.name for column in one.columns]
        for one in table.constraints
        if isinstance(one, sa.UniqueConstraint | sa.PrimaryKeyConstraint)
    ]
    return {columns[0] for columns in indexes if columns}


assert whole_api.CONTROLLERS  # features add their resources with them
FILTERS = [
    (name, one.name)
    for name, resource in sorted(queries.RESOURCES.items())
    if isinstance(resource, queries.Resource)
    for one in resource.filters
    if (name, one.name) not in WITHOUT
]


def columns_of(name: str, asked: str) -> list[tuple[str, str]]:
    """Return table and column of what a filter compares."""
    table = TABLES.get(name, name.lower())
    if asked == "project":
        return [(table, column) for column in BOTH[name]]
    if (table, asked) == ("erasures", "since"):
        return [(table, "at")]
    if asked in JOINED and asked not in metadata.tables[table].c:
        return [JOINED[asked], (table, "node_uuid")]
    return [(table, COLUMN_OF.get(asked, asked))]


@pytest.mark.parametrize(("name", "asked"), FILTERS, ids=map(".".join, FILTERS))
def test_a_filter_has_an_index(name: str, asked: str) -> None:
    for table, column in columns_of(name, asked):
        assert column in led_by(metadata.tables[table]), f"{table}.{column}"


# Lists and sweeps cost what they return: as much in a fleet ten times as large.
#
# SQLite counts the instructions of its virtual machine, which depend on neither the machine nor its
# load. ``benchmarks/growth.py`` measures the same on PostgreSQL.

SMALL, LARGE = 500, 5000
MOST_GROWTH = 1.1
_BRIEF = ("uuid", "name", "provision_state")
_RUN = ("uuid", "node_uuid", "node_name", "state", "started_at")

FILLED_NODES: dict[str, dict[str, Any]] = {
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
    "health": {"health": "Critical"},
    "held": {"held": True},
    "lessee": {"lessee": "absent"},
    "instance name": {"instance_name": "absent"},
    "cause": {"cause": [population.CAUSE]},
    "cause of a project": {"cause": [population.CAUSE], "own_owner": "p", "own_lessee": None},
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
    "cause": {"cause": [population.COMMON_CAUSE]},
    "causes": {"cause": [population.COMMON_CAUSE, population.CAUSE]},
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
    "batches": batches_rows.open_batches,
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
    assert large <= small * MOST_GROWTH, (
        f"{small} instructions with {SMALL} nodes, {large} with {LARGE}"
    )


@pytest.mark.parametrize("asked", FILLED_NODES)
def test_a_page_of_nodes_costs_what_it_returns(
    fleets: tuple[Database, Database], asked: str
) -> None:
    check(
        fleets,
        lambda conn: nodes.page(conn, columns=_BRIEF, where=FILLED_NODES[asked], limit=LIMIT),
    )


@pytest.mark.parametrize("asked", ["all", "state", "states", "project", "no maintenance"])
def test_a_page_after_a_marker_costs_what_it_returns(
    fleets: tuple[Database, Database], asked: str
) -> None:
    where = FILLED_NODES[asked]

    def page(conn: Connection) -> None:
        [first] = nodes.page(conn, columns=("uuid",), where=where, limit=1)
        found = nodes.page(conn, columns=_BRIEF, where=where, marker_id=first["uuid"], limit=LIMIT)
        assert len(found) == LIMIT

    check(fleets, page)


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["name", "owner", "resource_class", "driver", "maintenance"])
def test_sorted_page_costs_as_much_in_a_larger_fleet(
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
        assert len(list(step_durations.long_steps(reader, clock.after(60)))) == 80

    check(fleets, look)
