"""Firmware settings and versions on the wire, as Ironic's clients know them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import bios_settings, firmware_components
from tests.support.api_rows import AddNode
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 123456)
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
def node(add_node: AddNode, database: Database) -> str:
    """The UUID of a node called metal-7 whose BMC has told of itself."""
    uuid = str(add_node(name="metal-7")["uuid"])
    database.write(lambda conn: bios_settings.put(conn, uuid, [TURBO, ODD], at=NOON))
    database.write(lambda conn: firmware_components.put(conn, uuid, [BMC], at=NOON))
    return uuid


def links(node: str, name: str) -> list[dict[str, str]]:
    base = "http://localhost:6385"
    return [
        {"href": f"{base}/v1/nodes/{node}/bios/{name}", "rel": "self"},
        {"href": f"{base}/nodes/{node}/bios/{name}", "rel": "bookmark"},
    ]


# -- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [40, 73, 74, 115])
def test_the_list_has_names_values_times_and_links(api: Client, node: str, version: int) -> None:
    answer = api.at(version).get("/v1/nodes/metal-7/bios")
    assert answer.status == 200
    turbo, odd = answer.json["bios"]
    assert turbo == {"name": "Turbo", "value": "On", **TIMES, "links": links(node, "Turbo")}
    assert odd == {**ODD, **TIMES, "links": links(node, "a%20b%2F%C3%BC")}


def test_details_are_what_the_registry_knows(api: Client, node: str) -> None:
    turbo, odd = api.at(74).get(f"/v1/nodes/{node}/bios?detail=true").json["bios"]
    assert turbo == {**TURBO, **TIMES, "links": links(node, "Turbo")}
    assert set(odd) == set(turbo)
    assert odd["allowable_values"] == []
    assert len(api.get(f"/v1/nodes/{node}/bios?detail=false").json["bios"][0]) == 5


def test_fields_can_be_chosen_from_1_74_on(api: Client, node: str) -> None:
    answer = api.at(74).get(f"/v1/nodes/{node}/bios?fields=name,read_only")
    turbo = answer.json["bios"][0]
    expected = {"name": "Turbo", "read_only": False, **TIMES, "links": links(node, "Turbo")}
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
    api: Client, node: str, version: int, query: str, word: str
) -> None:
    answer = api.at(version).get(f"/v1/nodes/{node}/bios?{query}")
    assert answer.status == 400
    assert word in answer.text


def test_one_setting_stands_under_its_name(api: Client, node: str) -> None:
    plain = {"name": "Turbo", "value": "On", **TIMES, "links": links(node, "Turbo")}
    assert api.at(40).get(f"/v1/nodes/{node}/bios/Turbo").json == {"Turbo": plain}
    assert api.at(73).get("/v1/nodes/metal-7/bios/Turbo").json == {"Turbo": plain}
    full = {**TURBO, **TIMES, "links": links(node, "Turbo")}
    assert api.at(74).get(f"/v1/nodes/{node}/bios/Turbo").json == {"Turbo": full}
    assert api.get(f"/v1/nodes/{node}/bios/Turbo?detail=true").status == 400


@pytest.mark.parametrize(
    "path", ["/v1/nodes/{node}/bios/turbo", "/v1/nodes/nobody/bios", "/v1/nodes/nobody/bios/Turbo"]
)
def test_unknown_node_or_setting_is_404(api: Client, node: str, path: str) -> None:
    assert api.get(path.format(node=node)).status == 404


@pytest.mark.parametrize(("version", "status"), [(39, 404), (40, 200)])
def test_settings_are_there_since_1_40(api: Client, node: str, version: int, status: int) -> None:
    for path in (f"/v1/nodes/{node}/bios", f"/v1/nodes/{node}/bios/Turbo"):
        assert api.at(version).get(path).status == status


# -- versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "more"), [(86, {}), (113, {}), (114, IDENTITY)])
def test_versions_of_firmware(api: Client, node: str, version: int, more: dict[str, Any]) -> None:
    answer = api.at(version).get("/v1/nodes/metal-7/firmware")
    assert answer.status == 200
    assert answer.json == {"firmware": [{**TIMES, **VERSIONS, **more}]}
    detailed = api.at(version).get("/v1/nodes/metal-7/firmware?detail=true")
    assert detailed.json == answer.json


def test_fields_of_versions_can_be_chosen(api: Client, node: str) -> None:
    answer = api.get(f"/v1/nodes/{node}/firmware?fields=component,vendor")
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
    api: Client, node: str, version: int, query: str, status: int
) -> None:
    assert api.at(version).get(f"/v1/nodes/{node}/firmware{query}").status == status


def test_a_node_whose_bmc_has_told_nothing_has_empty_lists(api: Client, add_node: AddNode) -> None:
    uuid = add_node()["uuid"]
    assert api.get(f"/v1/nodes/{uuid}/bios").json == {"bios": []}
    assert api.get(f"/v1/nodes/{uuid}/firmware").json == {"firmware": []}


@pytest.mark.parametrize("path", ["bios", "bios/Turbo", "firmware"])
def test_each_answer_costs_two_statements(
    api: Client, node: str, database: Database, path: str
) -> None:
    with count_statements(database) as sent:
        assert api.get(f"/v1/nodes/{node}/{path}").status == 200
    assert len(sent) == 2, str(sent)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_firmware_and_bios_are_read_only(api: Client, node: str, method: str) -> None:
    for path in ("bios", "firmware"):
        assert api.request(method, f"/v1/nodes/{node}/{path}", {}).status == 405
