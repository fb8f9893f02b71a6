"""What belongs to one node: inventory, firmware and traits."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events, reports
from tests.support.api_rows import AddNode
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

# What an inspection has found, on the wire, as Ironic's clients know it.

NOON = datetime.datetime(2026, 1, 31, 12, 0)
FOUND: dict[str, Any] = {"interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:00:01"}]}
MORE: dict[str, Any] = {"macs": ["52:54:00:00:00:01"]}


@pytest.fixture
def inspected_node(add_node: AddNode, database: Database) -> str:
    """The UUID of a node called metal-7 that was inspected."""
    uuid = str(add_node(name="metal-7")["uuid"])
    database.write(lambda conn: reports.put_inventory(conn, uuid, FOUND, MORE, at=NOON))
    return uuid


@pytest.mark.parametrize("version", [81, 115])
def test_inventory_has_the_data_of_plug_ins(api: Client, inspected_node: str, version: int) -> None:
    wanted = {"inventory": FOUND, "plugin_data": MORE}
    for ident in (inspected_node, "metal-7"):
        answer = api.at(version).get(f"/v1/nodes/{ident}/inventory")
        assert (answer.status, answer.json) == (200, wanted)


@pytest.mark.parametrize("version", [1, 80])
def test_inventory_is_404_below_1_81(api: Client, inspected_node: str, version: int) -> None:
    assert api.at(version).get(f"/v1/nodes/{inspected_node}/inventory").status == 404


def test_a_node_that_was_never_inspected_has_none(api: Client, add_node: AddNode) -> None:
    uuid = add_node()["uuid"]
    answer = api.get(f"/v1/nodes/{uuid}/inventory")
    assert answer.status == 404
    assert f"inventory record for node {uuid} could not be found" in answer.text
    assert api.get("/v1/nodes/nobody/inventory").status == 404


def test_secrets_in_it_are_hidden(api: Client, inspected_node: str, database: Database) -> None:
    told = {"boot": {"agent_token": "t0p"}, "logs": "http://me:s3cret@images.example.org/"}
    database.write(
        lambda conn: reports.put_inventory(conn, inspected_node, told, {"password": "x"}, at=NOON)
    )
    answer = api.get(f"/v1/nodes/{inspected_node}/inventory")
    assert answer.json == {
        "inventory": {
            "boot": {"agent_token": "******"},
            "logs": "http://me:******@images.example.org/",
        },
        "plugin_data": {"password": "******"},
    }


def test_an_answer_costs_two_statements(
    api: Client, inspected_node: str, database: Database
) -> None:
    with count_statements(database) as sent:
        assert api.get(f"/v1/nodes/{inspected_node}/inventory").status == 200
    assert len(sent) == 2, str(sent)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_inventory_is_read_only(api: Client, inspected_node: str, method: str) -> None:
    assert api.request(method, f"/v1/nodes/{inspected_node}/inventory", {}).status == 405


def test_unknown_arguments_are_refused(api: Client, inspected_node: str) -> None:
    assert api.get(f"/v1/nodes/{inspected_node}/inventory?detail=true").status == 400


# Firmware settings and versions on the wire, as Ironic's clients know them.

TOLD_AT = datetime.datetime(2026, 1, 31, 12, 0, 0, 123456)
TIMES = {"created_at": "2026-01-31T12:00:00.123456+00:00", "updated_at": None}
TURBO: dict[str, Any] = {
    "name": "Turbo",
    "value": "On",
    "attribute_type": "Enumeration",
    "allowable_values": ["On", "Off"],
    "lower_bound": None,
    "upper_bound": None,
    "min_length": None,
    "max_length": None,
    "read_only": False,
    "reset_required": True,
    "unique": None,
}
ODD = {"name": "a b/ü", "value": None}
BMC = {"component": "bmc", "current_version": "1.0", "vendor": "Acme", "serial_number": "7"}
VERSIONS = {
    "component": "bmc",
    "initial_version": "1.0",
    "current_version": "1.0",
    "last_version_flashed": None,
}
IDENTITY = {"vendor": "Acme", "model": None, "serial_number": "7"}


@pytest.fixture
def told_node(add_node: AddNode, database: Database) -> str:
    """The UUID of a node called metal-7 whose BMC has told of itself."""
    uuid = str(add_node(name="metal-7")["uuid"])
    database.write(lambda conn: reports.put_bios_settings(conn, uuid, [TURBO, ODD], at=TOLD_AT))
    database.write(lambda conn: reports.put_firmware(conn, uuid, [BMC], at=TOLD_AT))
    return uuid


def links(node: str, name: str) -> list[dict[str, str]]:
    base = "http://localhost:6385"
    return [
        {"href": f"{base}/v1/nodes/{node}/bios/{name}", "rel": "self"},
        {"href": f"{base}/nodes/{node}/bios/{name}", "rel": "bookmark"},
    ]


# -- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [40, 73, 74, 115])
def test_the_list_has_names_values_times_and_links(
    api: Client, told_node: str, version: int
) -> None:
    answer = api.at(version).get("/v1/nodes/metal-7/bios")
    assert answer.status == 200
    turbo, odd = answer.json["bios"]
    assert turbo == {"name": "Turbo", "value": "On", **TIMES, "links": links(told_node, "Turbo")}
    assert odd == {**ODD, **TIMES, "links": links(told_node, "a%20b%2F%C3%BC")}


def test_details_are_what_the_registry_knows(api: Client, told_node: str) -> None:
    turbo, odd = api.at(74).get(f"/v1/nodes/{told_node}/bios?detail=true").json["bios"]
    assert turbo == {**TURBO, **TIMES, "links": links(told_node, "Turbo")}
    assert set(odd) == set(turbo)
    assert odd["allowable_values"] == []
    assert len(api.get(f"/v1/nodes/{told_node}/bios?detail=false").json["bios"][0]) == 5


def test_fields_can_be_chosen_from_1_74_on(api: Client, told_node: str) -> None:
    answer = api.at(74).get(f"/v1/nodes/{told_node}/bios?fields=name,read_only")
    turbo = answer.json["bios"][0]
    expected = {"name": "Turbo", "read_only": False, **TIMES, "links": links(told_node, "Turbo")}
    assert turbo == expected


@pytest.mark.parametrize(
    ("version", "query", "word"),
    [
        (73, "detail=true", "detail"),
        (73, "fields=name", "fields"),
        (74, "fields=colour", "colour"),
        (74, "fields=name&detail=true", "fields"),
        (74, "detail=maybe", "detail"),
        (74, "limit=1", "limit"),
        (40, "marker=Turbo", "marker"),
    ],
)
def test_bad_queries_of_settings(
    api: Client, told_node: str, version: int, query: str, word: str
) -> None:
    answer = api.at(version).get(f"/v1/nodes/{told_node}/bios?{query}")
    assert answer.status == 400
    assert word in answer.text


def test_one_setting_stands_under_its_name(api: Client, told_node: str) -> None:
    plain = {"name": "Turbo", "value": "On", **TIMES, "links": links(told_node, "Turbo")}
    assert api.at(40).get(f"/v1/nodes/{told_node}/bios/Turbo").json == {"Turbo": plain}
    assert api.at(73).get("/v1/nodes/metal-7/bios/Turbo").json == {"Turbo": plain}
    full = {**TURBO, **TIMES, "links": links(told_node, "Turbo")}
    assert api.at(74).get(f"/v1/nodes/{told_node}/bios/Turbo").json == {"Turbo": full}
    assert api.get(f"/v1/nodes/{told_node}/bios/Turbo?detail=true").status == 400


@pytest.mark.parametrize(
    "path", ["/v1/nodes/{node}/bios/turbo", "/v1/nodes/nobody/bios", "/v1/nodes/nobody/bios/Turbo"]
)
def test_unknown_node_or_setting_is_404(api: Client, told_node: str, path: str) -> None:
    assert api.get(path.format(node=told_node)).status == 404


@pytest.mark.parametrize(("version", "status"), [(39, 404), (40, 200)])
def test_settings_are_there_since_1_40(
    api: Client, told_node: str, version: int, status: int
) -> None:
    for path in (f"/v1/nodes/{told_node}/bios", f"/v1/nodes/{told_node}/bios/Turbo"):
        assert api.at(version).get(path).status == status


# -- versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "more"), [(86, {}), (113, {}), (114, IDENTITY)])
def test_versions_of_firmware(
    api: Client, told_node: str, version: int, more: dict[str, Any]
) -> None:
    answer = api.at(version).get("/v1/nodes/metal-7/firmware")
    assert answer.status == 200
    assert answer.json == {"firmware": [{**TIMES, **VERSIONS, **more}]}
    detailed = api.at(version).get("/v1/nodes/metal-7/firmware?detail=true")
    assert detailed.json == answer.json


def test_fields_of_versions_can_be_chosen(api: Client, told_node: str) -> None:
    answer = api.get(f"/v1/nodes/{told_node}/firmware?fields=component,vendor")
    assert answer.json == {"firmware": [{**TIMES, "component": "bmc", "vendor": "Acme"}]}


@pytest.mark.parametrize(
    ("version", "query", "status"),
    [
        (85, "", 404),
        (113, "?fields=vendor", 400),
        (114, "?fields=vendor", 200),
        (114, "?fields=colour", 400),
        (114, "?fields=model&detail=true", 400),
        (114, "?sort_key=component", 400),
    ],
)
def test_versions_and_bad_queries_of_firmware(
    api: Client, told_node: str, version: int, query: str, status: int
) -> None:
    assert api.at(version).get(f"/v1/nodes/{told_node}/firmware{query}").status == status


def test_a_node_whose_bmc_has_told_nothing_has_empty_lists(api: Client, add_node: AddNode) -> None:
    uuid = add_node()["uuid"]
    assert api.get(f"/v1/nodes/{uuid}/bios").json == {"bios": []}
    assert api.get(f"/v1/nodes/{uuid}/firmware").json == {"firmware": []}


@pytest.mark.parametrize("path", ["bios", "bios/Turbo", "firmware"])
def test_each_answer_costs_two_statements(
    api: Client, told_node: str, database: Database, path: str
) -> None:
    with count_statements(database) as sent:
        assert api.get(f"/v1/nodes/{told_node}/{path}").status == 200
    assert len(sent) == 2, str(sent)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_firmware_and_bios_are_read_only(api: Client, told_node: str, method: str) -> None:
    for path in ("bios", "firmware"):
        assert api.request(method, f"/v1/nodes/{told_node}/{path}", {}).status == 405


# Traits of a node over HTTP: the whole list, and one at a time.

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
