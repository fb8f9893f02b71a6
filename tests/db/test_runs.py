"""Runs, their steps, stops and logs, and the history."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine import history
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events, nodes, runs, step_durations
from ironic_lite.db.queries.step_durations import LongStep
from ironic_lite.db.tables import models
from ironic_lite.records import Event
from tests.support.database_rows import NOON, add_node, get_node, insert_run, lock_node, new_uuid
from tests.support.statements import count_statements

# Runs, their steps, and the history.


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
    database.write(lambda conn: insert_run(conn, row))
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


def test_a_run_is_inserted_once_for_a_request(database: Database) -> None:
    node, other = add_node(database), add_node(database)

    def insert(where: str, request: str) -> int:
        """Return the number of statements."""
        row: dict[str, Any] = {"uuid": new_uuid(), "node_uuid": where, "request_id": request}
        row |= {"verb": "clean", "state": "running", "started_at": NOON, "error": {"code": "%s ?"}}
        with count_statements(database) as sent:
            database.write(lambda conn: runs.insert(conn, row))
        found = database.read(lambda conn: runs.get(conn, str(row["uuid"])))
        assert {name: found[name] for name in row} == row  # type: ignore[literal-required]
        return len(sent)

    assert insert(node, "req-1") == 1
    with pytest.raises(errors.Conflict, match="req-1 has been taken"):
        insert(node, "req-1")
    assert [insert(other, "req-1"), insert(node, "req-2")] == [1, 1]


def test_runs_without_a_request_are_all_inserted(database: Database) -> None:
    node = add_node(database)
    row: dict[str, Any] = {"node_uuid": node, "request_id": None}
    row |= {"verb": "clean", "state": "running", "started_at": NOON}
    for _ in range(2):
        database.write(lambda conn: runs.insert(conn, {**row, "uuid": new_uuid()}))
    assert len(database.read(lambda conn: runs.page(conn, node))) == 2


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


# The stop of a run: one conditional statement decides if a step begins or the stop was faster.

STOP = '{"how":"hold","reason":"disk 3, côté A"}'


def save(database: Database, node: str, token: str, known: str | None) -> None:
    values = {"last_error": "begun"}
    database.write(
        lambda conn: runs.save_unless_stopped(
            conn, node, values, token=token, at=clock.now(), known=known
        )
    )


@pytest.mark.parametrize("stop", [None, STOP])
def test_save_with_the_known_stop_is_one_statement(database: Database, stop: str | None) -> None:
    node = add_node(database, run_stop=stop)
    assert lock_node(database, node, "mine")
    with count_statements(database) as sent:
        save(database, node, "mine", stop)
    assert len(sent) == 1, sent
    assert get_node(database, node)["last_error"] == "begun"


@pytest.mark.parametrize(
    ("known", "now"), [(None, STOP), (STOP, None), (STOP, STOP.replace("A", "a"))]
)
def test_save_with_another_stop_writes_nothing(
    database: Database, known: str | None, now: str | None
) -> None:
    node = add_node(database, run_stop=now)
    assert lock_node(database, node, "mine")
    with pytest.raises(runs.StopChanged) as caught:
        save(database, node, "mine", known)
    assert caught.value.text == now
    assert get_node(database, node)["last_error"] is None


def test_save_with_a_lost_lock_is_refused_as_ever(database: Database) -> None:
    node = add_node(database)
    assert lock_node(database, node, "mine")
    with pytest.raises(errors.LockLost):
        save(database, node, "another", None)


def test_stop_is_written_without_the_lock_and_for_the_active_run_alone(database: Database) -> None:
    run = new_uuid()
    node = add_node(database, run_uuid=run)
    assert lock_node(database, node, "mine")
    before = get_node(database, node)
    assert not database.write(lambda conn: runs.put_stop(conn, node, new_uuid(), STOP))
    assert database.write(lambda conn: runs.put_stop(conn, node, run, STOP))
    assert get_node(database, node) == {**before, "run_stop": STOP}


# Lines of runs on each database: order, removal, and runs that are gone.


@pytest.fixture
def run(database: Database) -> str:
    """The UUID of a run."""
    node, known = add_node(database), str(uuid.uuid4())
    row = {"uuid": known, "node_uuid": node, "verb": "clean", "state": "running"}
    database.write(lambda conn: insert_run(conn, {**row, "started_at": clock.now()}))
    return known


def append(database: Database, run: str, *texts: str) -> None:
    def write(conn: Connection) -> None:
        for text in texts:
            runs.append_lines(conn, run, at=clock.now(), text=text)

    database.write(write)


def texts(database: Database, run: str) -> list[str]:
    return [row.text for row in database.read(lambda conn: runs.log_rows(conn, run))]


def test_rows_come_in_the_order_of_writing(database: Database, run: str) -> None:
    append(database, run, "one", "tw\u00f6\n2", "three \U0001f600")
    assert texts(database, run) == ["one", "tw\u00f6\n2", "three \U0001f600"]
    found = database.read(lambda conn: runs.log_rows(conn, run))
    later = database.read(lambda conn: runs.log_rows(conn, run, after=found[1].id))
    assert later == found[2:]


def test_row_holds_more_than_64_kib(database: Database, run: str) -> None:
    append(database, run, "\u00e9" * 100_000)
    assert texts(database, run) == ["\u00e9" * 100_000]


def test_unknown_run_gets_no_row(database: Database, run: str) -> None:
    append(database, str(uuid.uuid4()), "nowhere")
    assert texts(database, run) == []


def test_middle_is_replaced_by_one_row(database: Database, run: str) -> None:
    append(database, run, *"abcde")
    found = database.read(lambda conn: runs.log_rows(conn, run))
    ids = [row.id for row in found[1:4]]
    database.write(lambda conn: runs.replace_log_rows(conn, ids, "gone"))
    assert texts(database, run) == ["a", "gone", "e"]


def test_first_write_of_a_process_reads_no_text(database: Database, run: str) -> None:
    append(database, run, "\u00e9" * 50_000, "a\\n'b" * 10_000)
    with count_statements(database) as sent:
        size = database.read(lambda conn: history.LogSizes().limit(conn, run, 1))
    assert size == 100_000 + 50_000
    assert len(sent) == 1
    assert "sum(" in sent[0], sent


def test_log_above_the_limit_is_shortened(database: Database, run: str) -> None:
    sizes = history.LogSizes()
    for number in range(30):
        text = f"{number} " + "x" * 20_000

        def write(conn: Connection, text: str = text) -> int:
            runs.append_lines(conn, run, at=clock.now(), text=text)
            return sizes.limit(conn, run, len(text))

        sizes.know(run, database.write(write))
    found = texts(database, run)
    assert sum(map(len, found)) <= history.LOG_LIMIT
    assert (found[0][:2], found[-1][:3]) == ("0 ", "29 ")
    gaps = [text for text in found if "left out here" in text]
    assert len(gaps) == 1
    gone = 30 * 20_002 - sum(len(text) for text in found if text not in gaps)
    (kib,) = [int(word) for word in gaps[0].replace("(", " ").split() if word.isdigit()]
    assert abs(gone // 1024 - kib) < 10


# Steps that have been under way for long: found by the state of their run, marked once.

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
        insert_run(conn, {**row, "state": states[0]})
        runs.insert_steps(conn, [step])

    database.write(work)
    return run


def long_steps(database: Database, **more: Any) -> list[LongStep]:
    return list(step_durations.long_steps(database, minutes(15), **more))


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
    assert [step_durations.is_marked_overdue(step) for step in found] == [False, False, True]


def test_long_steps_are_read_in_pages(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_durations, "_PAGE", 3)
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
        return database.write(
            lambda conn: step_durations.mark_overdue(conn, step["id"], attempt=attempt, at=at)
        )

    assert mark(2, minutes(20)) is False
    assert mark(1, minutes(20)) is True
    assert mark(1, minutes(20)) is False
    assert mark(1, minutes(21)) is False
    assert step_durations.is_marked_overdue(long_steps(database)[0])
    again = {"kind": "clean", "ordinal": 0, "attempt": 2, "started_at": minutes(30)}
    database.write(lambda conn: runs.update_steps(conn, step["run_uuid"], [again]))
    assert mark(1, minutes(50)) is False
    assert mark(2, minutes(50)) is True
    done = {"kind": "clean", "ordinal": 0, "attempt": 3, "state": "done", "ended_at": minutes(51)}
    database.write(lambda conn: runs.update_steps(conn, step["run_uuid"], [done]))
    assert mark(3, minutes(60)) is False
    assert database.read(lambda conn: step_durations.get_long_step(conn, step["id"])) is None
