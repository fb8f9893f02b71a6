"""Holds: rights of owners, lessees and others, and rules of a policy file for single kinds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.test_policy import Ruled, ruled  # noqa: F401  # a fixture
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers

BODY = {"kind": "legal", "reason": "case 2026-114"}
RIGHTS: dict[tuple[str, str | None], tuple[int, int]] = {
    # caller: status of the list, status of a new hold
    ("admin", None): (200, 201),
    ("member", None): (200, 201),
    ("reader", None): (200, 403),
    ("service", None): (200, 201),
    ("admin", OWNER): (200, 201),
    ("manager", OWNER): (200, 201),
    ("service", OWNER): (200, 201),
    ("member", OWNER): (200, 403),
    ("reader", OWNER): (200, 403),
    ("admin", LESSEE): (200, 403),
    ("reader", LESSEE): (200, 403),
    ("admin", STRANGER): (404, 404),
}


@pytest.fixture
def node(add_node: AddNode) -> dict[str, Any]:
    return add_node(owner=OWNER, lessee=LESSEE, provision_state="manageable")


@pytest.mark.parametrize("role, project", RIGHTS)
def test_holds_are_for_readers_and_managers(
    callers: Callers, node: dict[str, Any], role: str, project: str | None
) -> None:
    path = f"/v1/nodes/{node['uuid']}/holds"
    admin, caller = callers("admin"), callers(role, project)
    held = admin.post(path, BODY).json
    reads, writes = RIGHTS[role, project]
    told = caller.get(path)
    assert told.status == reads
    # A lessee of that time is one of the hold's projects, but the rule is for owners.
    assert (b"case 2026-114" in told.body) is (reads == 200 and project != LESSEE)
    assert caller.post(path, BODY).status == writes
    ended = caller.delete(f"{path}/{held['uuid']}")
    assert ended.status == (204 if writes == 201 else writes)
    still = [one["uuid"] for one in admin.get(path).json["holds"]]
    assert (held["uuid"] in still) is (writes != 201)


def test_list_of_all_nodes_has_those_of_the_own_project(
    callers: Callers, add_node: AddNode, node: dict[str, Any]
) -> None:
    other = add_node(owner=STRANGER, lessee=OWNER)
    admin = callers("admin")
    for one in (node, other):
        assert admin.post(f"/v1/nodes/{one['uuid']}/holds", BODY).status == 201
    mine = callers("reader", OWNER).get("/v1/holds").json["holds"]
    assert [one["node_uuid"] for one in mine] == [node["uuid"], other["uuid"]]
    assert [one["reason"] is None for one in mine] == [False, True]
    leased = callers("reader", LESSEE).get("/v1/holds").json["holds"]
    assert [(one["node_uuid"], one["reason"]) for one in leased] == [(node["uuid"], None)]
    assert len(callers("reader").get("/v1/holds").json["holds"]) == 2
    path = f"/v1/holds?node={other['uuid']}"
    assert len(callers("reader", OWNER).get(path).json["holds"]) == 1
    assert callers("reader", LESSEE).get(path).json["holds"] == []
    page = admin.get("/v1/holds?limit=1").json
    rest = admin.get(f"/v1/holds?limit=1&marker={page['holds'][0]['uuid']}").json
    assert [one["node_uuid"] for one in (*page["holds"], *rest["holds"])] == [
        node["uuid"],
        other["uuid"],
    ]


def test_policy_file_restricts_a_kind(ruled: Ruled, add_node: AddNode) -> None:  # noqa: F811
    rule = "baremetal:node:hold:create:legal"
    callers = ruled(f'"{rule}": "role:admin and system_scope:all"\n')
    node = add_node(owner=OWNER, provision_state="manageable")["uuid"]
    path = f"/v1/nodes/{node}/holds"
    manager = callers("manager", OWNER)
    refused = manager.post(path, BODY)
    assert (refused.status, rule in refused.text) == (403, True)
    assert manager.post(path, {"kind": "hardware", "reason": "fan 3"}).status == 201
    assert callers("admin").post(path, BODY).status == 201
    many = callers("member").post("/v1/holds", {**BODY, "all": True})
    assert (many.status, rule in many.text) == (403, True)
    assert callers("admin").post("/v1/holds", {**BODY, "all": True}).status == 200


def test_policy_file_restricts_the_end_of_many(ruled: Ruled, add_node: AddNode) -> None:  # noqa: F811
    rule = "baremetal:node:hold:delete"
    callers = ruled(f'"{rule}": "role:admin and system_scope:all"\n')
    add_node()
    body = {**BODY, "all": True}
    assert callers("member").post("/v1/holds", body).status == 200
    refused = callers("member").post("/v1/holds/end", body)
    assert (refused.status, rule in refused.text) == (403, True)
    assert callers("admin").post("/v1/holds/end", body).json["ended"] == 1


def test_documents_of_nodes_do_not_change(callers: Callers, node: dict[str, Any]) -> None:
    admin = callers("admin")
    before = admin.get(f"/v1/nodes/{node['uuid']}").json
    assert admin.post(f"/v1/nodes/{node['uuid']}/holds", BODY).status == 201
    assert admin.get(f"/v1/nodes/{node['uuid']}").json == before


@pytest.mark.parametrize("version", [1, 60])
def test_resource_is_in_every_version(callers: Callers, node: dict[str, Any], version: int) -> None:
    admin = callers("admin").at(version)
    path = f"/v1/nodes/{node['uuid']}/holds"
    assert admin.post(path, BODY).status == 201
    assert len(admin.get(path).json["holds"]) == 1
    assert len(admin.get("/v1/nodes?held=true").json["nodes"]) == 1


def test_wrong_kind_is_refused_in_words(callers: Callers, node: dict[str, Any]) -> None:
    path = f"/v1/nodes/{node['uuid']}/holds"
    refused = callers("admin").post(path, {**BODY, "kind": "Legal"})
    assert refused.status == 400
    said = "kind: must be a word of a-z, 0-9 and -, of 1 to 32 characters"
    assert said in refused.text


def test_owner_releases_no_machine_early(callers: Callers, node: dict[str, Any]) -> None:
    owner, admin = callers("admin", OWNER), callers("admin")
    path = f"/v1/nodes/{node['uuid']}/holds"
    body = {"kind": "observe", "reason": "x"}
    assert owner.post(path, body).status == 403
    assert owner.post("/v1/holds", {**body, "all": True}).status == 403
    assert owner.post("/v1/holds", {**body, "nodes": [node["uuid"]]}).status == 403
    held = admin.post(path, body).json["uuid"]
    assert owner.delete(f"{path}/{held}?unread=true").status == 403
    assert owner.post("/v1/holds/end", {**body, "all": True}).status == 403
    assert callers("reader").post("/v1/holds", {**body, "all": True}).status == 403
    assert admin.delete(f"{path}/{held}?unread=true").status == 204
