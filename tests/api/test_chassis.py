"""Chassis over HTTP: a description, anything extra, and the nodes built in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_rows import AddNode
from tests.support.wsgi_client import Client

ABSENT = "00000000-0000-4000-8000-000000000000"
Json = dict[str, Any]


def add(api: Client, **body: Any) -> Json:
    answer = api.post("/v1/chassis", body)
    assert answer.status == 201
    found: Json = answer.json
    return found


def test_a_new_chassis_is_shown_whole_and_has_a_place(api: Client) -> None:
    answer = api.post("/v1/chassis", {"description": "row 4", "extra": {"a": 1}})
    assert answer.status == 201
    chassis = answer.json
    base = "http://localhost:6385"
    here = f"chassis/{chassis['uuid']}"
    assert answer.headers["location"] == f"{base}/v1/{here}"
    assert chassis == {
        "uuid": chassis["uuid"],
        "description": "row 4",
        "extra": {"a": 1},
        "created_at": chassis["created_at"],
        "updated_at": None,
        "links": [
            {"href": f"{base}/v1/{here}", "rel": "self"},
            {"href": f"{base}/{here}", "rel": "bookmark"},
        ],
        "nodes": [
            [
                {"href": f"{base}/v1/{here}/nodes", "rel": "self"},
                {"href": f"{base}/{here}/nodes", "rel": "bookmark"},
            ]
        ],
    }
    assert api.get(f"/v1/{here}").json == chassis
    assert set(api.get(f"/v1/{here}?fields=extra").json) == {"extra", "links"}


def test_chassis_are_listed(api: Client) -> None:
    first, second = add(api, description="a"), add(api, description="b")
    shown = api.get("/v1/chassis").json["chassis"]
    assert [set(each) for each in shown] == [{"uuid", "description", "links"}] * 2
    assert api.get("/v1/chassis/detail").json["chassis"] == [first, second]
    assert api.get("/v1/chassis?detail=true&sort_dir=desc").json["chassis"] == [second, first]
    page = api.get("/v1/chassis?limit=1").json
    assert [each["uuid"] for each in page["chassis"]] == [first["uuid"]]
    assert f"marker={first['uuid']}" in page["next"]


def test_a_chassis_is_changed_by_a_patch(api: Client) -> None:
    chassis = add(api, description="a")
    path = f"/v1/chassis/{chassis['uuid']}"
    answer = api.patch(path, [{"op": "replace", "path": "/description", "value": "b"}])
    assert answer.status == 200
    assert answer.json["description"] == "b"
    assert answer.json["updated_at"] is not None
    assert api.get(path).json == answer.json


@pytest.mark.parametrize(
    "body",
    [
        {"description": 1},
        {"description": "a" * 256},
        {"extra": []},
        {"uuid": "x"},
        {"name": "x"},
        [],
        "x",
    ],
)
def test_a_bad_chassis_is_refused(api: Client, body: Any) -> None:
    assert api.post("/v1/chassis", body).status == 400
    assert api.get("/v1/chassis").json == {"chassis": []}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/uuid", "value": ABSENT},
        {"op": "replace", "path": "/description", "value": 5},
        {"op": "remove", "path": "/extra/absent"},
        {"op": "add", "path": "/name", "value": "x"},
    ],
)
def test_a_bad_patch_changes_nothing(api: Client, operation: Json) -> None:
    chassis = add(api, description="a")
    path = f"/v1/chassis/{chassis['uuid']}"
    assert api.patch(path, [operation]).status == 400
    assert api.get(path).json == chassis


def test_two_chassis_have_two_uuids(api: Client) -> None:
    chassis = add(api)
    assert api.post("/v1/chassis", {"uuid": chassis["uuid"].upper()}).status == 409


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


@pytest.mark.parametrize(("ident", "status"), [(ABSENT, 404), ("row4", 400), ("a\x00b", 400)])
def test_only_a_uuid_names_a_chassis(api: Client, ident: str, status: int) -> None:
    path = f"/v1/chassis/{ident}"
    patch = [{"op": "remove", "path": "/description"}]
    for answer in (api.get(path), api.patch(path, patch), api.delete(path)):
        assert answer.status == status
