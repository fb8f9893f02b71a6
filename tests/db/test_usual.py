"""The samples of usual durations: the newest steps that ended well, read once in a while."""

from __future__ import annotations

import datetime
from typing import Any

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs, usual
from ironic_lite.db.queries.usual import UsualTimes
from ironic_lite.domain.step_times import Sample
from tests.support.database_rows import NOON, add_node, new_uuid
from tests.support.statements import count_statements

NAME = ("deploy", "erase_devices")
STEP = dict(zip(("interface", "step"), NAME, strict=True))
NARROWEST = ("step", "driver", "resource_class")


def add_steps(database: Database, node: str, *seconds: float, **values: Any) -> None:
    """Add a run with one done step for each duration."""
    run = new_uuid()
    row = {"uuid": run, "node_uuid": node, "verb": "clean", "state": "done", "started_at": NOON}
    rows = [
        {
            **STEP,
            "run_uuid": run,
            "kind": "clean",
            "ordinal": ordinal,
            "state": "done",
            "started_at": NOON,
            "ended_at": NOON + datetime.timedelta(seconds=one),
            **values,
        }
        for ordinal, one in enumerate(seconds)
    ]

    def work(conn: Any) -> None:
        runs.insert(conn, row)
        runs.insert_steps(conn, rows)

    database.write(work)


def read(database: Database) -> list[Sample]:
    return database.read(lambda conn: usual.samples(conn, [NAME]))[NAME]


def test_samples_are_steps_of_this_name_that_ended_well(database: Database) -> None:
    node = add_node(database, driver="redfish", resource_class="gpu")
    add_steps(database, node, 10.5)
    add_steps(database, node, 11, state="failed")
    add_steps(database, node, 12, state="skipped", started_at=None, ended_at=None)
    add_steps(database, node, 13, interface="raid")
    add_steps(database, node, 14, step="erase_devices_metadata")
    add_steps(database, node, 15, state="waiting", ended_at=None)
    add_steps(database, node, 16, done_in=new_uuid())  # a retry has kept it
    add_steps(database, add_node(database, driver="ipmi", resource_class=None), 20)
    assert sorted(read(database)) == [Sample(10.5, "redfish", "gpu"), Sample(20, "ipmi", None)]


def test_samples_are_the_newest(database: Database) -> None:
    node = add_node(database)
    add_steps(database, node, *range(usual.NEWEST + 50))
    assert sorted(one.seconds for one in read(database)) == list(range(50, usual.NEWEST + 50))


def test_samples_are_found_behind_steps_that_have_not_ended(database: Database) -> None:
    node = add_node(database)
    add_steps(database, node, 7)
    add_steps(database, node, *([1] * 300), state="pending", started_at=None, ended_at=None)
    assert [one.seconds for one in read(database)] == [7]


def test_samples_of_a_step_are_read_once_in_five_minutes(sqlite_database: Database) -> None:
    database = sqlite_database
    now = [1000.0]
    times = UsualTimes(database, now=lambda: now[0])
    node = add_node(database)
    add_steps(database, node, 1, 2, 3, 4, 5)
    with count_statements(database) as first:
        assert times.of(*NAME, "fake-hardware", None) == (3, 5, 5, NARROWEST)
    assert len(first) == 1
    add_steps(database, node, 6, 7)
    now[0] += usual.FRESH - 1
    with count_statements(database) as second:
        assert times.of(*NAME, "redfish", "gpu") == (3, 5, 5, ("step",))
    assert len(second) == 0
    now[0] += 2
    assert times.of(*NAME, "fake-hardware", None) == (4, 7, 7, NARROWEST)


def test_few_samples_are_read_again_after_a_second(sqlite_database: Database) -> None:
    now = [1000.0]
    times = UsualTimes(sqlite_database, now=lambda: now[0])
    node = add_node(sqlite_database)
    add_steps(sqlite_database, node, 1, 2, 3, 4)
    assert times.of(*NAME, "fake-hardware", None) is None
    add_steps(sqlite_database, node, 5)
    assert times.of(*NAME, "fake-hardware", None) is None
    now[0] += usual.FRESH_IF_FEW
    assert times.of(*NAME, "fake-hardware", None) == (3, 5, 5, NARROWEST)


def test_samples_of_many_names_are_read_by_one_statement(database: Database) -> None:
    node = add_node(database)
    add_steps(database, node, 1, 2, 3, 4, 5)
    add_steps(database, node, 6, 7, 8, 9, 10, step="create")
    times = UsualTimes(database, now=lambda: 0.0)
    unknown = [("raid", f"step_{number}") for number in range(48)]
    wanted = [NAME, *unknown, ("deploy", "create"), ("power", "wait")]
    with count_statements(database) as sent:
        found = times.of_all(wanted, "fake-hardware", None)
    assert len(sent) == 1, sent
    assert found == {
        **dict.fromkeys(wanted),
        NAME: (3, 5, 5, NARROWEST),
        ("deploy", "create"): (8, 10, 5, NARROWEST),
    }
    with count_statements(database) as again:
        assert times.of_all(wanted, "fake-hardware", None) == found
    assert len(again) == 0
    more = [("raid", f"other_{number}") for number in range(120)]
    with count_statements(database) as three:
        times.of_all(more, None, None)
    assert len(three) == 3


def test_absence_of_samples_is_kept_for_half_a_minute(sqlite_database: Database) -> None:
    now = [1000.0]
    times = UsualTimes(sqlite_database, now=lambda: now[0])
    node = add_node(sqlite_database)
    assert times.of(*NAME, "fake-hardware", None) is None
    add_steps(sqlite_database, node, 1, 2, 3, 4, 5)
    now[0] += usual.FRESH_IF_NONE - 1
    with count_statements(sqlite_database) as sent:
        assert times.of(*NAME, "fake-hardware", None) is None
    assert len(sent) == 0
    now[0] += 1
    assert times.of(*NAME, "fake-hardware", None) == (3, 5, 5, NARROWEST)


def test_usual_times_of_unknown_steps_are_kept_within_a_bound(sqlite_database: Database) -> None:
    times = UsualTimes(sqlite_database, now=lambda: 0.0)
    for number in range(300):
        assert times.of("deploy", f"step_{number}", None, None) is None
    with count_statements(sqlite_database) as found:
        times.of("deploy", "step_299", None, None)
        times.of("deploy", "step_0", None, None)
    assert len(found) == 1
