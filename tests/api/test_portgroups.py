"""Portgroups: their mode, their ports, and changes that the state of a node forbids."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode, set_node
from tests.support.wsgi_client import Client, Response

PLACE = "/v1/portgroups"
MAC = "52:54:00:12:34:{:02x}"
ABSENT = "00000000-0000-4000-8000-000000000000"
Json = dict[str, Any]


@pytest.fixture
def node(add_node: AddNode) -> Json:
    return add_node(name="rack1", provision_state="manageable")


def add(api: Client, node: Json, **values: Any) -> Json:
    answer = api.post(PLACE, {"node_uuid": node["uuid"], **values})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def add_port(api: Client, node: Json, number: int, **values: Any) -> Response:
    body = {"node_uuid": node["uuid"], "address": MAC.format(number), **values}
    return api.post("/v1/ports", body)


def change(api: Client, group: Json, **values: Any) -> Response:
    patch = [{"op": "replace", "path": f"/{name}", "value": v} for name, v in values.items()]
    return api.patch(f"{PLACE}/{group['uuid']}", patch)


def uuids(answer: Response, key: str = "portgroups") -> list[str]:
    assert answer.status == 200, answer.text
    return [row["uuid"] for row in answer.json[key]]


def test_new_portgroups_have_the_mode_that_the_operator_set(
    api: Client, node: Json, conf: Any
) -> None:
    conf.set_override("default_portgroup_mode", "balance-rr")
    group = add(api, node)
    assert group["mode"] == "balance-rr"
    assert change(api, group, mode="802.3ad").json["mode"] == "802.3ad"
    patch = [{"op": "remove", "path": "/mode"}]
    assert api.patch(f"{PLACE}/{group['uuid']}", patch).json["mode"] == "balance-rr"


def test_lists_of_portgroups_and_of_their_ports_exist_since_1_24(api: Client, node: Json) -> None:
    group = add(api, node)
    for below in (f"/v1/nodes/{node['uuid']}/portgroups", f"{PLACE}/{group['uuid']}/ports"):
        assert [api.at(version).get(below).status for version in (23, 24)] == [404, 200]


# -- their ports -----------------------------------------------------------------------------


def test_a_portgroup_has_ports(api: Client, node: Json) -> None:
    group = add(api, node, name="bond0")
    first = add_port(api, node, 1, portgroup_uuid=group["uuid"]).json
    add_port(api, node, 2)
    assert first["portgroup_uuid"] == group["uuid"]
    for ident in ("bond0", group["uuid"]):
        assert uuids(api.get(f"{PLACE}/{ident}/ports"), "ports") == [first["uuid"]]
        assert uuids(api.get(f"/v1/ports?portgroup={ident}"), "ports") == [first["uuid"]]
    assert api.get(f"{PLACE}/bond0/ports/detail").json["ports"] == [first]
    assert api.get("/v1/ports?portgroup=nobody").status == 404
    assert api.at(23).get("/v1/ports?portgroup=bond0").status == 406
    assert api.delete(f"{PLACE}/bond0").status == 400
    patch = [{"op": "remove", "path": "/portgroup_uuid"}]
    assert api.patch(f"/v1/ports/{first['uuid']}", patch).status == 200
    assert api.delete(f"{PLACE}/bond0").status == 204


def test_a_port_and_its_portgroup_are_of_one_node(
    api: Client, node: Json, add_node: AddNode
) -> None:
    other = add_node(provision_state="manageable")
    group = add(api, other)
    assert add_port(api, node, 1, portgroup_uuid=group["uuid"]).status == 400
    assert add_port(api, node, 1, portgroup_uuid=ABSENT).status == 400
    port = add_port(api, node, 1).json
    patch = [{"op": "add", "path": "/portgroup_uuid", "value": group["uuid"]}]
    assert api.patch(f"/v1/ports/{port['uuid']}", patch).status == 400
    assert change(api, group, node_uuid=node["uuid"]).status == 200
    assert api.patch(f"/v1/ports/{port['uuid']}", patch).status == 200
    moved = [{"op": "replace", "path": "/node_uuid", "value": other["uuid"]}]
    assert api.patch(f"/v1/ports/{port['uuid']}", moved).status == 400
    answer = change(api, group, node_uuid=other["uuid"])
    assert (answer.status, "contains ports" in answer.text) == (400, True)


def test_the_ports_of_a_portgroup_are_on_one_network(api: Client, node: Json) -> None:
    group = add(api, node)
    inside = {"portgroup_uuid": group["uuid"]}
    port = add_port(api, node, 1, physical_network="left", **inside).json
    assert api.get(f"{PLACE}/{group['uuid']}").json["physical_network"] == "left"
    answer = add_port(api, node, 2, **inside)
    assert (answer.status, "None" in answer.text, "left" in answer.text) == (409, True, True)
    assert add_port(api, node, 2, physical_network="right", **inside).status == 409
    second = add_port(api, node, 2, physical_network="left", **inside).json
    patch = [{"op": "replace", "path": "/physical_network", "value": "right"}]
    assert api.at(101).patch(f"/v1/ports/{second['uuid']}", patch).status == 409
    answer = api.patch(f"/v1/ports/{port['uuid']}", patch)
    assert (answer.status, "belongs to a portgroup" in answer.text) == (400, True)
    assert change(api, group, physical_network="right").json["physical_network"] == "right"
    for each in (port, second):
        assert api.get(f"/v1/ports/{each['uuid']}").json["physical_network"] == "right"


# -- what the node's state forbids -----------------------------------------------------------


def test_a_portgroup_of_a_used_node_stays_there_unless_in_maintenance(
    api: Client, node: Json, database: session.Database, add_node: AddNode
) -> None:
    group, other = add(api, node), add_node()
    set_node(database, node, provision_state="active")
    assert change(api, group, category="x").status == 200
    assert change(api, group, node_uuid=other["uuid"]).status == 409
    set_node(database, node, maintenance=True)
    assert change(api, group, node_uuid=other["uuid"]).status == 200


def test_a_portgroup_with_a_vif_is_removed(
    api: Client, node: Json, database: session.Database
) -> None:
    group = add(api, node)
    used = models.portgroups.update().values(internal_info={"tenant_vif_port_id": "x"})
    database.write(lambda conn: conn.execute(used))
    assert api.delete(f"{PLACE}/{group['uuid']}").status == 204


def test_version_of_a_port_moves_with_the_network_of_its_portgroup(api: Client, node: Json) -> None:
    group = add(api, node)
    port = f"/v1/ports/{add_port(api, node, 1, portgroup_uuid=group['uuid']).json['uuid']}"
    tag = api.get(port).headers["etag"]
    assert change(api, group, physical_network="net1").status == 200
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert api.patch(port, patch, headers={"If-Match": tag}).status == 412
    assert api.get(port).json["physical_network"] == "net1"
