"""What joins nodes joins nodes of one owner, whoever asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_rows import AddNode
from tests.support.callers import OWNER, STRANGER, Callers
from tests.support.wsgi_client import Client, op

KINDS: dict[str, dict[str, Any]] = {
    "ports": {"address": "52:54:00:00:00:0b"},
    "portgroups": {},
    "volume/connectors": {"type": "iqn", "connector_id": "x"},
    "volume/targets": {"volume_type": "iscsi", "volume_id": "x", "boot_index": 0},
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_rows_of_a_node_move_only_to_nodes_of_its_owner(
    api: Client, callers: Callers, add_node: AddNode, kind: str
) -> None:
    about = {"provision_state": "manageable", "power_state": "power off"}
    first, second = (add_node(owner=OWNER, **about)["uuid"] for _ in range(2))
    foreign, nobodys = (add_node(owner=owner, **about)["uuid"] for owner in (STRANGER, None))
    made = api.post(f"/v1/{kind}", {"node_uuid": first, **KINDS[kind]})
    assert made.status == 201, made.text
    path = f"/v1/{kind}/{made.json['uuid']}"
    for caller in (api, callers("admin")):
        for other in (foreign, nobodys):
            answer = caller.patch(path, [op("replace", "/node_uuid", other)])
            assert (answer.status, "another owner" in answer.text) == (400, True)
    assert api.get(path).json["node_uuid"] == first
    assert api.patch(path, [op("replace", "/node_uuid", second)]).status == 200


def test_a_child_has_the_owner_of_its_parent(
    api: Client, callers: Callers, add_node: AddNode
) -> None:
    parent, child = (add_node(owner=OWNER)["uuid"] for _ in range(2))
    foreign = add_node(owner=STRANGER)["uuid"]
    body = {"driver": "fake-hardware", "parent_node": parent}
    for caller in (api, callers("admin")):
        for owner, status in ((STRANGER, 400), (OWNER, 201)):
            assert caller.post("/v1/nodes", {**body, "owner": owner}).status == status
        path = f"/v1/nodes/{child}"
        assert caller.patch(path, [op("add", "/parent_node", foreign)]).status == 400
        assert caller.patch(path, [op("add", "/parent_node", parent)]).status == 200


def test_node_with_a_parent_or_children_keeps_its_owner(
    api: Client, callers: Callers, add_node: AddNode
) -> None:
    """Else what is done to the parent would reach somebody else's machine."""
    parent, other = (add_node(owner=owner)["uuid"] for owner in (OWNER, STRANGER))
    child = add_node(owner=OWNER, parent_node=parent)["uuid"]
    give = op("replace", "/owner", STRANGER)
    for caller in (api, callers("admin")):
        for mine, its in ((parent, child), (child, parent)):
            answer = caller.patch(f"/v1/nodes/{mine}", [give])
            assert (answer.status, its in answer.text) == (409, True)
            assert api.get(f"/v1/nodes/{mine}").json["owner"] == OWNER
    moved = api.patch(f"/v1/nodes/{child}", [give, op("replace", "/parent_node", other)])
    assert (moved.status, moved.json["parent_node"]) == (200, other)
    assert api.patch(f"/v1/nodes/{parent}", [give]).status == 200
    alone = [op("replace", "/owner", OWNER), op("remove", "/parent_node")]
    assert api.patch(f"/v1/nodes/{child}", alone).status == 200
