"""The steps that statistics are made of: those that have ended, the newest ones, in pages."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import ended_steps, runs
from ironic_lite.domain.step_statistics import Ended
from tests.support.database_rows import NOON, add_node, new_uuid

END = NOON + datetime.timedelta(seconds=90)


def add_steps(database: Database, node: str, *rows: dict[str, Any]) -> None:
    run = new_uuid()
    row = {"uuid": run, "node_uuid": node, "verb": "clean", "state": "done", "started_at": NOON}
    common = {"run_uuid": run, "kind": "clean", "interface": "raid", "step": "create"}
    times = {"state": "done", "started_at": NOON, "ended_at": END}
    steps = [{**common, **times, "ordinal": at, **each} for at, each in enumerate(rows)]

    def work(conn: Any) -> None:
        runs.insert(conn, row)
        for step in steps:
            runs.insert_steps(conn, [step])

    database.write(work)


def read(database: Database) -> list[Ended]:
    return database.read(lambda conn: list(ended_steps.newest(conn)))


def test_steps_that_have_ended_are_read_with_their_machine(database: Database) -> None:
    node = add_node(database, driver="redfish", resource_class="gpu")
    cause = {"code": "AgentUnreachable", "text": "x"}
    add_steps(
        database,
        node,
        {},
        {"state": "failed", "error": {"code": "CleanStepFailed", "cause": cause}},
        {"state": "failed", "error": {"code": "TimedOut"}},
        {"state": "failed", "error": {"code": "TimedOut", "cause": None}},
        {"state": "aborted", "error": {"code": "Aborted"}},
        {"state": "skipped", "started_at": None, "ended_at": None},
        {"state": "running", "ended_at": None},
        {"done_in": new_uuid()},
    )
    found = read(database)
    assert {(*row[:3], *row[4:6], *row[7:]) for row in found} == {
        ("raid", "create", "clean", NOON, END, "redfish", "gpu")
    }
    assert sorted((row[3], str(row[6])) for row in found) == [
        ("aborted", "None"),
        ("done", "None"),
        ("failed", "AgentUnreachable"),
        ("failed", "TimedOut"),
        ("failed", "TimedOut"),
    ]


def test_no_steps_are_read_from_an_empty_table(database: Database) -> None:
    assert read(database) == []


def test_newest_steps_are_read_once_each_in_pages(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_steps, "_PAGE", 7)
    monkeypatch.setattr(ended_steps, "NEWEST", 30)
    node = add_node(database)
    pending = {"state": "pending", "started_at": None, "ended_at": None}
    add_steps(database, node, *({"step": f"s{at}"} if at % 3 else pending for at in range(60)))
    expected = [f"s{at}" for at in range(60) if at % 3][-30:]
    assert sorted(row[1] for row in read(database)) == sorted(expected)
