"""Portgroups, volume connectors and targets: what is unique, and what goes with its node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, portgroups, shards, volumes
from ironic_lite.db.queries.resource_table import ResourceTable
from tests.support.database_rows import add_node, lock_node, new_uuid

MAC = "52:54:00:00:00:01"
FAMILIES: Mapping[str, tuple[ResourceTable, dict[str, Any]]] = {
    "portgroup": (portgroups.FAMILY, {}),
    "volume connector": (volumes.CONNECTORS, {"type": "iqn", "connector_id": "a"}),
    "volume target": (
        volumes.TARGETS,
        {"volume_type": "iscsi", "volume_id": "a", "boot_index": 0},
    ),
}
each = pytest.mark.parametrize("what", list(FAMILIES))


def add(database: Database, what: str, node: str, **values: Any) -> str:
    family, more = FAMILIES[what]
    row = {"uuid": new_uuid(), "node_uuid": node, **more, **values}
    database.write(lambda conn: family.insert(conn, row))
    return str(row["uuid"])


@each
def test_node_owned_row_is_deleted_with_its_node(database: Database, what: str) -> None:
    family, _ = FAMILIES[what]
    node = add_node(database)
    uuid = add(database, what, node)
    assert lock_node(database, node, "mine")
    database.write(lambda conn: nodes.delete(conn, node, token="mine"))
    with pytest.raises(errors.NotFound, match=f"{what.capitalize()} {uuid} could not be found"):
        database.read(lambda conn: family.get(conn, uuid))


@each
def test_node_owned_row_needs_its_node(database: Database, what: str) -> None:
    with pytest.raises(errors.NodeNotFound):
        add(database, what, new_uuid())


@pytest.mark.parametrize(
    ("what", "values", "said"),
    [
        ("portgroup", {"name": "bond0"}, "name bond0"),
        ("portgroup", {"address": MAC}, f"MAC address {MAC}"),
        ("volume connector", {}, "type iqn and connector ID a"),
        ("volume target", {}, "boot index '0' for the same node"),
    ],
    ids=["name", "address", "connector", "target"],
)
def test_conflict_names_the_value_in_use(
    database: Database, what: str, values: dict[str, Any], said: str
) -> None:
    node = add_node(database)
    add(database, what, node, **values)
    with pytest.raises(errors.Duplicate, match=f"A {what} with {said} already exists"):
        add(database, what, node, **values)


def test_two_nodes_may_boot_from_the_same_index(database: Database) -> None:
    for node in (add_node(database), add_node(database)):
        add(database, "volume target", node)


def test_shards_are_counted(database: Database) -> None:
    for shard in ("b", "a", "a", None):
        add_node(database, shard=shard)
    assert [tuple(one.values()) for one in database.read(shards.counts)] == [
        *(("a", 2), (None, 1), ("b", 1)),
    ]
