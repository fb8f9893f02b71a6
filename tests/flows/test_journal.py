"""The history of a task, and the checks that are made when it is written."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.work.journal import Journal
from ironic_lite.core import context
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import holds, nodes, runs
from tests.support.database_rows import NOON, add_node, new_uuid


@pytest.fixture
def node(sqlite_database: Database) -> str:
    """A node with a hold that refuses erasing and deploying it."""
    node = add_node(sqlite_database)
    about: dict[str, Any] = {"uuid": new_uuid(), "node_uuid": node, "kind": "legal"}
    about |= {"blocks": "erase", "reason": "case 7", "created_at": NOON, "until": None}
    sqlite_database.write(lambda conn: holds.add(conn, about))
    return node


def new_journal(database: Database, node: str) -> Journal:
    """Return the journal of a task on a node."""
    loaded = database.read(lambda conn: nodes.load(conn, node))
    return Journal(context.internal("test"), "host", loaded)


def test_hold_to_look_for_needs_a_save(sqlite_database: Database, node: str) -> None:
    journal = new_journal(sqlite_database, node)
    assert not journal.pending
    journal.refuse_held("clean", "clean")
    assert journal.pending
    journal.settle()
    assert not journal.pending


@pytest.mark.parametrize("with_run", [False, True])
@pytest.mark.parametrize("operations", [("clean", "inspect"), ("inspect", "clean")])
def test_each_operation_of_a_task_is_refused_by_its_hold(
    sqlite_database: Database, node: str, operations: tuple[str, ...], with_run: bool
) -> None:
    journal = new_journal(sqlite_database, node)
    if with_run:
        journal.start_run("inspect")
    for operation in operations:
        journal.refuse_held(operation, operation)
    with pytest.raises(errors.NodeHeld, match="clean"):
        sqlite_database.write(journal.write)
    assert sqlite_database.read(lambda conn: runs.latest(conn, node)) is None


def test_run_of_an_operation_that_no_hold_blocks_is_written(
    sqlite_database: Database, node: str
) -> None:
    journal = new_journal(sqlite_database, node)
    run = journal.start_run("inspect")
    journal.refuse_held("inspect", "inspect")
    sqlite_database.write(journal.write)
    found = sqlite_database.read(lambda conn: runs.latest(conn, node))
    assert found is not None
    assert found["uuid"] == run
