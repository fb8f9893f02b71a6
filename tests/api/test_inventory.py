"""What an inspection has found, on the wire, as Ironic's clients know it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import inventories
from tests.support.api_rows import AddNode
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

NOON = datetime.datetime(2026, 1, 31, 12, 0)
FOUND: dict[str, Any] = {"interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:00:01"}]}
MORE: dict[str, Any] = {"macs": ["52:54:00:00:00:01"]}


@pytest.fixture
def node(add_node: AddNode, database: Database) -> str:
    """The UUID of a node called metal-7 that was inspected."""
    uuid = str(add_node(name="metal-7")["uuid"])
    database.write(lambda conn: inventories.put(conn, uuid, FOUND, MORE, at=NOON))
    return uuid


@pytest.mark.parametrize("version", [81, 115])
def test_inventory_has_the_data_of_plug_ins(api: Client, node: str, version: int) -> None:
    wanted = {"inventory": FOUND, "plugin_data": MORE}
    for ident in (node, "metal-7"):
        answer = api.at(version).get(f"/v1/nodes/{ident}/inventory")
        assert (answer.status, answer.json) == (200, wanted)


@pytest.mark.parametrize("version", [1, 80])
def test_inventory_is_404_below_1_81(api: Client, node: str, version: int) -> None:
    assert api.at(version).get(f"/v1/nodes/{node}/inventory").status == 404


def test_a_node_that_was_never_inspected_has_none(api: Client, add_node: AddNode) -> None:
    uuid = add_node()["uuid"]
    answer = api.get(f"/v1/nodes/{uuid}/inventory")
    assert answer.status == 404
    assert f"inventory record for node {uuid} could not be found" in answer.text
    assert api.get("/v1/nodes/nobody/inventory").status == 404


def test_secrets_in_it_are_hidden(api: Client, node: str, database: Database) -> None:
    told = {"boot": {"agent_token": "t0p"}, "logs": "http://me:s3cret@images.example.org/"}
    database.write(lambda conn: inventories.put(conn, node, told, {"password": "x"}, at=NOON))
    answer = api.get(f"/v1/nodes/{node}/inventory")
    assert answer.json == {
        "inventory": {
            "boot": {"agent_token": "******"},
            "logs": "http://me:******@images.example.org/",
        },
        "plugin_data": {"password": "******"},
    }


def test_an_answer_costs_two_statements(api: Client, node: str, database: Database) -> None:
    with count_statements(database) as sent:
        assert api.get(f"/v1/nodes/{node}/inventory").status == 200
    assert len(sent) == 2, str(sent)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_inventory_is_read_only(api: Client, node: str, method: str) -> None:
    assert api.request(method, f"/v1/nodes/{node}/inventory", {}).status == 405


def test_unknown_arguments_are_refused(api: Client, node: str) -> None:
    assert api.get(f"/v1/nodes/{node}/inventory?detail=true").status == 400
