"""Chassis and the nodes in them."""

from __future__ import annotations

from typing import Any

from tests.support.api_rows import AddNode
from tests.support.wsgi_client import Client

ABSENT = "00000000-0000-4000-8000-000000000000"
Json = dict[str, Any]


def add(api: Client, **body: Any) -> Json:
    answer = api.post("/v1/chassis", body)
    assert answer.status == 201
    found: Json = answer.json
    return found


def test_the_nodes_of_a_chassis_are_listed_below_it(api: Client, add_node: AddNode) -> None:
    chassis = add(api)
    inside = add_node(chassis_uuid=chassis["uuid"])
    add_node()
    path = f"/v1/chassis/{chassis['uuid']}/nodes"
    assert [node["uuid"] for node in api.get(path).json["nodes"]] == [inside["uuid"]]
    (full,) = api.get(f"{path}/detail").json["nodes"]
    assert full["chassis_uuid"] == chassis["uuid"]
    assert f"{path}?" in api.get(f"{path}?limit=1").json["next"]
    assert api.get(f"/v1/chassis/{ABSENT}/nodes").status == 404
    assert api.get(f"{path}?chassis_uuid={chassis['uuid']}").json == api.get(path).json
    assert api.get(f"{path}?chassis_uuid={ABSENT}").status == 400


def test_a_chassis_with_nodes_stays(api: Client, add_node: AddNode) -> None:
    chassis, empty = add(api), add(api)
    add_node(chassis_uuid=chassis["uuid"])
    assert api.delete(f"/v1/chassis/{chassis['uuid']}").status == 400
    assert api.delete(f"/v1/chassis/{empty['uuid']}").status == 204
    left = api.get("/v1/chassis").json["chassis"]
    assert [each["uuid"] for each in left] == [chassis["uuid"]]
