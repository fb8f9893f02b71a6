"""Runs, their steps, and the history."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, holds, nodes, runs
from ironic_lite.db.tables import models
from ironic_lite.records import Event
from tests.support.database_rows import NOON, add_node, lock_node, new_uuid
from tests.support.statements import count_statements


def add_run(database: Database, node: str, **values: Any) -> str:
    """Insert a run and return its UUID."""
    row = {
        "uuid": new_uuid(),
        "node_uuid": node,
        "verb": "clean",
        "state": "running",
        "started_at": NOON,
        **values,
    }
    database.write(lambda conn: runs.insert(conn, row))
    return str(row["uuid"])


def steps_of(run: str, count: int) -> list[dict[str, Any]]:
    """Return rows for steps, all pending."""
    return [
        {
            "run_uuid": run,
            "ordinal": ordinal,
            "kind": "clean",
            "interface": "raid",
            "step": f"step-{ordinal}",
            "args": {"number": ordinal},
            "priority": 10.5,
            "abortable": True,
        }
        for ordinal in range(count)
    ]


def test_the_current_run_is_the_newest_that_has_not_ended(database: Database) -> None:
    node = add_node(database)
    assert database.read(lambda conn: runs.current(conn, node)) is None
    add_run(database, node, state="done")
    waiting = add_run(database, node, state="waiting")
    add_run(database, add_node(database))
    assert database.read(lambda conn: runs.current(conn, node))["uuid"] == waiting  # type: ignore[index]
    end = {"state": "failed", "ended_at": NOON, "error": {"code": "StepFailed"}}
    database.write(lambda conn: runs.update(conn, waiting, end))
    assert database.read(lambda conn: runs.current(conn, node)) is None
    row = dict(database.read(lambda conn: runs.get(conn, waiting)))
    assert {name: row[name] for name in end} == end


@pytest.mark.parametrize("unheld", [False, True])
def test_a_run_is_inserted_once_for_a_request(database: Database, unheld: bool) -> None:
    node, other = add_node(database), add_node(database)

    def insert(where: str, request: str) -> bool:
        row: dict[str, Any] = {"uuid": new_uuid(), "node_uuid": where, "request_id": request}
        row |= {"verb": "clean", "state": "running", "started_at": NOON, "error": {"code": "%s ?"}}
        with count_statements(database) as sent:
            added = database.write(lambda conn: runs.insert_first(conn, row, unheld=unheld))
        assert len(sent) == 1, sent
        if added:
            found = database.read(lambda conn: runs.get(conn, str(row["uuid"])))
            assert {name: found[name] for name in row} == row  # type: ignore[literal-required]
        return added

    asked = [(node, "req-1"), (node, "req-1"), (other, "req-1"), (node, "req-2")]
    assert [insert(*one) for one in asked] == [True, False, True, True]


@pytest.mark.parametrize(
    ("hold", "added"),
    [
        ({"until": None}, False),
        ({"until": clock.after(3600)}, False),
        ({"until": clock.after(-1)}, True),
        ({"until": None, "ended_at": NOON}, True),
    ],
    ids=["open", "timed", "over", "ended"],
)
def test_a_hold_in_force_keeps_a_run_from_being_inserted(
    database: Database, hold: dict[str, Any], added: bool
) -> None:
    node, free = add_node(database), add_node(database)
    about: dict[str, Any] = {"uuid": new_uuid(), "node_uuid": node, "kind": "audit"}
    about |= {"blocks": "use", "reason": "case 7", "created_at": NOON}
    database.write(lambda conn: holds.add(conn, {**about, **hold}))
    row = {"verb": "clean", "request_id": "req-1", "state": "running", "started_at": NOON}
    for where, expected in ((node, added), (free, True)):
        mine = {**row, "uuid": new_uuid(), "node_uuid": where}
        assert insert_unheld(database, mine) is expected


@pytest.mark.parametrize("unheld", [False, True])
def test_runs_without_a_request_are_all_inserted(database: Database, unheld: bool) -> None:
    node = add_node(database)
    row: dict[str, Any] = {"node_uuid": node, "request_id": None}
    row |= {"verb": "clean", "state": "running", "started_at": NOON}

    def insert(conn: Connection) -> bool:
        return runs.insert_first(conn, {**row, "uuid": new_uuid()}, unheld=unheld)

    assert [database.write(insert) for _ in range(2)] == [True, True]
    assert len(database.read(lambda conn: runs.page(conn, node))) == 2


@pytest.mark.parametrize("blocks", ["", "power", "use,erase"])
def test_any_hold_keeps_an_unheld_run_from_being_inserted_and_no_other(
    database: Database, blocks: str
) -> None:
    node = add_node(database)
    about: dict[str, Any] = {"uuid": new_uuid(), "node_uuid": node, "kind": "audit"}
    about |= {"blocks": blocks, "reason": "case 7", "created_at": NOON, "until": None}
    database.write(lambda conn: holds.add(conn, about))
    row = {"verb": "clean", "request_id": "req-1", "state": "running", "started_at": NOON}
    mine = {**row, "uuid": new_uuid(), "node_uuid": node}
    assert not insert_unheld(database, mine)
    assert database.write(lambda conn: runs.insert_first(conn, mine, unheld=False))


def insert_unheld(database: Database, row: dict[str, Any]) -> bool:
    """Insert a run of a node without a hold; return whether it was inserted."""
    return database.write(lambda conn: runs.insert_first(conn, row, unheld=True))


def test_runs_are_listed_newest_first(database: Database) -> None:
    node = add_node(database)
    uuids = [add_run(database, node, verb=verb) for verb in ("clean", "deploy", "clean")]
    add_run(database, add_node(database))

    def page(**more: Any) -> list[str]:
        rows = database.read(lambda conn: runs.page(conn, node, columns=("uuid",), **more))
        return [row["uuid"] for row in rows]

    assert page() == uuids[::-1]
    assert page(limit=1, marker_id=uuids[2]) == [uuids[1]]
    assert page(where={"verb": "clean"}, direction="asc") == [uuids[0], uuids[2]]


def test_an_unknown_run_is_not_found(database: Database) -> None:
    with pytest.raises(errors.NotFound):
        database.read(lambda conn: runs.get(conn, new_uuid()))


def test_many_steps_are_added_by_one_statement_and_read_in_order(database: Database) -> None:
    run = add_run(database, add_node(database))
    with count_statements(database) as sent:
        database.write(lambda conn: runs.insert_steps(conn, steps_of(run, 5)))
    assert len(sent) == 1, sent
    rows = database.read(lambda conn: runs.steps(conn, run))
    assert [row["step"] for row in rows] == [f"step-{number}" for number in range(5)]
    assert rows[3]["args"] == {"number": 3}
    assert (rows[3]["state"], rows[3]["priority"], rows[3]["abortable"]) == ("pending", 10.5, True)


def test_steps_with_different_changes_are_updated_by_one_statement(database: Database) -> None:
    run = add_run(database, add_node(database))
    database.write(lambda conn: runs.insert_steps(conn, steps_of(run, 3)))
    ended = {"kind": "clean", "ordinal": 0, "state": "failed", "ended_at": NOON, "error": {"a": 1}}
    began = {"kind": "clean", "ordinal": 1, "state": "running", "attempt": 1, "started_at": NOON}
    with count_statements(database) as sent:
        database.write(lambda conn: runs.update_steps(conn, run, [ended, began]))
    assert len(sent) == 1, sent
    rows = [dict(row) for row in database.read(lambda conn: runs.steps(conn, run))]
    changes: list[dict[str, Any]] = [ended, began, {"state": "pending"}]
    for row, change in zip(rows, changes, strict=True):
        assert {name: row[name] for name in change} == change
    assert (rows[0]["attempt"], rows[0]["started_at"]) == (0, None)
    assert (rows[1]["ended_at"], rows[1]["error"]) == (None, None)


def test_a_step_run_again_loses_its_end_and_error(database: Database) -> None:
    run = add_run(database, add_node(database))
    database.write(lambda conn: runs.insert_steps(conn, steps_of(run, 1)))
    failed = {"kind": "clean", "ordinal": 0, "state": "failed", "ended_at": NOON, "error": {"a": 1}}
    again = {"kind": "clean", "ordinal": 0, "state": "running", "ended_at": None, "error": None}
    for change in (failed, again):
        database.write(lambda conn, change=change: runs.update_steps(conn, run, [change]))  # type: ignore[misc]
    [row] = database.read(lambda conn: runs.steps(conn, run))
    assert (row["state"], row["ended_at"], row["error"]) == ("running", None, None)


@pytest.mark.parametrize("state", ["failed", "aborted"])
def test_a_run_that_ends_badly_leaves_no_step_open(database: Database, state: str) -> None:
    run, other = (add_run(database, add_node(database)) for _ in range(2))
    before = ["done", "running", "waiting", "pending"]
    for each in (run, other):
        rows = [{**row, "state": before[row["ordinal"]]} for row in steps_of(each, 4)]
        database.write(lambda conn, rows=rows: runs.insert_steps(conn, rows))  # type: ignore[misc]
    why = {"code": "Aborted"}
    with count_statements(database) as sent:
        database.write(lambda conn: runs.end_steps(conn, run, state=state, at=NOON, error=why))
    assert len(sent) == 1, sent
    found = database.read(lambda conn: runs.steps(conn, run))
    assert [(row["state"], row["ended_at"], row["error"]) for row in found] == [
        ("done", None, None),
        (state, NOON, why),
        (state, NOON, why),
        ("skipped", None, None),
    ]
    untouched = database.read(lambda conn: runs.steps(conn, other))
    assert [row["state"] for row in untouched] == before


def test_step_without_a_change_is_left_as_it_is(database: Database) -> None:
    run = add_run(database, add_node(database))
    database.write(lambda conn: runs.insert_steps(conn, steps_of(run, 3)))
    same = [{"kind": "clean", "ordinal": number} for number in range(2)]
    done = {"kind": "clean", "ordinal": 2, "state": "done"}
    database.write(lambda conn: runs.update_steps(conn, run, same))
    database.write(lambda conn: runs.update_steps(conn, run, [*same, done]))
    rows = database.read(lambda conn: runs.steps(conn, run))
    assert [row["state"] for row in rows] == ["pending", "pending", "done"]


def test_a_mistyped_column_of_a_step_is_refused(database: Database) -> None:
    with pytest.raises(KeyError, match="attempts"):
        database.write(
            lambda conn: runs.update_steps(conn, "x", [{"kind": "c", "ordinal": 0, "attempts": 1}])
        )


# -- events ----------------------------------------------------------------------------------


def test_events_are_read_behind_a_cursor(database: Database) -> None:
    one, other = new_uuid(), new_uuid()
    rows = [
        {"at": NOON, "node_uuid": one, "kind": "provision", "data": {"a": 1}, "before": "enroll"},
        {"at": NOON, "node_uuid": other, "kind": "power"},
        {"at": NOON, "node_uuid": one, "kind": "power"},
    ]
    with count_statements(database) as sent:
        database.write(lambda conn: events.add(conn, rows))
    assert len(sent) == 1, sent
    all_of_them = database.read(events.page)
    assert [row["kind"] for row in all_of_them] == ["provision", "power", "power"]
    assert (all_of_them[0]["data"], all_of_them[0]["before"]) == ({"a": 1}, "enroll")

    def read(**more: Any) -> list[int]:
        found = database.read(lambda conn: events.page(conn, **more))
        return [all_of_them.index(row) for row in found]

    first = all_of_them[0]["id"]
    assert read(after_id=first) == [1, 2]
    assert read(after_id=first, limit=1) == [1]
    assert read(node_uuid=one) == [0, 2]
    assert read(node_uuid=one, kinds=["power"], after_id=first) == [2]
    assert read(kinds=[]) == []


def test_history_is_read_out_of_the_events_in_both_directions(database: Database) -> None:
    one, other = new_uuid(), new_uuid()
    told = [("provision", "fail"), ("provision", "abort"), ("flow_ended", "deployment")]
    left_out = [("provision", "wait"), ("power", "changed"), ("step_ended", None)]
    rows = [
        {"at": NOON, "node_uuid": node, "kind": kind, "event": event}
        for pair in zip(told, left_out, strict=True)
        for kind, event in pair
        for node in (one, other)
    ]
    database.write(lambda conn: events.add(conn, rows))

    def read(**more: Any) -> list[Event]:
        shape = {"marker": None, "direction": "asc", "limit": 10, **more}
        return database.read(lambda conn: events.entries(conn, one, own={}, **shape))

    found = read()
    assert [(row["kind"], row["event"]) for row in found] == told
    ids = [row["id"] for row in found]
    assert [row["id"] for row in read(direction="desc")] == ids[::-1]
    assert [row["id"] for row in read(limit=2)] == ids[:2]
    assert [row["id"] for row in read(marker=ids[0])] == ids[1:]
    assert [row["id"] for row in read(marker=ids[1], direction="desc")] == ids[:1]
    for row in found:
        assert database.read(lambda conn, row=row: events.entry(conn, one, row["id"])) == row  # type: ignore[misc]
    hidden = [row["id"] for row in database.read(events.page) if row["id"] not in ids]
    for number in (*hidden, max(hidden) + 1, 2**60 - 1):
        assert database.read(lambda conn, n=number: events.entry(conn, one, n)) is None  # type: ignore[misc]


def test_an_events_number_is_never_given_twice(database: Database) -> None:
    row = {"at": NOON, "node_uuid": new_uuid(), "kind": "power"}
    numbers = set()
    for _ in range(3):
        database.write(lambda conn: events.add(conn, [row]))
        [found] = database.read(events.page)
        numbers.add(found["id"])
        database.write(lambda conn: conn.execute(models.events.delete()))
    assert len(numbers) == 3


def test_a_state_change_with_its_run_step_and_events_is_four_statements(database: Database) -> None:
    node = add_node(database)
    lock_node(database, node, "mine")
    run = add_run(database, node)
    database.write(lambda conn: runs.insert_steps(conn, steps_of(run, 2)))
    event = {"at": NOON, "node_uuid": node, "kind": "provision"}

    def work(conn: Connection) -> None:
        nodes.save(conn, node, {"provision_state": "clean wait", "last_error": None}, token="mine")
        runs.update(conn, run, {"state": "waiting"})
        runs.update_steps(conn, run, [{"kind": "clean", "ordinal": 0, "state": "waiting"}])
        events.add(conn, [event, event])

    with count_statements(database) as sent:
        database.write(work)
    assert len(sent) == 4, sent


def test_a_request_is_known_by_what_it_has_done_on_the_node(database: Database) -> None:
    """What others did since, and what else a request has written, is no sign of it."""
    node = add_node(database)
    done = {"at": NOON, "node_uuid": node, "kind": "power", "request_id": "req-1"}
    more = [{**done, "kind": "step_ended", "request_id": f"req-{n}"} for n in range(2, 100)]
    database.write(lambda conn: events.add(conn, [done, *more]))

    def refuse(where: str, request: str) -> None:
        with count_statements(database) as sent:
            database.read(lambda conn: events.refuse_again(conn, where, request))
        assert len(sent) == 1

    with pytest.raises(errors.Conflict, match="req-1 has been carried out"):
        refuse(node, "req-1")
    refuse(node, "req-2")
    refuse(add_node(database), "req-1")


def test_newest_run_is_read_with_its_steps_by_one_statement(database: Database) -> None:
    node = add_node(database)
    assert database.read(lambda conn: runs.newest_with_steps(conn, node)) == (None, [])
    old = add_run(database, node, state="done")
    database.write(lambda conn: runs.insert_steps(conn, steps_of(old, 1)))
    listed = {"kind": "clean", "steps": []}
    new = add_run(database, node, state="failed", listed=listed, error={"code": "StepFailed"})
    assert database.read(lambda conn: runs.newest_with_steps(conn, node))[1] == []
    database.write(lambda conn: runs.insert_steps(conn, steps_of(new, 3)))
    add_run(database, add_node(database))
    with count_statements(database) as sent:
        run, found = database.read(lambda conn: runs.newest_with_steps(conn, node))
    assert len(sent) == 1, sent
    assert run == database.read(lambda conn: runs.get(conn, new))
    known = database.read(lambda conn: runs.steps(conn, new))
    assert found == [{**step, "args": None} for step in known]
