"""Steps that have been under way for long: found by the state of their run, marked once."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import overdue, runs
from ironic_lite.db.queries.overdue import LongStep
from tests.support.database_rows import NOON, add_node, new_uuid
from tests.support.statements import count_statements

OPEN = ("waiting", "waiting")


def minutes(number: float) -> datetime.datetime:
    return NOON + datetime.timedelta(minutes=number)


def add_step(
    database: Database,
    node: str,
    states: tuple[str, str] = OPEN,
    begun: datetime.datetime | None = NOON,
    **values: Any,
) -> str:
    """Add a run with one step; ``states`` are those of the run and of the step."""
    run = new_uuid()
    row = {"uuid": run, "node_uuid": node, "verb": "clean", "started_at": NOON}
    step = {"run_uuid": run, "kind": "clean", "ordinal": 0, "interface": "raid", "step": "create"}
    step |= {"state": states[1], "attempt": 1, "started_at": begun, **values}

    def work(conn: Any) -> None:
        runs.insert(conn, {**row, "state": states[0]})
        runs.insert_steps(conn, [step])

    database.write(work)
    return run


def long_steps(database: Database, **more: Any) -> list[LongStep]:
    return list(overdue.long_steps(database, minutes(15), **more))


def test_long_steps_are_those_under_way(database: Database) -> None:
    node = add_node(database, driver="redfish", resource_class="gpu", owner="p1")
    other = add_node(database, owner="p2")
    waiting = add_step(database, node)
    running = add_step(database, other, ("running", "running"), minutes(15))
    add_step(database, node, begun=minutes(16))
    add_step(database, node, ("waiting", "pending"), None)
    add_step(database, node, ("waiting", "done"))
    add_step(database, node, ("failed", "waiting"))
    marked = add_step(database, node, begun=minutes(20), overdue_at=minutes(21))
    add_step(database, node, begun=minutes(20), overdue_at=minutes(19))
    found = long_steps(database)
    assert [step["run_uuid"] for step in found] == [waiting, running, marked]
    assert [step["run_uuid"] for step in long_steps(database, owner="p2")] == [running]
    expected = {"uuid": node, "driver": "redfish", "resource_class": "gpu", "step": "create"}
    assert expected.items() <= found[0].items()
    assert [overdue.is_marked(step) for step in found] == [False, False, True]


def test_long_steps_are_read_in_pages(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overdue, "_PAGE", 3)
    node = add_node(database)
    expected = [add_step(database, node) for _ in range(7)]
    with count_statements(database) as sent:
        assert [step["run_uuid"] for step in long_steps(database)] == expected
    assert len(sent) == 3


def test_attempt_is_marked_once(database: Database) -> None:
    node = add_node(database)
    add_step(database, node)
    [step] = long_steps(database)

    def mark(attempt: int, at: datetime.datetime) -> bool:
        return database.write(lambda conn: overdue.mark(conn, step["id"], attempt=attempt, at=at))

    assert mark(2, minutes(20)) is False
    assert mark(1, minutes(20)) is True
    assert mark(1, minutes(20)) is False
    assert mark(1, minutes(21)) is False
    assert overdue.is_marked(long_steps(database)[0])
    again = {"kind": "clean", "ordinal": 0, "attempt": 2, "started_at": minutes(30)}
    database.write(lambda conn: runs.update_steps(conn, step["run_uuid"], [again]))
    assert mark(1, minutes(50)) is False
    assert mark(2, minutes(50)) is True
    done = {"kind": "clean", "ordinal": 0, "attempt": 3, "state": "done", "ended_at": minutes(51)}
    database.write(lambda conn: runs.update_steps(conn, step["run_uuid"], [done]))
    assert mark(3, minutes(60)) is False
    assert database.read(lambda conn: overdue.get(conn, step["id"])) is None
