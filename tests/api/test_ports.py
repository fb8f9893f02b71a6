"""Ports over HTTP: made, found, changed and removed, and what their node's state forbids."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode, set_node
from tests.support.wsgi_client import Client

MAC = "52:54:00:12:34:56"
OTHER = "52:54:00:12:34:57"
ABSENT = "00000000-0000-4000-8000-000000000000"
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


def kinds(database: session.Database, node: Json) -> list[str]:
    found = database.read(lambda conn: events.page(conn, node_uuid=node["uuid"]))
    return [row["kind"] for row in found]


def test_a_new_port_is_shown_whole_and_has_a_place(api: Client, node: Json) -> None:
    answer = api.post("/v1/ports", {"node_uuid": node["uuid"], "address": MAC.upper()})
    assert answer.status == 201
    port = answer.json
    assert answer.headers["location"].endswith(f"/v1/ports/{port['uuid']}")
    assert port == {
        "uuid": port["uuid"],
        "created_at": port["created_at"],
        "updated_at": None,
        "address": MAC,
        "available_for_dynamic_portgroup": True,
        "category": None,
        "description": None,
        "extra": {},
        "internal_info": {},
        "is_smartnic": False,
        "local_link_connection": {},
        "name": None,
        "node_uuid": node["uuid"],
        "physical_network": None,
        "portgroup_uuid": None,
        "pxe_enabled": True,
        "vendor": None,
        "links": [
            {"href": f"http://localhost:6385/v1/ports/{port['uuid']}", "rel": "self"},
            {"href": f"http://localhost:6385/ports/{port['uuid']}", "rel": "bookmark"},
        ],
    }
    assert port["created_at"].endswith("+00:00")
    assert api.get(f"/v1/ports/{port['uuid']}").json == port


def test_old_versions_see_old_fields(api: Client, node: Json) -> None:
    port = add(api, node)
    shown = api.at(1).get(f"/v1/ports/{port['uuid']}").json
    assert set(shown) == {
        *("uuid", "address", "node_uuid", "extra", "created_at", "updated_at", "links"),
    }


def test_the_list_shows_uuid_and_address(api: Client, node: Json) -> None:
    port = add(api, node)
    (shown,) = api.get("/v1/ports").json["ports"]
    assert set(shown) == {"uuid", "address", "links"}
    (full,) = api.get("/v1/ports/detail").json["ports"]
    assert full == port
    assert api.get("/v1/ports?detail=true").json["ports"] == [port]
    (some,) = api.get("/v1/ports?fields=node_uuid,address").json["ports"]
    assert set(some) == {"node_uuid", "address", "links"}


def test_ports_are_found_by_what_they_are(
    api: Client, node: Json, add_node: AddNode, database: session.Database
) -> None:
    set_node(database, node, shard="a", conductor_group="rack")
    mine = add(api, node, description="The 100% port")["uuid"]
    other = add(api, add_node(provision_state="manageable"), OTHER)["uuid"]
    for query, wanted in (
        (f"address={MAC.upper()}", [mine]),
        ("address=52:54:00:00:00:00", []),
        (f"node_uuid={node['uuid']}", [mine]),
        (f"node={node['uuid']}", [mine]),
        ("node=rack1", [mine]),
        ("shard=a,b", [mine]),
        ("conductor_groups=RACK", [mine]),
        ("description_contains=100%25", [mine]),
        ("sort_key=address&sort_dir=desc", [other, mine]),
        ("limit=1", [mine]),
        (f"limit=1&marker={mine}", [other]),
    ):
        found = api.get(f"/v1/ports?{query}").json["ports"]
        assert [port["uuid"] for port in found] == wanted, query


def test_a_full_page_links_to_the_next(api: Client, node: Json) -> None:
    first = add(api, node)
    add(api, node, OTHER)
    page = api.get(f"/v1/ports?node_uuid={node['uuid']}&limit=1").json
    assert f"marker={first['uuid']}" in page["next"]
    assert f"node_uuid={node['uuid']}" in page["next"]
    (shown,) = api.get(page["next"].removeprefix("http://localhost:6385")).json["ports"]
    assert shown["address"] == OTHER


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("address=nonsense", 400),
        ("node_uuid=nonsense", 400),
        ("foo=1", 400),
        ("limit=-1", 400),
        (f"marker={ABSENT}", 404),
        (f"node_uuid={ABSENT}", 404),
        ("node=absent", 404),
        ("node=", 400),
        ("portgroup=", 400),
        ("portgroup=absent", 404),
    ],
)
def test_a_bad_search_is_refused(api: Client, query: str, status: int) -> None:
    assert api.get(f"/v1/ports?{query}").status == status


def test_the_ports_of_a_node_are_listed_below_it(
    api: Client, node: Json, add_node: AddNode
) -> None:
    port = add(api, node)
    add(api, add_node(), OTHER)
    for ident in (node["uuid"], "rack1"):
        (shown,) = api.get(f"/v1/nodes/{ident}/ports").json["ports"]
        assert shown["uuid"] == port["uuid"]
    assert api.get("/v1/nodes/rack1/ports/detail").json["ports"] == [port]
    page = api.get("/v1/nodes/rack1/ports?limit=1").json
    assert "/v1/nodes/rack1/ports?" in page["next"]
    assert api.get("/v1/nodes/absent/ports").status == 404


def test_a_port_has_a_name_from_1_88_on(api: Client, node: Json) -> None:
    port = add(api, node, name="eth0")
    assert api.get("/v1/ports/eth0").json["address"] == MAC
    assert "name" not in api.at(87).get("/v1/ports/eth0").json
    assert api.delete(f"/v1/ports/{port['uuid']}").status == 204


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"address": "x"}, 400),
        ({"address": None}, 400),
        ({"node_uuid": ABSENT}, 400),
        ({"node_uuid": None}, 400),
        ({"foo": 1}, 400),
        ({"portgroup_uuid": ABSENT}, 400),
        ({"local_link_connection": {"switch_id": "tor"}}, 400),
    ],
)
def test_a_bad_port_is_refused(api: Client, node: Json, more: Json, status: int) -> None:
    body = {"node_uuid": node["uuid"], "address": MAC, **more}
    answer = api.post("/v1/ports", body)
    assert answer.status == status
    assert answer.text
    assert api.get("/v1/ports").json["ports"] == []


def test_only_detail_is_no_name_of_a_port_or_portgroup(api: Client, node: Json) -> None:
    port = add(api, node, name="management")
    assert api.get("/v1/ports/management").json["uuid"] == port["uuid"]
    group = {"node_uuid": node["uuid"], "name": "ports"}
    assert api.post("/v1/portgroups", group).status == 201
    assert api.get("/v1/portgroups/ports").json["name"] == "ports"
    renamed = [{"op": "replace", "path": "/name", "value": "detail"}]
    for path in ("ports/management", "portgroups/ports"):
        refused = api.patch(f"/v1/{path}", renamed)
        assert (refused.status, "'detail' is reserved" in refused.text) == (400, True)


def test_a_field_newer_than_the_version_is_not_acceptable(api: Client, node: Json) -> None:
    body = {"node_uuid": node["uuid"], "address": MAC, "name": "eth0"}
    assert api.at(87).post("/v1/ports", body).status == 406


def test_a_port_may_name_its_node_by_ident(api: Client, node: Json) -> None:
    answer = api.post("/v1/ports", {"node_ident": "rack1", "address": MAC})
    assert answer.json["node_uuid"] == node["uuid"]


def test_a_mac_address_belongs_to_one_port_only(api: Client, node: Json, add_node: AddNode) -> None:
    add(api, node)
    body = {"node_uuid": add_node()["uuid"], "address": MAC.upper()}
    answer = api.post("/v1/ports", body)
    assert answer.status == 409
    assert f"port with MAC address {MAC} already exists" in answer.text


def test_a_port_is_changed_by_a_patch(api: Client, node: Json, database: session.Database) -> None:
    port = add(api, node, extra={"a": 1})
    answer = change(
        api,
        port,
        {"op": "replace", "path": "/address", "value": OTHER.upper()},
        {"op": "add", "path": "/extra/b", "value": 2},
        {"op": "remove", "path": "/pxe_enabled"},
    )
    assert answer.status == 200
    assert answer.json == api.get(f"/v1/ports/{port['uuid']}").json
    assert (answer.json["address"], answer.json["extra"]) == (OTHER, {"a": 1, "b": 2})
    assert answer.json["updated_at"] is not None
    assert change(api, port).json == answer.json
    assert kinds(database, node) == ["port_created", "port_updated"]


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        ({"op": "remove", "path": "/address"}, 400),
        ({"op": "replace", "path": "/address", "value": "x"}, 400),
        ({"op": "replace", "path": "/uuid", "value": ABSENT}, 400),
        ({"op": "replace", "path": "/node_uuid", "value": ABSENT}, 400),
        ({"op": "add", "path": "/portgroup_uuid", "value": ABSENT}, 400),
        ({"op": "add", "path": "/internal_info/x", "value": 1}, 400),
        ({"op": "remove", "path": "/extra/absent"}, 400),
        ({"op": "test", "path": "/address", "value": MAC}, 400),
    ],
)
def test_a_bad_patch_changes_nothing(api: Client, node: Json, operation: Json, status: int) -> None:
    port = add(api, node)
    also = {"op": "add", "path": "/description", "value": "changed"}
    assert change(api, port, also, operation).status == status
    assert api.get(f"/v1/ports/{port['uuid']}").json == port


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


def test_a_locked_node_keeps_its_ports_and_gets_new_ones(
    api: Client, node: Json, database: session.Database
) -> None:
    port = add(api, node)
    set_node(database, node, reservation="conductor-1")
    body = {"node_uuid": node["uuid"], "address": OTHER}
    for answer in (
        change(api, port, {"op": "add", "path": "/extra/a", "value": 1}),
        api.delete(f"/v1/ports/{port['uuid']}"),
    ):
        assert answer.status == 409
        assert "locked by host conductor-1" in answer.text
    assert api.post("/v1/ports", body).status == 201
    assert kinds(database, node) == ["port_created", "port_created"]


def test_a_port_is_removed(api: Client, node: Json, database: session.Database) -> None:
    port = add(api, node)
    answer = api.delete(f"/v1/ports/{port['uuid']}")
    assert (answer.status, answer.body) == (204, b"")
    assert api.get(f"/v1/ports/{port['uuid']}").status == 404
    assert api.delete(f"/v1/ports/{port['uuid']}").status == 404
    assert kinds(database, node) == ["port_created", "port_deleted"]


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


@pytest.mark.parametrize("ident", ["x y", "\u00c3\u00a9", "a" * 300, ABSENT, "a\x00b", "."])
def test_no_ident_is_a_fault_of_ours(api: Client, ident: str) -> None:
    assert api.get(f"/v1/ports/{ident}").status in {400, 404}


def test_the_path_says_whose_ports_are_listed(api: Client, node: Json, add_node: AddNode) -> None:
    other = add_node(name="other")
    mine = add(api, node)
    for more in ("node=other", "node=nobody", f"node_uuid={other['uuid']}"):
        found = api.get(f"/v1/nodes/{node['uuid']}/ports?{more}").json["ports"]
        assert [each["uuid"] for each in found] == [mine["uuid"]]


def test_ports_stay_while_their_node_is_inspected(
    api: Client, node: Json, database: session.Database
) -> None:
    port = add(api, node)
    set_node(database, node, provision_state="inspecting", target_provision_state="manageable")
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    path = f"/v1/ports/{port['uuid']}"
    assert api.patch(path, patch).status == 409
    assert api.at(38).patch(path, patch).status == 200
