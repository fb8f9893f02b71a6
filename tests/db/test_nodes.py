"""Reading nodes, adding them, and the API's guarded write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ironic_lite import errors, records
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import chassis, nodes, parents, ports, runs, traits
from tests.support.database_rows import NOON, add_node, get_node, lock_node, new_uuid
from tests.support.statements import count_statements


def edit(database: Database, node: str, generation: int, **values: Any) -> None:
    """Write as the API does."""
    database.write(lambda conn: nodes.edit(conn, node, values, generation=generation))


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
    wanted = [f"CUSTOM_{'X' * 240}_{number:02}" for number in range(traits.LIMIT)]
    database.write(lambda conn: traits.replace(conn, node, wanted[::-1], generation=0))
    with count_statements(database) as sent:
        row = database.read(lambda conn: nodes.get(conn, node, ("uuid",), with_traits=True))
    assert row == {"uuid": node, "traits": wanted}
    assert len(sent) == 1, sent
    assert database.read(lambda conn: nodes.get(conn, bare, with_traits=True))["traits"] == []


def test_a_page_with_traits_is_one_statement(database: Database) -> None:
    first, second = add_node(database), add_node(database)
    database.write(lambda conn: traits.replace(conn, first, ["B", "A"], generation=0))
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
        traits.replace(conn, node, ["A"], generation=0)
        ports.insert(conn, {"uuid": new_uuid(), "address": "00:00:00:00:00:01", "node_uuid": node})
        runs.insert(
            conn,
            {"uuid": run, "node_uuid": node, "verb": "x", "state": "done", "started_at": NOON},
        )
        step = {"run_uuid": run, "ordinal": 0, "kind": "clean", "interface": "raid", "step": "s"}
        runs.insert_steps(conn, [step])

    database.write(fill)
    lock_node(database, node, "mine")
    database.write(lambda conn: nodes.delete(conn, node, token="mine"))
    assert database.read(lambda conn: ports.of_node(conn, node)) == []
    assert database.read(lambda conn: traits.get(conn, node)) == []
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
    database.write(lambda conn: chassis.insert(conn, {"uuid": uuid, "extra": {}}))

    def append(number: int) -> None:
        def work(conn: Connection) -> None:
            before = chassis.get(conn, uuid, hold=True)
            chassis.update(conn, uuid, {"extra": {**before["extra"], str(number): number}})

        database.write(work)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(append, range(20)))
    row = database.read(lambda conn: chassis.get(conn, uuid))
    assert sorted(row["extra"].values()) == list(range(20))


def test_a_chassis_with_nodes_stays(database: Database) -> None:
    uuid = new_uuid()
    database.write(lambda conn: chassis.insert(conn, {"uuid": uuid, "extra": {"row": 7}}))
    add_node(database, chassis_uuid=uuid)
    with pytest.raises(errors.InvalidRequest, match="still has nodes"):
        database.write(lambda conn: chassis.delete(conn, uuid))
    assert database.read(lambda conn: chassis.get(conn, uuid))["extra"] == {"row": 7}


def test_a_chassis_is_changed_listed_and_removed(database: Database) -> None:
    uuid = new_uuid()
    database.write(lambda conn: chassis.insert(conn, {"uuid": uuid}))
    with pytest.raises(errors.Duplicate, match=f"A chassis with uuid {uuid}"):
        database.write(lambda conn: chassis.insert(conn, {"uuid": uuid}))
    database.write(lambda conn: chassis.update(conn, uuid, {"description": "left"}))
    rows = database.read(lambda conn: chassis.page(conn, columns=("description",)))
    assert rows == [{"description": "left"}]
    database.write(lambda conn: chassis.delete(conn, uuid))
    for act in (chassis.get, chassis.delete, lambda conn, key: chassis.update(conn, key, {})):
        with pytest.raises(errors.ChassisNotFound):
            database.write(lambda conn, act=act: act(conn, uuid))  # type: ignore[misc]


def test_a_chain_of_parents_is_read_up_to_its_limit(database: Database) -> None:
    """Each parent is a statement, so a request must not read a chain of any length."""
    chain: list[str] = []
    for _ in range(17):
        chain.append(add_node(database, parent_node=chain[-1] if chain else None))
    database.write(lambda conn: parents.check(conn, new_uuid(), chain[-2]))
    with pytest.raises(errors.InvalidParameter, match="fewer than 16"):
        database.write(lambda conn: parents.check(conn, new_uuid(), chain[-1]))
