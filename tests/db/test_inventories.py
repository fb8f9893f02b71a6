"""The inventory of a node: one, the last one, and gone with it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import inventories, nodes
from ironic_lite.db.tables import models
from tests.support.database_rows import NOON, add_node, lock_node, new_uuid

FOUND: dict[str, Any] = {"memory": {"physical_mb": 98304}, "disks": [], "hostname": "Öre 😀"}
LATER = NOON + datetime.timedelta(hours=1)


def put(
    database: Database, node: str, found: dict[str, Any], *, at: datetime.datetime = NOON
) -> None:
    database.write(lambda conn: inventories.put(conn, node, found, {"macs": []}, at=at))


def get(database: Database, node: str) -> dict[str, Any]:
    return database.read(lambda conn: inventories.get(conn, node))


def times(database: Database, node: str) -> tuple[Any, ...]:
    table = models.inventories
    query = sa.select(table.c.created_at, table.c.updated_at).where(table.c.node_uuid == node)
    return tuple(database.read(lambda conn: conn.execute(query).one()))


def test_the_last_inventory_of_each_node_is_kept(database: Database) -> None:
    node, other = add_node(database), add_node(database)
    put(database, node, {"memory": {}})
    put(database, other, {})
    assert times(database, node) == (NOON, None)
    put(database, node, FOUND, at=LATER)
    assert get(database, node) == {"inventory": FOUND, "plugin_data": {"macs": []}}
    assert get(database, other) == {"inventory": {}, "plugin_data": {"macs": []}}
    assert times(database, node) == (NOON, LATER)


def test_the_same_once_more_is_no_second_one(database: Database) -> None:
    node = add_node(database)
    put(database, node, FOUND)
    put(database, node, FOUND)
    assert get(database, node)["inventory"] == FOUND


def test_a_large_one_with_odd_texts_is_kept(database: Database) -> None:
    node = add_node(database)
    put(database, node, {"log": "é" * 1_000_000, "odd": "a\ud800b", "many": 10**30})
    found = get(database, node)["inventory"]
    assert len(found["log"]) == 1_000_000
    assert (found["odd"], found["many"]) == ("a\ufffdb", str(10**30))


def test_a_node_that_was_never_inspected_has_none(database: Database) -> None:
    node = add_node(database)
    with pytest.raises(errors.NotFound, match=f"inventory record for node {node} could not be"):
        get(database, node)


def test_inventory_is_deleted_with_its_node(database: Database) -> None:
    node, token = add_node(database), new_uuid()
    put(database, node, FOUND)
    assert lock_node(database, node, token)
    database.write(lambda conn: nodes.delete(conn, node, token=token))
    with pytest.raises(errors.NotFound):
        get(database, node)
