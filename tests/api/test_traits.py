"""Traits of a node over HTTP: the whole list, and one at a time."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.queries import events
from tests.support.api_rows import AddNode
from tests.support.wsgi_client import Client

Json = dict[str, Any]
PATH = "/v1/nodes/rack1/traits"


@pytest.fixture
def node(add_node: AddNode) -> Json:
    return add_node(name="rack1")


def traits(api: Client) -> Any:
    return api.get(PATH).json["traits"]


def test_a_node_has_no_traits_at_first(api: Client, node: Json) -> None:
    assert api.get(PATH).json == {"traits": []}
    assert api.get(f"/v1/nodes/{node['uuid']}").json["traits"] == []


def test_the_whole_list_is_set_and_cleared(
    api: Client, node: Json, database: session.Database
) -> None:
    answer = api.put(PATH, {"traits": ["HW_CPU_X86_VMX", "CUSTOM_A", "CUSTOM_A"]})
    assert (answer.status, answer.body) == (204, b"")
    assert traits(api) == ["CUSTOM_A", "HW_CPU_X86_VMX"]
    assert api.get("/v1/nodes/rack1").json["traits"] == ["CUSTOM_A", "HW_CPU_X86_VMX"]
    assert api.put(PATH, {"traits": ["CUSTOM_B"]}).status == 204
    assert traits(api) == ["CUSTOM_B"]
    assert api.delete(PATH).status == 204
    assert traits(api) == []
    found = database.read(lambda conn: events.page(conn, node_uuid=node["uuid"]))
    assert [row["kind"] for row in found] == ["traits_updated"] * 3
    assert found[0]["data"] == {"traits": ["CUSTOM_A", "HW_CPU_X86_VMX"]}
    assert str(found[0]["request_id"]).startswith("req-")


def test_one_trait_is_added_and_taken_away(api: Client, node: Json) -> None:
    answer = api.put(f"{PATH}/CUSTOM_A")
    assert answer.status == 204
    assert answer.headers["location"] == f"http://localhost:6385{PATH}/CUSTOM_A"
    assert api.put(f"{PATH}/CUSTOM_A").status == 204
    assert api.put(f"{PATH}/CUSTOM_B").status == 204
    assert traits(api) == ["CUSTOM_A", "CUSTOM_B"]
    assert api.delete(f"{PATH}/CUSTOM_A").status == 204
    assert traits(api) == ["CUSTOM_B"]
    assert api.delete(f"{PATH}/CUSTOM_A").status == 404


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"traits": None},
        {"traits": "CUSTOM_A"},
        {"traits": ["custom"]},
        {"traits": ["CUSTOM_A"], "more": 1},
        {"traits": [f"CUSTOM_{number}" for number in range(51)]},
    ],
)
def test_a_bad_list_changes_nothing(api: Client, node: Json, body: Any) -> None:
    assert api.put(PATH, {"traits": ["CUSTOM_A"]}).status == 204
    assert api.put(PATH, body).status == 400
    assert traits(api) == ["CUSTOM_A"]


def test_a_single_trait_has_no_body_and_a_proper_name(api: Client, node: Json) -> None:
    assert api.put(f"{PATH}/CUSTOM_A", {"traits": []}).status == 400
    assert api.put(f"{PATH}/gold").status == 400
    assert traits(api) == []


def test_the_fifty_first_trait_is_refused(api: Client, node: Json) -> None:
    full = [f"CUSTOM_{number}" for number in range(50)]
    assert api.put(PATH, {"traits": full}).status == 204
    assert api.put(f"{PATH}/CUSTOM_MORE").status == 400
    assert api.put(f"{PATH}/CUSTOM_7").status == 204


def test_the_traits_of_a_locked_node_stay(api: Client, add_node: AddNode) -> None:
    add_node(name="rack1", reservation="conductor-1")
    for answer in (
        api.put(PATH, {"traits": ["CUSTOM_A"]}),
        api.put(f"{PATH}/CUSTOM_A"),
        api.delete(PATH),
        api.delete(f"{PATH}/CUSTOM_A"),
    ):
        assert answer.status == 409
        assert "locked by host conductor-1" in answer.text
    assert traits(api) == []


def test_versions_before_1_37_know_no_traits(api: Client, node: Json) -> None:
    old = api.at(36)
    answers = (old.get(PATH), old.put(PATH, {"traits": []}), old.delete(PATH))
    assert [answer.status for answer in answers] == [406, 405, 404]


def test_an_unknown_node_has_no_traits(api: Client) -> None:
    for answer in (api.get(PATH), api.put(PATH, {"traits": []}), api.delete(f"{PATH}/CUSTOM_A")):
        assert answer.status == 404


def test_an_empty_object_is_no_body(api: Client, node: Json) -> None:
    assert api.put(f"{PATH}/CUSTOM_A", {}).status == 204
