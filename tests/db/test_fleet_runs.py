"""Lists of runs of all nodes: order, pages, and the indexes that the databases enter."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import fleet_runs
from ironic_lite.db.tables import models
from tests.support.database_rows import NOON

NODES, RUNS = 100, 300
COLUMNS = ("uuid", "node_uuid", "node_name", "verb", "state", "error", "started_at")
OWNER = "p-small"


@pytest.fixture
def fleet(database: Database) -> Database:
    """A database with thirty thousand runs, of which one in a hundred has failed."""
    nodes = [
        {
            "uuid": str(uuid.uuid4()),
            "name": f"n{number}",
            "driver": "redfish",
            "provision_state": "available",
            "created_at": NOON,
            "owner": OWNER if number < 3 else "p-large",
        }
        for number in range(NODES)
    ]
    runs = [
        {
            "uuid": str(uuid.uuid4()),
            "node_uuid": node["uuid"],
            "owner": node["owner"],
            "verb": "clean",
            "request_id": "req-1",
            "started_at": NOON + datetime.timedelta(minutes=number * NODES + place),
            "state": "failed" if (failed := (place + number) % 100 == 0) else "done",
            "code": "BmcUnreachable" if failed else None,
        }
        for number in range(RUNS)
        for place, node in enumerate(nodes)
    ]

    def write(conn: Connection) -> None:
        conn.execute(models.nodes.insert(), nodes)
        conn.execute(models.runs.insert(), runs)

    database.write(write)
    _analyze(database)
    return database


def _analyze(database: Database) -> None:
    words = {"mysql": "ANALYZE TABLE runs, nodes", "mariadb": "ANALYZE TABLE runs, nodes"}

    def work(conn: Connection) -> None:
        conn.execute(sa.text(words.get(conn.dialect.name, "ANALYZE")))

    database.write(work)


def page(database: Database, **where: Any) -> list[dict[str, Any]]:
    """Return a page of the list."""
    more = {name: where.pop(name) for name in ("marker_id", "limit", "direction") if name in where}
    return database.read(lambda conn: fleet_runs.page(conn, columns=COLUMNS, where=where, **more))


SINCE = NOON + datetime.timedelta(minutes=(RUNS - 1) * NODES)
ASKED: dict[str, dict[str, Any]] = {
    "newest": {},
    "oldest": {"direction": "asc"},
    "failed": {"state": ["failed"]},
    "failed since": {"state": ["failed"], "since": SINCE},
    "since": {"since": SINCE},
    "before": {"before": SINCE},
    "code": {"code": ["BmcUnreachable"]},
    "driver": {"driver": ["redfish"]},
    "owner": {"of_owner": OWNER},
    "latest": {"latest": True},
    "latest failed": {"latest": True, "state": ["failed", "aborted"]},
    "latest of owner": {"latest": True, "of_owner": OWNER},
    "retry": {"retry_of": str(uuid.uuid4())},
}


def test_no_list_reads_the_whole_table(fleet: Database) -> None:
    whole = {}
    for asked, where in ASKED.items():
        plan = _plan(fleet, where)
        print(f"-- {asked}", *plan, sep="\n")
        if found := [line for line in plan if _reads_all(fleet.kind, line)]:
            whole[asked] = found
    assert whole == {}


def _plan(database: Database, where: dict[str, Any]) -> list[str]:
    """Return the lines of the plan of a list."""
    lines: list[str] = []

    def before(
        conn: Any, cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> None:
        if statement.startswith("SELECT") and "FROM runs" in statement and not lines:
            word = "EXPLAIN QUERY PLAN" if conn.dialect.name == "sqlite" else "EXPLAIN"
            cursor.execute(f"{word} {statement}", parameters)
            lines.extend(str(tuple(row)) for row in cursor.fetchall())

    def ask(conn: Connection) -> None:
        more = {name: word for name, word in where.items() if name == "direction"}
        kept = {name: word for name, word in where.items() if name != "direction"}
        fleet_runs.page(conn, columns=COLUMNS, where=kept, limit=20, **more)

    engine = database.read(lambda conn: conn.engine)
    sa.event.listen(engine, "before_cursor_execute", before)
    try:
        database.read(ask)
    finally:
        sa.event.remove(engine, "before_cursor_execute", before)
    return lines


def _reads_all(kind: str, line: str) -> bool:
    """Return whether a line of a plan reads all runs without an index."""
    if kind == "sqlite":
        return "SCAN runs" in line and "USING" not in line
    if kind == "postgresql":
        return "Seq Scan on runs" in line
    return "'runs'" in line and "'ALL'" in line


def test_pages_and_latest_runs_are_whole(fleet: Database) -> None:
    seen: list[dict[str, Any]] = []
    marker = None
    while found := page(fleet, state=["failed"], marker_id=marker, limit=50):
        seen += found
        marker = found[-1]["uuid"]
    starts = [run["started_at"] for run in seen]
    assert starts == sorted(starts, reverse=True)
    assert len({run["uuid"] for run in seen}) == len(seen) == NODES * RUNS // 100
    found = page(fleet, latest=True, limit=1000)
    assert len({run["node_uuid"] for run in found}) == len(found) == NODES
    assert min(run["started_at"] for run in found) >= SINCE
    failed = page(fleet, latest=True, state=["failed", "aborted"], limit=1000)
    assert len(failed) == NODES // 100
    assert {run["node_name"] for run in page(fleet, latest=True, of_owner=OWNER)} == {
        "n0",
        "n1",
        "n2",
    }
