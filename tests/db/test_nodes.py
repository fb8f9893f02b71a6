"""Nodes: reading, adding and changing them, their numbers, and what sweeps see."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ironic_lite import errors, records
from ironic_lite.core import clock
from ironic_lite.core.json_types import RowView
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import limits, nodes, ports, resources, runs, sweeps
from ironic_lite.db.tables import models
from tests.support.database_rows import NOON, add_node, get_node, insert_run, lock_node, new_uuid
from tests.support.statements import count_statements

# Reading nodes, adding them, and the API's guarded write.


def edit(database: Database, node: str, generation: int, **values: Any) -> None:
    """Write as the API does."""
    database.write(lambda conn: nodes.edit(conn, node, values, generation=generation))


@pytest.mark.parametrize("state", ["available", "clean wait", "inspect wait"])
def test_heartbeat_of_a_pinned_agent_is_one_statement_that_leaves_the_generation(
    database: Database, state: str
) -> None:
    node = add_node(database, provision_state=state, provision_updated_at=NOON)
    edit(database, node, 0, agent_pin="p" * 64, agent_pin_generation=1)

    def recorded(pin: str = "p" * 64) -> bool:
        return database.write(lambda conn: nodes.record_heartbeat(conn, node, pin=pin))

    assert not recorded("q" * 64)
    assert get_node(database, node)["agent_heard_at"] is None
    with count_statements(database) as sent:
        assert recorded()
    assert len(sent) == 1, sent
    row = get_node(database, node)
    assert row["generation"] == 1
    assert row["agent_heard_at"] > NOON
    postponed = row["provision_updated_at"] == row["agent_heard_at"]
    assert postponed is (state == "clean wait")
    edit(database, node, 1, description="rack")
    assert not recorded()
    assert get_node(database, node)["agent_heard_at"] == row["agent_heard_at"]


# -- reading ---------------------------------------------------------------------------------


def test_a_node_is_found_by_uuid_in_any_case_and_by_name(database: Database) -> None:
    node = add_node(database, name="rack-1")
    for ident in (node, node.upper(), "rack-1"):
        assert get_node(database, ident)["uuid"] == node


@pytest.mark.parametrize("ident", ["rack-2", "RACK-1", "", "rack-1' OR '1'='1", "%"])
def test_an_unknown_ident_is_not_found(database: Database, ident: str) -> None:
    add_node(database, name="rack-1")
    with pytest.raises(errors.NodeNotFound):
        get_node(database, ident)


def test_only_the_columns_asked_for_are_fetched_with_plain_names(database: Database) -> None:
    node = add_node(database)
    columns = ("provision_state", "uuid")
    row = database.read(lambda conn: nodes.get(conn, node, columns))
    assert row == {"provision_state": "manageable", "uuid": node}
    assert {type(name) for name in get_node(database, node)} == {str}


def test_traits_come_with_the_node_by_the_same_statement(database: Database) -> None:
    node, bare = add_node(database), add_node(database)
    wanted = [f"CUSTOM_{'X' * 240}_{number:02}" for number in range(nodes.MOST_TRAITS)]
    database.write(lambda conn: nodes.replace_traits(conn, node, wanted[::-1], generation=0))
    with count_statements(database) as sent:
        row = database.read(lambda conn: nodes.get(conn, node, ("uuid",), with_traits=True))
    assert row == {"uuid": node, "traits": wanted}
    assert len(sent) == 1, sent
    assert database.read(lambda conn: nodes.get(conn, bare, with_traits=True))["traits"] == []


def test_a_page_with_traits_is_one_statement(database: Database) -> None:
    first, second = add_node(database), add_node(database)
    database.write(lambda conn: nodes.replace_traits(conn, first, ["B", "A"], generation=0))
    with count_statements(database) as sent:
        found = database.read(lambda conn: nodes.page(conn, columns=("uuid",), with_traits=True))
    assert found == [
        {"uuid": first, "traits": ["A", "B"]},
        {"uuid": second, "traits": []},
    ]
    assert len(sent) == 1, sent


def test_a_loaded_node_has_objects_where_the_columns_are_null(database: Database) -> None:
    uuid = add_node(database)
    node = database.read(lambda conn: nodes.load(conn, uuid))
    assert isinstance(node, records.Node)
    assert [getattr(node, name) for name in node.objects] == [{}] * 5
    assert (node.clean_step, node.generation, node.maintenance) == (None, 0, False)
    assert node.changes == {}


# -- adding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["uuid", "name", "instance_uuid"])
def test_a_taken_unique_value_is_named(database: Database, key: str) -> None:
    taken = {"uuid": new_uuid(), "name": "rack-1", "instance_uuid": new_uuid()}
    add_node(database, **taken)
    with pytest.raises(errors.Duplicate) as caught:
        add_node(database, **{key: taken[key]})
    assert caught.value.facts == {"what": "node", "key": key, "value": taken[key]}


def test_an_edit_to_a_taken_name_is_refused_the_same_way(database: Database) -> None:
    add_node(database, name="rack-1")
    node = add_node(database, name="rack-2")
    with pytest.raises(errors.Duplicate, match="A node with name rack-1 already exists"):
        edit(database, node, 0, name="rack-1")


def test_a_node_in_an_unknown_chassis_is_refused(database: Database) -> None:
    with pytest.raises(errors.ChassisNotFound):
        add_node(database, chassis_uuid=new_uuid())


def test_deleting_a_node_takes_what_belongs_to_it(database: Database) -> None:
    node, run = add_node(database), new_uuid()

    def fill(conn: Connection) -> None:
        nodes.replace_traits(conn, node, ["A"], generation=0)
        ports.insert(conn, {"uuid": new_uuid(), "address": "00:00:00:00:00:01", "node_uuid": node})
        insert_run(
            conn,
            {"uuid": run, "node_uuid": node, "verb": "x", "state": "done", "started_at": NOON},
        )
        step = {"run_uuid": run, "ordinal": 0, "kind": "clean", "interface": "raid", "step": "s"}
        runs.insert_steps(conn, [step])

    database.write(fill)
    lock_node(database, node, "mine")
    database.write(lambda conn: nodes.delete(conn, node, token="mine"))
    assert database.read(lambda conn: ports.of_node(conn, node)) == []
    assert database.read(lambda conn: nodes.get_traits(conn, node)) == []
    assert database.read(lambda conn: runs.steps(conn, run)) == []


# -- editing ---------------------------------------------------------------------------------


def test_an_edit_is_one_statement_that_raises_the_generation(database: Database) -> None:
    node, before = add_node(database), clock.now()
    with count_statements(database) as sent:
        edit(database, node, 0, name="new", extra={"a": 1})
    assert len(sent) == 1, sent
    row = get_node(database, node)
    assert (row["name"], row["extra"], row["generation"]) == ("new", {"a": 1}, 1)
    assert row["updated_at"] >= before


def test_an_edit_of_what_has_changed_since_it_was_read_is_refused(database: Database) -> None:
    node = add_node(database)
    edit(database, node, 0, description="first")
    with pytest.raises(errors.Conflict, match="changed meanwhile"):
        edit(database, node, 0, description="second")
    assert get_node(database, node)["description"] == "first"


@pytest.mark.parametrize("seconds", [60, -60], ids=["held", "expired"])
def test_an_edit_of_a_locked_node_names_the_holder(database: Database, seconds: float) -> None:
    node = add_node(database)
    lock_node(database, node, "mine", host="host-7", seconds=seconds)
    with pytest.raises(errors.NodeLocked, match="locked by host host-7"):
        edit(database, node, 0, name="new")
    assert get_node(database, node)["name"] is None


def test_an_edit_of_no_node_is_not_found(database: Database) -> None:
    with pytest.raises(errors.NodeNotFound):
        edit(database, new_uuid(), 0, name="new")


# -- chassis ---------------------------------------------------------------------------------


def test_changes_of_one_chassis_follow_each_other(database: Database) -> None:
    uuid = new_uuid()
    database.write(lambda conn: resources.CHASSIS.insert(conn, {"uuid": uuid, "extra": {}}))

    def append(number: int) -> None:
        def work(conn: Connection) -> None:
            before = resources.CHASSIS.get(conn, uuid, lock_row=True)
            resources.CHASSIS.update(
                conn, uuid, {"extra": {**before["extra"], str(number): number}}
            )

        database.write(work)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(append, range(20)))
    row = database.read(lambda conn: resources.CHASSIS.get(conn, uuid))
    assert sorted(row["extra"].values()) == list(range(20))


def test_a_chassis_with_nodes_stays(database: Database) -> None:
    uuid = new_uuid()
    database.write(lambda conn: resources.CHASSIS.insert(conn, {"uuid": uuid, "extra": {"row": 7}}))
    add_node(database, chassis_uuid=uuid)
    with pytest.raises(errors.InvalidRequest, match="still has nodes"):
        database.write(lambda conn: resources.CHASSIS.delete(conn, uuid))
    assert database.read(lambda conn: resources.CHASSIS.get(conn, uuid))["extra"] == {"row": 7}


def test_a_chassis_is_changed_listed_and_removed(database: Database) -> None:
    uuid = new_uuid()
    database.write(lambda conn: resources.CHASSIS.insert(conn, {"uuid": uuid}))
    with pytest.raises(errors.Duplicate, match=f"A chassis with uuid {uuid}"):
        database.write(lambda conn: resources.CHASSIS.insert(conn, {"uuid": uuid}))
    database.write(lambda conn: resources.CHASSIS.update(conn, uuid, {"description": "left"}))
    rows = database.read(lambda conn: resources.CHASSIS.page(conn, columns=("description",)))
    assert rows == [{"description": "left"}]
    database.write(lambda conn: resources.CHASSIS.delete(conn, uuid))
    for act in (
        resources.CHASSIS.get,
        resources.CHASSIS.delete,
        lambda conn, key: resources.CHASSIS.update(conn, key, {}),
    ):
        with pytest.raises(errors.ChassisNotFound):
            database.write(lambda conn, act=act: act(conn, uuid))  # type: ignore[misc]


def test_a_chain_of_parents_is_read_up_to_its_limit(database: Database) -> None:
    """Each parent is a statement, so a request must not read a chain of any length."""
    chain: list[str] = []
    for _ in range(17):
        chain.append(add_node(database, parent_node=chain[-1] if chain else None))
    database.write(lambda conn: nodes.check_parent(conn, new_uuid(), chain[-2]))
    with pytest.raises(errors.InvalidParameter, match="fewer than 16"):
        database.write(lambda conn: nodes.check_parent(conn, new_uuid(), chain[-1]))


# Numbers of nodes by their fields, equal on each database.


def test_groups_of_fields_are_counted(database: Database) -> None:
    for values in (
        {"provision_state": "active", "maintenance": True, "resource_class": "gpu"},
        {"provision_state": "active", "resource_class": "gpu"},
        {"provision_state": "active", "resource_class": "gpu"},
        {"provision_state": "active", "resource_class": "GPU"},
        {"provision_state": "available", "resource_class": None},
    ):
        add_node(database, **values)
    by = ("provision_state", "maintenance", "resource_class")
    found = database.read(lambda conn: nodes.counts(conn, by=by, where={}, most=10))
    assert {row[:3]: row[3] for row in found} == {
        ("active", True, "gpu"): 1,
        ("active", False, "gpu"): 2,
        ("active", False, "GPU"): 1,
        ("available", False, None): 1,
    }
    assert all(isinstance(row[1], bool) for row in found)
    some = {"provision_state": ["active", "enroll"], "maintenance": False, "held": False}
    found = database.read(lambda conn: nodes.counts(conn, by=("driver",), where=some, most=10))
    assert [row[1] for row in found] == [3]
    found = database.read(lambda conn: nodes.counts(conn, by=by, where={}, most=2))
    assert len(found) == 2


# What sweeps see: exactly the nodes that are theirs to look after.

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


def test_ports_of_standing_nodes_change_with_their_number_and_times(database: Database) -> None:
    uuids = {
        "two": add_node(database, provision_state="active"),
        "none": add_node(database, provision_state="active"),
        "other": add_node(database, provision_state="available"),
        "held": add_node(database, provision_state="active"),
    }
    lock_node(database, uuids["held"], "token")

    def add(conn: Connection) -> None:
        for number, name in enumerate(("two", "two", "other")):
            row = {"uuid": new_uuid(), "address": f"52:54:00:00:00:0{number}", "pxe_enabled": True}
            row |= {"created_at": NOON, "updated_at": NOON + MINUTE if number else None}
            ports.insert(conn, {**row, "node_uuid": uuids[name]})

    database.write(add)

    def read() -> list[str | None]:
        rows = database.read(lambda conn: sweeps.standing(conn, states=["active"], limit=9))
        assert named(rows, uuids) == ["two", "none", "other"]
        return [row["ports"] for row in rows]

    found = [read()]
    assert (found[0][0] or "").startswith(f"2{NOON + MINUTE:%Y-%m-%d %H:%M:%S}.123456")
    assert found[0][1:] == [None, None]
    later = {"updated_at": NOON + MINUTE + datetime.timedelta(microseconds=1)}
    one = models.ports.c.address == "52:54:00:00:00:00"
    for change in (
        models.ports.update().where(one).values(later),
        models.ports.delete().where(one),
    ):
        database.write(lambda conn, change=change: conn.execute(change))  # type: ignore[misc]
        found.append(read())
    assert len({one[0] for one in found}) == 3


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


# What the rows of an owner take, counted alike on each database.

MINE = ("nodes", "owner", "p-mine")
LARGE = limits.Large("nodes", frozenset({"driver_info", "description", "extra", "owner"}))


def test_rows_of_an_owner_are_counted_up_to_the_limit(database: Database) -> None:
    for owner in ("p-mine", "p-mine", "p-other"):
        add_node(database, owner=owner)

    def found(most: int) -> bool:
        return database.read(lambda conn: limits.reached(conn, *MINE, most))

    assert [found(most) for most in (0, 1, 2, 3)] == [True, True, True, False]


def test_size_is_that_of_large_columns(database: Database) -> None:
    assert database.read(lambda conn: LARGE.size(conn, *MINE[1:])) == 0
    add_node(database, owner="p-other", extra={"text": "x" * 100_000})
    small = add_node(database, owner="p-mine")
    rest = database.read(lambda conn: LARGE.size(conn, *MINE[1:]))
    assert small
    assert rest < 1000
    info = {"text": "x" * 40_000, "null": None}
    more = {"driver_info": info, "description": "d" * 2000}
    add_node(database, owner="p-mine", driver_internal_info={"steps": "s" * 9000}, **more)
    both = database.read(lambda conn: LARGE.size(conn, *MINE[1:]))
    assert 42_000 <= both - rest <= 43_000
    row = {"driver_info": info, "description": "d" * 2000, "owner": "p-mine", "extra": None}
    assert 42_000 <= LARGE.size_of(row) <= 42_100
