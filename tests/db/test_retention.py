"""What is too old in a node's history, and how it goes in portions."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events, retention, runs
from ironic_lite.db.queries.retention import Excess
from tests.db.test_runs import add_run, steps_of
from tests.support.database_rows import NOON, add_node, new_uuid
from tests.support.statements import count_statements

LATE = NOON + datetime.timedelta(days=1)
ENTRY = {"kind": "flow_ended", "event": "deployment"}
OTHER = {"kind": "step_ended", "event": "deploy"}
NAMELESS = {"kind": "node_updated"}  # without an event: NULL must not spare it


def add_events(database: Database, node: str, *rows: dict[str, Any]) -> list[int]:
    """Append events and return their ids."""
    full = [{"at": NOON, "node_uuid": node, **row} for row in rows]
    database.write(lambda conn: events.add(conn, full))
    return ids(database, node)[-len(rows) :]


def ids(database: Database, node: str) -> list[int]:
    """Return the ids of a node's events."""
    rows = database.read(lambda conn: events.page(conn, node_uuid=node, limit=1000))
    return [row["id"] for row in rows]


def excess(database: Database, node: str, entries: int, others: int, kept: int = 1) -> Excess:
    return database.read(
        lambda conn: retention.excess(conn, node, entries=entries, others=others, runs=kept)
    )


def remove(
    database: Database, node: str, what: Excess, limit: int = 100, before: Any = LATE
) -> int:
    return database.write(
        lambda conn: retention.remove(conn, node, what, before=before, limit=limit)
    )


def test_events_older_than_the_last_entry_to_keep_are_removed(database: Database) -> None:
    node, other = new_uuid(), new_uuid()
    added = add_events(database, node, OTHER, ENTRY, OTHER, ENTRY, NAMELESS, ENTRY, OTHER)
    theirs = add_events(database, other, ENTRY, ENTRY, ENTRY)
    what = excess(database, node, 2, 100)
    assert what == Excess(added[3], 0, 0)
    assert remove(database, node, what) == 3
    assert ids(database, node) == added[3:]
    assert ids(database, other) == theirs


def test_of_the_others_so_many_are_kept_and_entries_stay(database: Database) -> None:
    node = new_uuid()
    added = add_events(database, node, ENTRY, OTHER, NAMELESS, ENTRY, OTHER, OTHER)
    what = excess(database, node, 100, 3)
    assert what == Excess(0, added[3], 0)
    assert remove(database, node, what) == 2
    assert ids(database, node) == [added[0], *added[3:]]


@pytest.mark.parametrize(("entries", "others"), [(2, 4), (9, 9)])
def test_events_within_the_limits_stay(database: Database, entries: int, others: int) -> None:
    node = new_uuid()
    added = add_events(database, node, ENTRY, OTHER, OTHER, ENTRY)
    what = excess(database, node, entries, others)
    remove(database, node, what)
    assert ids(database, node) == added


def test_a_portion_takes_the_oldest(database: Database) -> None:
    node = new_uuid()
    added = add_events(database, node, *[OTHER] * 5, ENTRY)
    what = excess(database, node, 1, 100)
    with count_statements(database) as sent:
        assert remove(database, node, what, limit=3) == 3
    assert len(sent) == 3, sent  # the choice, the removal, and the mark for followers
    assert ids(database, node) == added[3:]
    assert remove(database, node, what, limit=3) == 2
    assert remove(database, node, what, limit=3) == 0


def test_young_events_stay_whatever_their_number(database: Database) -> None:
    node = new_uuid()
    old = add_events(database, node, OTHER, OTHER)
    young = add_events(database, node, *({**row, "at": LATE} for row in (OTHER, ENTRY)))
    what = excess(database, node, 1, 1)
    assert remove(database, node, what, before=NOON) == 0
    assert remove(database, node, what, before=LATE) == 2
    assert ids(database, node) == young
    assert old


def test_runs_go_with_their_steps_but_for_those_that_are_open(database: Database) -> None:
    node = add_node(database)
    ended = {"state": "done", "ended_at": NOON}
    old, open_, kept, newest = (
        add_run(database, node, **more) for more in (ended, {"state": "waiting"}, ended, ended)
    )
    elsewhere = add_run(database, add_node(database), **ended)
    for run in (old, kept):
        database.write(lambda conn, run=run: runs.insert_steps(conn, steps_of(run, 2)))  # type: ignore[misc]
    what = excess(database, node, 1, 1, kept=2)

    def act(before: datetime.datetime) -> int:
        return database.write(
            lambda conn: retention.remove_runs(conn, node, what, before=before, limit=10)
        )

    assert act(NOON) == 0
    assert act(LATE) == 1
    page = database.read(lambda conn: runs.page(conn, node, direction="asc"))
    assert [run["uuid"] for run in page] == [open_, kept, newest]
    assert database.read(lambda conn: runs.steps(conn, old)) == []
    assert len(database.read(lambda conn: runs.steps(conn, kept))) == 2
    assert database.read(lambda conn: runs.get(conn, elsewhere))


def test_all_who_have_events_are_met_one_after_the_other(database: Database) -> None:
    living = [add_node(database, conductor_group="rack") for _ in range(2)]
    gone = new_uuid()
    add_node(database)  # nothing has ever happened to this one
    for node in (*living, gone):
        add_events(database, node, ENTRY, OTHER)
    met, after = [], ""
    while row := database.read(lambda conn, after=after: retention.next_node(conn, after)):  # type: ignore[misc]
        met.append((row["uuid"], bool(row["exists"]), row["driver"], row["conductor_group"]))
        after = row["uuid"]
    known = [(node, True, "fake-hardware", "rack") for node in living]
    assert met == sorted([*known, (gone, False, None, None)])


def test_a_node_that_is_gone_loses_all_of_its_events(database: Database) -> None:
    node, other = new_uuid(), new_uuid()
    assert database.read(lambda conn: retention.newest(conn, node)) is None
    add_events(database, node, ENTRY, {**OTHER, "at": LATE}, OTHER)
    add_events(database, other, ENTRY)
    assert database.read(lambda conn: retention.newest(conn, node)) == NOON
    sizes = [
        database.write(lambda conn: retention.remove_all(conn, node, limit=2)) for _ in range(3)
    ]
    assert sizes == [2, 1, 0]
    assert (ids(database, node), len(ids(database, other))) == ([], 1)
