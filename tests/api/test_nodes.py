"""Nodes over HTTP: enroll, show, list, change, forget."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.db.engine import session
from ironic_lite.db.queries import conductors, events, nodes, resources
from ironic_lite.domain import fields
from tests.support import configurations
from tests.support.api_rows import HOST, AddNode, add_conductor
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

NOBODY = "00000000-0000-4000-8000-00000000dead"
LONG_AGO = datetime.datetime(2020, 1, 1)


def seen_events(database: session.Database, node_uuid: str) -> list[tuple[str, Any]]:
    rows = database.read(lambda conn: events.page(conn, node_uuid=node_uuid))
    return [(row["kind"], row["data"]) for row in rows]


# -- POST ------------------------------------------------------------------------------------


def test_a_node_is_enrolled(api: Client, recorder: Recorder, database: session.Database) -> None:
    body = {
        "driver": "fake-hardware",
        "name": "rack1.slot2~a_b-c",
        "driver_info": {"redfish_password": "hunter2", "fake_step_seconds": 1},
        "properties": {"cpu_arch": "x86_64"},
        "extra": {"deep": [{"nested": True}]},
        "power_interface": "redfish",
    }
    answer = api.post("/v1/nodes", body)
    assert answer.status == 201
    shown = answer.json
    assert answer.headers["location"] == f"http://localhost:6385/v1/nodes/{shown['uuid']}"
    assert uuid.UUID(shown["uuid"]).version == 4
    assert shown["provision_state"] == "enroll"
    assert shown["driver_info"] == {"redfish_password": "******", "fake_step_seconds": 1}
    assert (shown["power_interface"], shown["deploy_interface"]) == ("redfish", "fake")
    assert shown["extra"] == body["extra"]
    assert (
        shown
        == api.get(f"/v1/nodes/{shown['uuid']}").json
        == api.get("/v1/nodes/rack1.slot2~a_b-c").json
    )
    assert seen_events(database, shown["uuid"]) == [("node_created", {"driver": "fake-hardware"})]
    stored = database.read(lambda conn: nodes.get(conn, shown["uuid"]))
    assert stored["driver_info"]["redfish_password"] == "hunter2"
    assert recorder.hosts == [HOST]


def test_before_1_11_a_node_starts_available(api: Client) -> None:
    body = {"driver": "fake-hardware"}
    assert api.at(11).post("/v1/nodes", body).json["provision_state"] == "enroll"
    assert api.at(10).post("/v1/nodes", body).json["provision_state"] == "available"
    assert api.at(1).post("/v1/nodes", body).json["provision_state"] is None


def test_every_field_is_shown_from_its_version_on(api: Client, add_node: AddNode) -> None:
    node = add_node()
    below = {"ports": 1, "states": 14, "portgroups": 24, "volume": 32}
    since = {**{field.name: field.since for field in fields.NODE if not field.asked}, **below}
    for version in (1, 4, 5, 12, 31, 37, 61, 75, 86, 95, 103, 104, 109, 115):
        shown = api.at(version).get(f"/v1/nodes/{node['uuid']}").json
        assert set(shown) == {name for name, first in since.items() if first <= version}


@pytest.mark.parametrize("field", [f for f in fields.NODE if f.since > 1 and f.creatable])
def test_a_field_is_406_before_its_version(api: Client, field: fields.Field) -> None:
    value: Any = {fields.Type.BOOLEAN: True, fields.Type.OBJECT: {"a": 1}}.get(field.type, "x")
    body = {"driver": "fake-hardware", field.name: value}
    assert api.at(field.since - 1).post("/v1/nodes", body).status == 406


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("uuid", "5a0d4b1e-9df2-4a4f-8a51-0a5f4c0b7f11"),
        ("name", "same"),
        ("instance_uuid", "e2f6c4a0-3c55-4d0e-9c39-6a8c1c9d2b22"),
    ],
)
def test_unique_value_is_accepted_once(
    api: Client, key: str, value: str, database: session.Database
) -> None:
    body = {"driver": "fake-hardware", key: value}
    assert api.post("/v1/nodes", body).status == 201
    answer = api.post("/v1/nodes", body)
    assert answer.status == 409
    assert key in answer.text
    assert value in answer.text
    assert len(api.get("/v1/nodes").json["nodes"]) == 1


WRONG_NODES: dict[str, tuple[Any, str]] = {
    "no driver": ({}, "driver"),
    "a driver that is null": ({"driver": None}, "driver"),
    "no object": ([], "object"),
    "nothing": (None, "object"),
    "an unknown key": ({"driver": "fake-hardware", "colour": "red"}, "colour"),
    "a read-only key": ({"driver": "fake-hardware", "power_state": "power on"}, "power_state"),
    "a name like a UUID": ({"driver": "fake-hardware", "name": NOBODY}, "name"),
    "a reserved name": ({"driver": "fake-hardware", "name": "traits"}, "traits"),
    "a name with a slash": ({"driver": "fake-hardware", "name": "a/b"}, "name"),
    "an empty name": ({"driver": "fake-hardware", "name": ""}, "name"),
    "a long name": ({"driver": "fake-hardware", "name": "n" * 256}, "name"),
    "a uuid that is none": ({"driver": "fake-hardware", "uuid": "abc"}, "uuid"),
    "driver_info that is a list": ({"driver": "fake-hardware", "driver_info": []}, "driver_info"),
    "a long resource class": (
        {"driver": "fake-hardware", "resource_class": "x" * 81},
        "resource_class",
    ),
    "a chassis nobody has": ({"driver": "fake-hardware", "chassis_uuid": NOBODY}, NOBODY),
    "a parent nobody has": ({"driver": "fake-hardware", "parent_node": NOBODY}, NOBODY),
    "a driver nobody has": ({"driver": "steam-engine"}, "steam-engine"),
    "a group nobody is in": ({"driver": "fake-hardware", "conductor_group": "mars"}, "mars"),
    "a size that is none": (
        {"driver": "fake-hardware", "properties": {"local_gb": "large"}},
        "properties/local_gb",
    ),
    "a size below nothing": (
        {"driver": "fake-hardware", "properties": {"memory_mb": -1}},
        "properties/memory_mb",
    ),
    "traits": ({"driver": "fake-hardware", "traits": ["CUSTOM_A"]}, "traits"),
    "protected": ({"driver": "fake-hardware", "protected": True}, "protected"),
}


@pytest.mark.parametrize("case", WRONG_NODES)
def test_a_wrong_node_is_refused_by_name_and_not_stored(api: Client, case: str) -> None:
    body, named = WRONG_NODES[case]
    answer = api.request("POST", "/v1/nodes", body)
    assert (answer.status, named in answer.text) == (400, True), answer.text
    assert api.get("/v1/nodes").json == {"nodes": []}


def test_the_conductor_judges_interfaces(api: Client, recorder: Recorder) -> None:
    recorder.answers["check_node"] = errors.InterfaceNotFound(
        kind="power", driver="fake-hardware", name="steam", valid=["fake"], advice="Enable it."
    )
    answer = api.post("/v1/nodes", {"driver": "fake-hardware", "power_interface": "steam"})
    assert answer.status == 400
    assert "Valid interfaces are ['fake']" in answer.text


def test_new_node_gets_the_operators_defaults(
    api: Client, conf: cfg.ConfigOpts, database: session.Database
) -> None:
    conf.set_override("default_resource_class", "baremetal")
    conf.set_override("default_conductor_group", "Mars")
    add_conductor(database, "mars-1", group="mars")
    keys = ("resource_class", "conductor_group")

    def enrolled(**said: str) -> tuple[str, ...]:
        shown = api.post("/v1/nodes", {"driver": "fake-hardware", **said}).json
        return tuple(shown[key] for key in keys)

    assert enrolled() == ("baremetal", "mars")
    assert enrolled(resource_class="", conductor_group="") == ("baremetal", "mars")
    assert enrolled(resource_class="gold", conductor_group="mars") == ("gold", "mars")


def test_a_chassis_can_be_named(api: Client, database: session.Database) -> None:
    known = str(uuid.uuid4())
    database.write(lambda conn: resources.CHASSIS.insert(conn, {"uuid": known}))
    answer = api.post("/v1/nodes", {"driver": "fake-hardware", "chassis_uuid": known})
    assert answer.json["chassis_uuid"] == known


def test_a_parent_can_be_named_and_its_children_hide(api: Client) -> None:
    parent = api.post("/v1/nodes", {"driver": "fake-hardware", "name": "mother"}).json
    child = api.post("/v1/nodes", {"driver": "fake-hardware", "parent_node": "mother"}).json
    assert child["parent_node"] == parent["uuid"]
    assert len(api.get("/v1/nodes").json["nodes"]) == 1
    assert len(api.get("/v1/nodes?include_children=true").json["nodes"]) == 2


# -- which conductor -------------------------------------------------------------------------


def test_a_conductor_that_has_died_is_503(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node()
    database.write(lambda conn: conductors.touch(conn, host=HOST, now=LONG_AGO))
    answer = api.put(f"/v1/nodes/{node['uuid']}/states/provision", {"target": "manage"})
    assert answer.status == 503
    assert HOST in answer.text
    assert api.post("/v1/nodes", {"driver": "fake-hardware"}).status == 503


def test_a_conductor_that_was_stopped_is_503(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node()
    database.write(lambda conn: conductors.offline(conn, HOST, LONG_AGO))
    assert api.delete(f"/v1/nodes/{node['uuid']}").status == 503
    assert api.post("/v1/nodes", {"driver": "fake-hardware"}).status == 503


def test_before_the_first_conductor_is_there_an_enrolment_is_503(
    api: Client, database: session.Database
) -> None:
    database.write(lambda conn: conductors.offline(conn, HOST, LONG_AGO))
    answer = api.post("/v1/nodes", {"driver": "one-that-comes-later"})
    assert answer.status == 503, "not 400: nobody knows yet which drivers there will be"
    assert int(answer.headers["retry-after"]) > 0
    assert "No conductor is alive" in answer.text


def test_a_driver_nobody_drives_is_404_on_a_node_that_exists(
    api: Client, add_node: AddNode
) -> None:
    node = add_node(driver="steam-engine")
    answer = api.put(f"/v1/nodes/{node['uuid']}/states/provision", {"target": "manage"})
    assert answer.status == 404
    assert "steam-engine" in answer.text


def test_a_conductor_that_joins_is_found_at_the_first_miss(
    api: Client, recorder: Recorder, database: session.Database
) -> None:
    api.post("/v1/nodes", {"driver": "fake-hardware"})
    add_conductor(database, "mars-1", "mars")
    body = {"driver": "fake-hardware", "conductor_group": "MARS"}
    assert api.post("/v1/nodes", body).json["conductor"] == "mars-1"
    assert recorder.hosts == [HOST, "mars-1"]


# -- GET -------------------------------------------------------------------------------------


def test_names_are_for_1_5_and_newer(api: Client, add_node: AddNode) -> None:
    node = add_node(name="named")
    assert api.at(5).get("/v1/nodes/named").status == 200
    assert api.at(4).get("/v1/nodes/named").status == 404
    assert api.at(4).get(f"/v1/nodes/{node['uuid']}").status == 200
    assert api.get(f"/v1/nodes/{node['uuid'].upper()}").status == 200
    assert api.get(f"/v1/nodes/{node['uuid'].replace('-', '')}").status == 200


def test_a_name_may_end_like_a_file(api: Client, add_node: AddNode) -> None:
    """Below 1.91 the ending is taken off, unless it belongs to the name."""
    named, plain = add_node(name="rack1.json"), add_node(name="rack1")
    other = add_node(name="rack2")

    def found(name: str) -> str:
        return str(api.at(90).get(f"/v1/nodes/{name}").json["uuid"])

    assert [found("rack1.json"), found("rack1")] == [named["uuid"], plain["uuid"]]
    assert found("rack2.json") == found(f"{other['uuid']}.json") == other["uuid"]
    assert api.at(90).get("/v1/nodes/rack3.json").status == 404
    assert api.at(90).delete("/v1/nodes/rack2.json").status == 204


def test_old_clients_see_states_they_know(api: Client, add_node: AddNode) -> None:
    ready = add_node(provision_state="available")["uuid"]
    looking = add_node(provision_state="inspect wait")["uuid"]
    for path, version, shown in [
        (ready, 1, None),
        (ready, 2, "available"),
        (looking, 38, "inspecting"),
        (looking, 39, "inspect wait"),
    ]:
        old = api.at(version)
        assert old.get(f"/v1/nodes/{path}").json["provision_state"] == shown
        assert old.get(f"/v1/nodes/{path}/states").json["provision_state"] == shown


def test_fields_are_chosen(api: Client, add_node: AddNode, database: session.Database) -> None:
    node = add_node(name="one", clean_step=None)
    database.write(lambda c: nodes.add_trait(c, node["uuid"], "CUSTOM_B", generation=0))
    shown = api.get("/v1/nodes/one?fields=name,NAME,clean_step,traits,conductor").json
    del shown["links"]
    assert shown == {
        "name": "one",
        "clean_step": {},
        "traits": ["CUSTOM_B"],
        "conductor": HOST,
    }
    assert api.get("/v1/nodes/one?fields=colour").status == 400
    assert api.get("/v1/nodes?fields=colour").status == 400
    assert api.at(7).get("/v1/nodes/one?fields=name").status == 406
    assert api.at(60).get("/v1/nodes/one?fields=retired").status == 406
    assert api.get("/v1/nodes/one?detail=true").status == 400


def test_secrets_are_masked_wherever_they_are_shown(api: Client, add_node: AddNode) -> None:
    secret = {"password": "hunter2", "deep": [{"auth_token": "hunter2"}], "name": "bmc"}
    node = add_node(driver_info=secret, driver_internal_info=secret, instance_info=secret)
    for path in (f"/v1/nodes/{node['uuid']}", "/v1/nodes/detail", "/v1/nodes?fields=driver_info"):
        body = api.get(path).body.decode()
        assert "hunter2" not in body
        assert "bmc" in body


# -- DELETE ----------------------------------------------------------------------------------


def test_a_node_is_forgotten_by_its_conductor(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(name="gone")
    answer = api.delete("/v1/nodes/gone")
    assert (answer.status, answer.body) == (204, b"")
    assert "content-length" not in answer.headers
    assert recorder.calls == [("destroy_node", {"node_uuid": node["uuid"]})]
    recorder.answers["destroy_node"] = errors.Conflict(node="gone", reason="it is active")
    assert api.delete("/v1/nodes/gone").status == 409
    assert api.delete("/v1/nodes/nobody").status == 404


# -- cost ------------------------------------------------------------------------------------


def test_statements_are_counted(api: Client, add_node: AddNode, database: session.Database) -> None:
    node = add_node(name="counted")
    api.get("/v1/nodes?fields=conductor")  # the membership is kept from now on
    noted = int("search" in configurations.FEATURES)  # the node, whose terms conductors make
    for method, path, body, most in [
        ("GET", "/v1/nodes/counted", None, 1),
        ("GET", f"/v1/nodes/{node['uuid']}?fields=uuid,traits,conductor", None, 1),
        ("GET", "/v1/nodes", None, 1),
        ("GET", f"/v1/nodes?marker={node['uuid']}", None, 2),
        ("GET", "/v1/nodes/detail", None, 1),
        ("GET", "/v1/nodes/counted/states", None, 1),
        ("PATCH", "/v1/nodes/counted", [{"op": "add", "path": "/extra/a", "value": 1}], 3 + noted),
        (
            "PATCH",
            "/v1/nodes/counted",
            [{"op": "add", "path": "/driver_info/a", "value": 1}],
            3 + noted,
        ),
        ("POST", "/v1/nodes", {"driver": "fake-hardware"}, 2 + noted),
        ("PUT", "/v1/nodes/counted/states/provision", {"target": "manage"}, 1),
        ("PUT", "/v1/nodes/counted/states/power", {"target": "power on"}, 1),
        ("PUT", "/v1/nodes/counted/maintenance", {"reason": "r"}, 3),
        ("DELETE", "/v1/nodes/counted/maintenance", None, 3),
    ]:
        with count_statements(database) as sent:
            answer = api.request(method, path, body)
        assert answer.status < 300, answer.text
        assert len(sent) <= most, f"{method} {path}:\n{sent}"


def test_a_null_uuid_is_made_up(api: Client, add_node: AddNode) -> None:
    node = add_node()
    port = {"node_uuid": node["uuid"], "address": "52:54:00:00:00:01"}
    for path, more in (
        ("/v1/nodes", {"driver": "fake-hardware"}),
        ("/v1/ports", port),
        ("/v1/chassis", {}),
    ):
        answer = api.post(path, {"uuid": None, **more})
        assert answer.status == 201
        assert answer.headers["location"].endswith(answer.json["uuid"])


# Shards and children: what can be seen of how nodes belong together.


def test_shards_are_counted_the_largest_first(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    for shard in ("b", "a", "a", "c", None):
        add_node(shard=shard)
    with count_statements(database) as sent:
        found = api.get("/v1/shards").json
    assert found == {
        "shards": [
            {"name": "a", "count": 2},
            {"name": "None", "count": 1},
            {"name": "b", "count": 1},
            {"name": "c", "count": 1},
        ]
    }
    assert len(sent) == 1
    assert (api.at(81).get("/v1/shards").status, api.get("/v1/shards/a").status) == (404, 404)
    assert "shards" in api.at(82).get("/v1").json
    assert api.get("/v1/shards?x=1").status == 400


def test_the_children_of_a_node_are_listed(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    parent = add_node(name="rack1")["uuid"]
    children = [add_node(parent_node=parent)["uuid"] for _ in range(3)]
    add_node(parent_node=children[0])
    link = {"href": f"http://localhost:6385/v1/nodes?parent_node={parent}", "rel": "children"}
    for ident in (parent, "rack1"):
        with count_statements(database) as sent:
            found = api.get(f"/v1/nodes/{ident}/children").json
        assert found == {"children": children, "links": link}
        assert len(sent) == 2
    assert api.get(f"/v1/nodes/{children[1]}/children").json["children"] == []
    assert api.at(82).get("/v1/nodes/rack1/children").status == 404
    assert api.get("/v1/nodes/nobody/children").status == 404
