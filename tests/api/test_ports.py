"""Ports: the node of a new port, and changes that the state of a node forbids."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode, set_node
from tests.support.wsgi_client import Client

MAC = "52:54:00:12:34:56"
OTHER = "52:54:00:12:34:57"
Json = dict[str, Any]


@pytest.fixture
def node(add_node: AddNode) -> Json:
    return add_node(name="rack1", provision_state="manageable")


def add(api: Client, node: Json, address: str = MAC, **more: Any) -> Json:
    answer = api.post("/v1/ports", {"node_uuid": node["uuid"], "address": address, **more})
    assert answer.status == 201, answer.text
    found: Json = answer.json
    return found


def change(api: Client, port: Json, *operations: Json) -> Any:
    return api.patch(f"/v1/ports/{port['uuid']}", list(operations))


def test_a_port_may_name_its_node_by_ident(api: Client, node: Json) -> None:
    answer = api.post("/v1/ports", {"node_ident": "rack1", "address": MAC})
    assert answer.json["node_uuid"] == node["uuid"]


def test_the_address_of_a_used_node_stays_unless_in_maintenance(
    api: Client, node: Json, database: session.Database
) -> None:
    port = add(api, node)
    moved = {"op": "replace", "path": "/address", "value": OTHER}
    set_node(database, node, provision_state="active")
    assert change(api, port, moved).status == 409
    assert change(api, port, {"op": "add", "path": "/pxe_enabled", "value": False}).status == 409
    set_node(database, node, maintenance=True)
    assert change(api, port, moved).status == 200


def test_a_port_in_use_is_removed_in_maintenance_only(
    api: Client, node: Json, database: session.Database
) -> None:
    port = add(api, node)
    mine = models.ports.c.uuid == port["uuid"]
    used = models.ports.update().where(mine).values(internal_info={"tenant_vif_port_id": "x"})
    database.write(lambda conn: conn.execute(used))
    assert api.delete(f"/v1/ports/{port['uuid']}").status == 409
    set_node(database, node, maintenance=True)
    assert api.delete(f"/v1/ports/{port['uuid']}").status == 204


def test_the_path_says_whose_ports_are_listed(api: Client, node: Json, add_node: AddNode) -> None:
    other = add_node(name="other")
    mine = add(api, node)
    for more in ("node=other", "node=nobody", f"node_uuid={other['uuid']}"):
        found = api.get(f"/v1/nodes/{node['uuid']}/ports?{more}").json["ports"]
        assert [each["uuid"] for each in found] == [mine["uuid"]]
