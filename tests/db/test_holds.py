"""Queries on holds: those in force, their end by time and by request, and their number."""

from __future__ import annotations

import datetime
import threading
import time
import uuid
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import allocations, holds, nodes
from ironic_lite.db.tables import models
from ironic_lite.domain.holds import ALLOCATION, MOST, MOST_KEPT
from tests.support import conductor_fixture

WANTED: dict[str, Any] = {
    "resource_class": "gold",
    "traits": [],
    "candidate_nodes": [],
    "owner": None,
}


@pytest.fixture
def node(database: Database) -> str:
    return add_node(database)


def add_node(database: Database, **values: Any) -> str:
    """Add a node that an allocation could take."""
    row = {
        "uuid": str(uuid.uuid4()),
        "driver": "fake-hardware",
        "provision_state": "available",
        "power_state": "power off",
        "resource_class": "gold",
        **values,
    }
    database.write(lambda conn: nodes.insert(conn, row))
    return str(row["uuid"])


def add(database: Database, node: str, blocks: str = "use", **values: Any) -> str:
    """Add a hold."""
    row = {
        "uuid": str(uuid.uuid4()),
        "node_uuid": node,
        "kind": "audit",
        "reason": "case 7",
        "blocks": blocks,
        "created_at": clock.now(),
        **values,
    }
    database.write(lambda conn: holds.add(conn, row))
    return str(row["uuid"])


def held(database: Database, node: str) -> list[str]:
    """Return the UUIDs of the holds in force."""
    return [one.uuid for one in database.read(lambda conn: holds.in_force(conn, node, None))]


def is_held(database: Database, node: str) -> bool:
    """Return the column of the node that says whether it is held."""
    return bool(database.read(lambda conn: nodes.get(conn, node, ("uuid", "held")))["held"])


def listed(database: Database, value: bool) -> set[str]:
    """Return the nodes of the list with the filter ``held``."""
    where = {"held": value}
    found = database.read(lambda conn: nodes.page(conn, columns=("uuid",), where=where))
    return {row["uuid"] for row in found}


def end(database: Database, hold: str) -> bool:
    """End a hold by request."""
    values = {"ended_at": clock.now(), "ended_by": "bob", "end_reason": "over"}
    return database.write(lambda conn: holds.end(conn, hold, values))


def test_hold_is_in_force_until_it_is_ended(database: Database, node: str) -> None:
    other = add_node(database)
    assert (held(database, node), is_held(database, node)) == ([], False)
    first, second = add(database, node), add(database, node)
    assert (held(database, node), is_held(database, node)) == ([first, second], True)
    assert not is_held(database, other)
    assert (listed(database, True), listed(database, False)) == ({node}, {other})
    assert end(database, first)
    assert not end(database, first)
    assert held(database, node) == [second]
    found = database.read(lambda conn: holds.in_force_of(conn, [other, node], None))
    assert {one: [hold.uuid for hold in some] for one, some in found.items()} == {node: [second]}
    assert end(database, second)
    assert (is_held(database, node), listed(database, True)) == (False, set())


def test_hold_is_in_force_until_its_time_is_over(
    database: Database, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = clock.now() + datetime.timedelta(minutes=1)
    hold = add(database, node, until=until)
    assert held(database, node) == [hold]
    monkeypatch.setattr(clock, "now", lambda: until)
    assert (held(database, node), is_held(database, node)) == ([], False)
    assert listed(database, True) == set()
    assert database.read(holds.by_kind) == {
        "legal": 0,
        "hardware": 0,
        "freeze": 0,
        "observe": 0,
        "trial": 0,
        "other": 0,
    }


@pytest.mark.parametrize(
    ("blocks", "taken"),
    [
        ("use", False),
        ("verbs,power", False),
        ("erase,forget", False),
        ("power", True),
        ("forget", True),
        ("power,forget", True),
    ],
)
def test_allocation_passes_nodes_by_that_it_could_not_deploy(
    database: Database, node: str, blocks: str, taken: bool
) -> None:
    free = add_node(database)
    add(database, node, blocks)
    found = {one.uuid for one in database.read(lambda conn: allocations.offers(conn, WANTED))}
    assert found == ({node, free} if taken else {free})
    assert database.read(lambda conn: allocations.tally(conn, WANTED)).free == len(found)
    if taken:
        database.read(lambda conn: holds.refuse(conn, node, ALLOCATION, ALLOCATION, None))
    else:
        with pytest.raises(errors.NodeHeld):
            database.read(lambda conn: holds.refuse(conn, node, ALLOCATION, ALLOCATION, None))


def test_number_of_holds_in_force_is_limited(database: Database, node: str) -> None:
    kept = [add(database, node) for _ in range(MOST)]
    with pytest.raises(errors.Conflict, match=r"it has 20 holds in force"):
        add(database, node)
    assert held(database, node) == kept
    add(database, add_node(database))
    end(database, kept[0])
    add(database, node)
    assert len(held(database, node)) == MOST


def test_oldest_ended_holds_are_forgotten(database: Database, node: str) -> None:
    def rows(count: int, **values: Any) -> list[dict[str, Any]]:
        about = {"node_uuid": node, "kind": "audit", "reason": "", "blocks": "use"}
        given: dict[str, Any] = {**about, "created_at": clock.now(), **values}
        return [{**given, "uuid": str(uuid.uuid4())} for _ in range(count)]

    kept = add(database, node)
    ended = rows(MOST_KEPT + 7, ended_at=clock.now())
    database.write(lambda conn: conn.execute(models.holds.insert(), ended))
    add(database, node)
    where = {"node_uuid": node, "ended": True}
    found = database.read(
        lambda conn: holds.page(conn, columns=("uuid", "ended_at"), where=where, limit=1000)
    )
    assert len([one for one in found if one["ended_at"]]) == MOST_KEPT - 1
    assert {ended[-1]["uuid"], kept} <= {one["uuid"] for one in found}
    assert ended[0]["uuid"] not in {one["uuid"] for one in found}


def test_holds_are_removed_with_their_node(database: Database, node: str) -> None:
    add(database, node)
    database.write(lambda conn: conn.execute(models.nodes.delete()))
    assert held(database, node) == []


def test_lists_have_the_holds_in_force_or_all(database: Database, node: str) -> None:
    other = add_node(database, owner="p-1")
    add(database, node, kind="legal")
    gone = add(database, other, kind="freeze")
    last = add(database, other, kind="freeze")
    end(database, gone)

    def page(**where: Any) -> list[str]:
        found = database.read(
            lambda conn: holds.page(conn, columns=("uuid",), where={"ended": False, **where})
        )
        return [one["uuid"] for one in found]

    assert len(page()) == 2
    assert page(kind="freeze") == page(of_owner="p-1") == page(node_uuid=other) == [last]
    assert page(kind="freeze", ended=True) == [gone, last]
    found = database.read(holds.by_kind)
    assert found == {"legal": 1, "hardware": 0, "freeze": 1, "observe": 0, "trial": 0, "other": 0}


def test_hold_set_at_the_same_time_keeps_the_node(server_database: Database) -> None:
    """The deletion waits for the row that the setter of the hold has locked, then refuses."""
    rig = conductor_fixture.build(server_database)
    node = rig.node()
    holding = threading.Event()
    row = {
        "uuid": str(uuid.uuid4()),
        "node_uuid": node,
        "kind": "audit",
        "reason": "case 7",
        "blocks": "forget",
        "created_at": clock.now(),
    }

    def set_hold(conn: Connection) -> None:
        nodes.get(conn, node, ("uuid",), lock_row=True)
        holds.add(conn, row)
        holding.set()
        time.sleep(1)  # the deletion reads the holds meanwhile, if it does not wait

    setter = threading.Thread(target=server_database.write, args=(set_hold,))
    setter.start()
    assert holding.wait(30)
    with pytest.raises(errors.NodeHeld):
        rig.ask("destroy_node", node)
    setter.join(30)
    assert rig.get(node)["uuid"] == node
    rig.bury()


def test_two_requests_at_once_hold_a_node_once(database: Database, node: str) -> None:
    locked, failed = threading.Event(), []

    def begin(conn: Connection) -> None:
        such = {"kind": "observe", "until": None}
        found = holds.without(conn, such, {}, columns=("uuid",), limit=10)
        locked.set()
        time.sleep(1)  # the other transaction waits for the row meanwhile
        for one in found:
            about = {"kind": "observe", "reason": "x", "blocks": "machine"}
            row = {"uuid": str(uuid.uuid4()), "node_uuid": one["uuid"], "created_at": clock.now()}
            holds.add_all(conn, [{**row, **about}])

    def second() -> None:
        locked.wait(60)
        try:
            database.write(begin)
        except Exception as why:
            failed.append(why)

    other = threading.Thread(target=second)
    other.start()
    database.write(begin)
    other.join(60)
    assert failed == []
    assert len(held(database, node)) == 1
