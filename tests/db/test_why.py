"""Queries of explanations: the newest run of a node with its steps."""

from __future__ import annotations

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs
from ironic_lite.features.why import rows
from tests.db.test_runs import add_run, steps_of
from tests.support.database_rows import add_node
from tests.support.statements import count_statements

pytestmark = pytest.mark.feature("why")


def test_newest_run_is_read_with_its_steps_by_one_statement(database: Database) -> None:
    node = add_node(database)
    assert database.read(lambda conn: rows.newest_with_steps(conn, node)) == (None, [])
    old = add_run(database, node, state="done")
    database.write(lambda conn: runs.insert_steps(conn, steps_of(old, 1)))
    listed = {"kind": "clean", "steps": []}
    new = add_run(database, node, state="failed", listed=listed, error={"code": "StepFailed"})
    assert database.read(lambda conn: rows.newest_with_steps(conn, node))[1] == []
    database.write(lambda conn: runs.insert_steps(conn, steps_of(new, 3)))
    add_run(database, add_node(database))
    with count_statements(database) as sent:
        run, found = database.read(lambda conn: rows.newest_with_steps(conn, node))
    assert len(sent) == 1, sent
    assert run == database.read(lambda conn: runs.get(conn, new))
    known = database.read(lambda conn: runs.steps(conn, new))
    assert found == [{**step, "args": None} for step in known]
