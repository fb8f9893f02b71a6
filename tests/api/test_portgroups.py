"""Portgroups over HTTP: their life from 1.23 on, their ports, what their node's state forbids."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode, set_node
from tests.support.statements import count_statements
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


# -- the life of one -------------------------------------------------------------------------


def test_a_new_portgroup_is_shown_whole_and_has_a_place(api: Client, node: Json) -> None:
    answer = api.post(PLACE, {"node_uuid": node["uuid"], "mode": None})
    shown = answer.json
    path = f"/v1/portgroups/{shown['uuid']}"
    assert answer.headers["location"] == f"http://localhost:6385{path}"
    host = "http://localhost:6385"
    assert shown == {
        "uuid": shown["uuid"],
        "created_at": shown["created_at"],
        "updated_at": None,
        "address": None,
        "category": None,
        "dynamic_portgroup": False,
        "extra": {},
        "internal_info": {},
        "mode": "active-backup",
        "name": None,
        "node_uuid": node["uuid"],
        "physical_network": None,
        "properties": {},
        "standalone_ports_supported": True,
        "links": [
            {"href": f"{host}{path}", "rel": "self"},
            {"href": f"{host}{path.removeprefix('/v1')}", "rel": "bookmark"},
        ],
        "ports": [
            {"href": f"{host}{path}/ports", "rel": "self"},
            {"href": f"{host}{path.removeprefix('/v1')}/ports", "rel": "bookmark"},
        ],
    }
    assert api.get(path).json == shown


def test_portgroup_keeps_the_given_values(api: Client, node: Json) -> None:
    given = {
        "uuid": ABSENT,
        "name": "bond0",
        "address": MAC.format(1).upper(),
        "mode": "802.3ad",
        "properties": {"miimon": 100},
        "standalone_ports_supported": "no",
        "extra": {"a": 1},
        "physical_network": "left",
        "category": "fast",
    }
    shown = add(api, node, **given)
    kept = {**given, "address": MAC.format(1), "standalone_ports_supported": False}
    assert {name: shown[name] for name in kept} == kept
    assert api.get(f"{PLACE}/bond0").json == shown


def test_new_portgroups_have_the_mode_that_the_operator_set(
    api: Client, node: Json, conf: Any
) -> None:
    conf.set_override("default_portgroup_mode", "balance-rr")
    group = add(api, node)
    assert group["mode"] == "balance-rr"
    assert change(api, group, mode="802.3ad").json["mode"] == "802.3ad"
    patch = [{"op": "remove", "path": "/mode"}]
    assert api.patch(f"{PLACE}/{group['uuid']}", patch).json["mode"] == "balance-rr"


@pytest.mark.parametrize(
    ("version", "gone"),
    [
        (25, {"mode", "properties", "physical_network", "category", "dynamic_portgroup"}),
        (101, {"physical_network", "category", "dynamic_portgroup"}),
        (102, {"category", "dynamic_portgroup"}),
        (110, {"dynamic_portgroup"}),
        (111, set()),
    ],
)
def test_old_versions_see_old_fields(api: Client, node: Json, version: int, gone: set[str]) -> None:
    group = add(api, node)
    assert set(group) - set(api.at(version).get(f"{PLACE}/{group['uuid']}").json) == gone


def test_a_field_newer_than_the_version_is_not_acceptable(api: Client, node: Json) -> None:
    for version, field in ((25, "mode"), (101, "physical_network"), (102, "category")):
        body = {"node_uuid": node["uuid"], field: "x"}
        assert api.at(version).post(PLACE, body).status == 406
        assert api.at(version).get(f"{PLACE}?fields={field}").status == 406
    assert api.at(105).get(f"{PLACE}?shard=a").status == 406
    assert uuids(api.get(PLACE)) == []


def test_there_are_no_portgroups_before_1_23(api: Client, node: Json) -> None:
    group = add(api, node)
    path, below = f"{PLACE}/{group['uuid']}", f"/v1/nodes/{node['uuid']}/portgroups"
    old = api.at(22)
    assert {old.get(PLACE).status, old.get(path).status, old.delete(path).status} == {404}
    assert old.post(PLACE, {"node_uuid": node["uuid"]}).status == 404
    new = api.at(23)
    assert (new.get(path).status, new.get(below).status, new.get(f"{path}/ports").status) == (
        *(200, 404, 404),
    )
    assert (api.at(24).get(below).status, api.at(24).get(f"{path}/ports").status) == (200, 200)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"node_uuid": ABSENT}, 400),
        ({"node_uuid": None}, 400),
        ({"address": "x"}, 400),
        ({"name": "a b"}, 400),
        ({"foo": 1}, 400),
        ({"dynamic_portgroup": True}, 400),
        ({"internal_info": {}}, 400),
        ({"properties": []}, 400),
        ({"standalone_ports_supported": "perhaps"}, 400),
        ({"category": "a" * 81}, 400),
        ({"physical_network": ""}, 400),
    ],
)
def test_a_bad_portgroup_is_refused(api: Client, node: Json, more: Json, status: int) -> None:
    answer = api.post(PLACE, {"node_uuid": node["uuid"], **more})
    assert answer.status == status
    assert next(iter(more)) in answer.text or "could not be found" in answer.text
    assert uuids(api.get(PLACE)) == []


@pytest.mark.parametrize(
    ("key", "value", "called"),
    [
        ("name", "bond0", "name"),
        ("address", MAC.format(1), "MAC address"),
        ("uuid", ABSENT, "uuid"),
    ],
)
def test_portgroups_differ(api: Client, node: Json, key: str, value: str, called: str) -> None:
    add(api, node, **{key: value})
    answer = api.post(PLACE, {"node_uuid": node["uuid"], key: value})
    assert answer.status == 409
    assert f"A portgroup with {called} {value} already exists" in answer.text


def test_a_portgroup_is_changed_told_of_and_removed(
    api: Client, node: Json, database: session.Database
) -> None:
    group = add(api, node, name="bond0")
    answer = change(api, group, name="bond1", standalone_ports_supported=False, address=None)
    assert answer.status == 200
    assert (answer.json["name"], answer.json["standalone_ports_supported"]) == ("bond1", False)
    assert answer.json == api.get(f"{PLACE}/bond1").json
    assert answer.json["updated_at"] is not None
    assert api.patch(f"{PLACE}/bond1", []).json == answer.json
    assert api.delete(f"{PLACE}/bond1").status == 204
    assert api.delete(f"{PLACE}/bond1").status == 404
    told = database.read(lambda conn: events.page(conn, node_uuid=node["uuid"]))
    assert [row["kind"] for row in told] == [
        f"portgroup_{what}" for what in ("created", "updated", "deleted")
    ]
    assert (told[1]["data"] or {})["changed"] == ["name", "standalone_ports_supported"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/uuid", "value": ABSENT},
        {"op": "replace", "path": "/node_uuid", "value": ABSENT},
        {"op": "remove", "path": "/node_uuid"},
        {"op": "add", "path": "/internal_info/x", "value": 1},
        {"op": "replace", "path": "/dynamic_portgroup", "value": True},
        {"op": "replace", "path": "/name", "value": "a b"},
        {"op": "test", "path": "/name", "value": "x"},
    ],
    ids=lambda operation: f"{operation['op']}{operation['path']}",
)
def test_a_bad_patch_changes_nothing(api: Client, node: Json, operation: Json) -> None:
    group = add(api, node)
    also = {"op": "add", "path": "/category", "value": "changed"}
    assert api.patch(f"{PLACE}/{group['uuid']}", [also, operation]).status == 400
    assert api.get(f"{PLACE}/{group['uuid']}").json == group


@pytest.mark.parametrize("ident", [ABSENT, "nobody"])
def test_an_absent_portgroup_is_not_found(api: Client, ident: str) -> None:
    path = f"{PLACE}/{ident}".encode().decode("latin-1")
    for answer in (api.get(path), api.patch(path, []), api.delete(path), api.get(f"{path}/ports")):
        assert answer.status == 404
        assert "Portgroup" in answer.text


# -- lists -----------------------------------------------------------------------------------


def test_a_list_is_brief_unless_asked(api: Client, node: Json) -> None:
    group = add(api, node)
    (brief,) = api.get(PLACE).json["portgroups"]
    assert set(brief) == {"uuid", "name", "address", "links"}
    for path in (f"{PLACE}/detail", f"{PLACE}?detail=true", "/v1/nodes/rack1/portgroups/detail"):
        assert api.get(path).json["portgroups"] == [group]
    assert api.at(42).get(f"{PLACE}?detail=true").status == 400
    (chosen,) = api.get(f"{PLACE}?fields=mode").json["portgroups"]
    assert set(chosen) == {"mode", "links"}


def test_portgroups_are_found_by_what_they_are(
    api: Client, node: Json, add_node: AddNode, database: session.Database
) -> None:
    set_node(database, node, shard="a", conductor_group="rack")
    mine = add(api, node, address=MAC.format(1), name="b")["uuid"]
    other = add(api, add_node(), name="a")["uuid"]
    for query, wanted in (
        (f"address={MAC.format(1).upper()}", [mine]),
        (f"address={MAC.format(9)}", []),
        ("node=rack1", [mine]),
        (f"node={node['uuid']}", [mine]),
        ("shard=a,b", [mine]),
        ("conductor_groups=RACK", [mine]),
        ("sort_key=name", [other, mine]),
        ("limit=1", [mine]),
        (f"limit=1&marker={mine}", [other]),
    ):
        assert uuids(api.get(f"{PLACE}?{query}")) == wanted, query
    assert uuids(api.get("/v1/nodes/rack1/portgroups")) == [mine]
    for query, status in (
        ("node=nobody", 404),
        ("address=x", 400),
        ("sort_key=extra", 400),
        ("foo=1", 400),
        (f"marker={ABSENT}", 404),
    ):
        assert api.get(f"{PLACE}?{query}").status == status, query


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("path", [PLACE, f"{PLACE}/detail", "/v1/nodes/rack1/portgroups/detail"])
def test_a_list_takes_as_many_statements_however_long(
    api: Client, node: Json, database: session.Database, path: str, rows: int
) -> None:
    for _ in range(rows):
        add(api, node)
    with count_statements(database) as sent:
        assert len(api.get(path).json["portgroups"]) == rows
    assert len(sent) == (2 if "nodes" in path else 1), sent


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


def test_a_locked_node_keeps_its_portgroups_and_gets_new_ones(
    api: Client, node: Json, database: session.Database
) -> None:
    group = add(api, node)
    set_node(database, node, reservation="conductor-1")
    for answer in (change(api, group, name="x"), api.delete(f"{PLACE}/{group['uuid']}")):
        assert answer.status == 409
        assert "locked by host conductor-1" in answer.text
    assert api.post(PLACE, {"node_uuid": node["uuid"]}).status == 201


def test_portgroups_stay_while_their_node_is_inspected(
    api: Client, node: Json, database: session.Database
) -> None:
    group = add(api, node)
    set_node(database, node, provision_state="inspecting")
    assert change(api, group, extra={"a": 1}).status == 409
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert api.at(38).patch(f"{PLACE}/{group['uuid']}", patch).status == 200


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
