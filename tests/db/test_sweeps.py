"""What sweeps see: exactly the nodes that are theirs to look after."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ironic_lite.core.json_types import RowView
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, sweeps
from tests.support.database_rows import NOON, add_node, lock_node

MINUTE = datetime.timedelta(minutes=1)


def named(rows: Sequence[RowView], uuids: dict[str, str]) -> list[str]:
    """Return the names of the rows found."""
    known = {uuid: name for name, uuid in uuids.items()}
    return [known[row["uuid"]] for row in rows]


def test_due_are_the_free_nodes_whose_time_has_come(database: Database) -> None:
    uuids = {
        "late": add_node(database, wake_at=NOON),
        "later": add_node(database, wake_at=NOON - MINUTE),
        "not yet": add_node(database, wake_at=NOON + MINUTE),
        "asleep": add_node(database),
        "held": add_node(database, wake_at=NOON),
    }
    lock_node(database, uuids["held"], "token")
    assert named(_due(database, 9), uuids) == ["later", "late"]
    assert named(_due(database, 1), uuids) == ["later"]


def _due(database: Database, limit: int) -> list[sweeps.Due]:
    return database.read(lambda conn: sweeps.due(conn, now=NOON, limit=limit))


def test_overdue_are_the_free_nodes_that_wait_too_long(database: Database) -> None:
    waiting = {"provision_state": "clean wait", "provision_updated_at": NOON}
    uuids = {
        "old": add_node(database, **waiting),
        "older": add_node(database, **{**waiting, "provision_updated_at": NOON - MINUTE}),
        "kept": add_node(database, **waiting, maintenance=True),
        "held": add_node(database, **waiting),
        "other": add_node(database, **{**waiting, "provision_state": "wait call-back"}),
        "new": add_node(database, **{**waiting, "provision_updated_at": NOON + MINUTE}),
        "retired": add_node(database, **waiting, retired=True),
    }
    lock_node(database, uuids["held"], "token")
    rows = database.read(
        lambda conn: sweeps.overdue(
            conn, state="clean wait", before=NOON + datetime.timedelta(seconds=1), limit=9
        )
    )
    assert named(rows, uuids) == ["older", "old", "retired"]


def test_busy_nodes_without_a_lock_and_all_locks_are_found(database: Database) -> None:
    busy = ("free", "held", "foreign")
    uuids = {name: add_node(database, provision_state="cleaning") for name in busy}
    uuids["idle"] = add_node(database)
    lock_node(database, uuids["held"], "t1")
    lock_node(database, uuids["foreign"], "t2", host="host-10")
    lock_node(database, uuids["idle"], "t3", seconds=-3600)
    rows = database.read(lambda conn: sweeps.unheld(conn, states=["cleaning"], limit=9))
    assert named(rows, uuids) == ["free"]
    locks = database.read(lambda conn: sweeps.held(conn, limit=9))
    assert sorted(named(locks, uuids)) == ["foreign", "held", "idle"]
    assert {row["uuid"]: row["lock_token"] for row in locks}[uuids["idle"]] == "t3"
    second = database.read(lambda conn: sweeps.held(conn, limit=9, after_id=locks[0]["id"]))
    assert second == locks[1:]


def test_a_lease_that_was_given_up_has_a_stamp_of_its_own(database: Database) -> None:
    mine, other = add_node(database), add_node(database)
    lock_node(database, mine, "t1")
    lock_node(database, other, "t2", host="host-2")
    database.write(lambda conn: nodes.give_up(conn, host="host-1", tokens=["t1", "t2"]))
    locks = database.read(lambda conn: sweeps.held(conn, limit=9))
    assert [row["lock_expires"] == nodes.ENDED for row in locks] == [True, False]


def test_power_is_compared_only_where_nobody_else_is_at_work(database: Database) -> None:
    uuids = {
        "one": add_node(database, power_state="power on"),
        "kept": add_node(database, maintenance=True),
        "retired": add_node(database, retired=True),
        "skipped": add_node(database, provision_state="enroll"),
        "held": add_node(database),
        "two": add_node(database),
    }
    lock_node(database, uuids["held"], "token")

    def ask(after: int, limit: int) -> list[sweeps.Candidate]:
        return database.read(
            lambda conn: sweeps.for_power_sync(
                conn, skip_states=["enroll"], after_id=after, limit=limit
            )
        )

    rows = ask(0, 9)
    assert named(rows, uuids) == ["one", "two"]
    assert named(ask(rows[0]["id"], 1), uuids) == ["two"]
    [whole] = database.read(lambda conn: sweeps.whole(conn, ids=[rows[0]["id"], 0]))
    assert (whole["uuid"], whole["power_state"]) == (uuids["one"], "power on")


def test_nodes_in_fault_are_found_also_in_maintenance(database: Database) -> None:
    uuids = {
        "lost": add_node(database, fault="power failure", maintenance=True),
        "well": add_node(database),
    }
    rows = database.read(lambda conn: sweeps.in_fault(conn, fault="power failure", limit=9))
    assert named(rows, uuids) == ["lost"]


def test_nodes_are_counted_by_state(database: Database) -> None:
    for state in ("cleaning", "cleaning", "deploying", "active"):
        add_node(database, provision_state=state)
    count = database.read(lambda conn: sweeps.count_in(conn, ["cleaning", "deploying"]))
    assert count == 3
    assert database.read(lambda conn: sweeps.count_in(conn, [])) == 0


def test_nodes_with_a_console_are_found_in_any_state(database: Database) -> None:
    uuids = {
        "on": add_node(database, console_enabled=True),
        "off": add_node(database),
        "held": add_node(database, console_enabled=True, provision_state="cleaning"),
        "retired": add_node(database, console_enabled=True, retired=True, maintenance=True),
    }
    lock_node(database, uuids["held"], "token")
    rows = database.read(lambda conn: sweeps.with_console(conn, limit=9))
    assert named(rows, uuids) == ["on", "held", "retired"]
    second = database.read(lambda conn: sweeps.with_console(conn, after_id=rows[0]["id"], limit=1))
    assert named(second, uuids) == ["held"]
