"""Terms of nodes for the search: their fields, words and bounds, and texts that have none."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.features.search import rules

pytestmark = pytest.mark.feature("search")

MAC = "52:54:00:AA:bb:01"


def pairs(source: str, content: object) -> list[tuple[str, str]]:
    """Return fields and terms of a source."""
    return [(term.field, term.term) for term in rules.terms(source, content)]


def test_each_word_begins_a_term() -> None:
    assert rules.terms("name", "Rack2-u01") == [
        ("name", "rack2-u01", "Rack2-u01"),
        ("name", "u01", "Rack2-u01"),
    ]
    assert pairs("description", "(DELL) r640, 9")[:2] == [
        ("description", "(dell) r640, 9"),
        ("description", "dell) r640, 9"),
    ]


def test_texts_within_objects_and_lists_have_their_path() -> None:
    extra = {"rack": "r1", "n": 7, "a": {"tags": ["blue", None, "red"]}, "x": "y", "b": True}
    assert pairs("extra", extra) == [
        ("extra.rack", "r1"),
        ("extra.a.tags", "blue"),
        ("extra.a.tags", "red"),
    ]


@pytest.mark.parametrize(
    ("name", "address", "host"),
    [
        ("redfish_address", "https://10.0.0.7:8443/redfish", "10.0.0.7"),
        ("redfish_address", "https://ann:hunter2@BMC-7.example.org", "bmc-7.example.org"),
        ("redfish_address", "[fd00::7]:443", "fd00::7"),
        ("redfish_address", "https://[", None),
        ("redfish_address", "https://hun/ter2:x@bmc", None),
        ("redfish_address", "https://hun?ter2:x@bmc", None),
        ("redfish_address", "https://hun#ter2:x@bmc", None),
        ("ipmi_address", "fd00::7", "fd00::7"),
        ("ipmi_address", " 10.0.0.7 ", "10.0.0.7"),
        ("ipmi_target_address", "0x20", None),
        ("redfish_username", "hunter", None),
        ("ipmi_address", 7, None),
    ],
)
def test_driver_info_has_the_host_of_the_bmc_alone(
    name: str, address: object, host: str | None
) -> None:
    found = rules.terms("driver_info", {name: address, "redfish_password": "hunter2"})
    assert {(term.field, term.value) for term in found} == (
        {(f"driver_info.{name}", host)} if host else set()
    )


def test_inventory_has_serials_vendor_and_addresses_of_cards() -> None:
    inventory = {
        "system_vendor": {"manufacturer": "Dell Inc.", "product_name": None, "serial_number": "S1"},
        "disks": [{"name": "/dev/sda", "serial": "D1"}, "odd", {"serial": 5}],
        "interfaces": [{"mac_address": MAC, "name": "eth0"}],
        "memory": {"total": 1},
        "bmc_address": "10.0.0.7",
    }
    assert pairs("inventory", inventory) == [
        ("inventory.system_vendor.manufacturer", "dell inc."),
        ("inventory.system_vendor.manufacturer", "inc."),
        ("inventory.system_vendor.serial_number", "s1"),
        ("inventory.disks.serial", "d1"),
        ("inventory.interfaces.mac_address", MAC.lower()),
        ("inventory.interfaces.mac_address", "aa:bb:01"),
    ]


@pytest.mark.parametrize("odd", [None, [], "text", 5, {"disks": "x", "interfaces": {"a": 1}}])
def test_odd_inventory_has_no_terms(odd: object) -> None:
    assert rules.terms("inventory", odd) == []


def test_secrets_are_left_out() -> None:
    extra = {
        "api_key": "hunter2",
        "nested": {"password": "hunter2", "rack": "r1"},
        "setting": {"name": "AdminPassword", "value": "hunter2"},
        "image": "https://ann:hunter2@files.example.org/a?signature=hunter2 next",
        "odd": "http://ann:hun/ter@2:hunter2@files.example.org",
        "fragment": "https://files.example.org/b#access_token=hunter2",
        "mail": "https://files.example.org/a?signature=x&mail=a@hunter2",
        "mark": "https://ann:hun?ter2@files.example.org/",
        "masked": "******",
    }
    found = rules.terms("extra", extra)
    assert not [term for term in found if "hunter" in "".join(term)]
    assert ("extra.image", "https://files.example.org/a next") in pairs("extra", extra)
    assert ("extra.nested.rack", "r1") in pairs("extra", extra)
    assert "extra.masked" not in [term.field for term in found]


def test_login_behind_the_cut_is_left_out() -> None:
    text = f"{'x' * 50} https://ann:hunter2{'z' * 500}@host/"
    assert not [term for term in rules.terms("description", text) if "hunter" in term.value]


def test_texts_that_databases_refuse_are_changed() -> None:
    found = rules.terms("extra", {"a\0b": "x\0y\ud800z\u2028w", "long": "ß" * 90, "dot": "İ" * 64})
    assert found[0] == ("extra.a b", "x y z w", "x y z w")
    assert all(len(term.term) <= 64 and len(term.value) <= 64 for term in found)
    assert all(term.term == term.term.strip() for term in found)


@pytest.mark.parametrize(
    "extra",
    [
        {"a" * 121: "x1", "a" * 121 + " b": "x1"},
        {"a": ["İ" + "a" * 61 + " y", "İ" + "a" * 61]},
        {"a": "x" * 63 + " y"},
    ],
)
def test_cut_fields_and_terms_have_no_blank_at_their_end(extra: Any) -> None:
    found = rules.terms("extra", extra)
    assert all(text == text.rstrip() for term in found for text in term)
    assert len({(term.field, term.term) for term in found}) == len(found)


def test_values_of_a_node_are_bounded() -> None:
    many = {f"k{n}": f"v{n}" for n in range(200)}
    row: dict[str, Any] = {name: f"{name}-text" for name in rules.COLUMNS}
    row |= {"extra": many, "properties": many}
    row["driver_info"] = {"redfish_address": "10.0.0.1", "ipmi_address": "10.0.0.2"}
    inventory = {"interfaces": [{"mac_address": f"52:54:00:00:00:{n:02x}"} for n in range(200)]}
    found = {(term.field, term.value) for term in rules.all_terms(row, inventory)}
    assert len(found) == 50


def test_terms_of_a_field_are_unique() -> None:
    found = pairs("extra", {"a": ["x same", "y same", "x same"]})
    assert len(found) == len(set(found)) == 3


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("  Dell   R640 ", ["dell r640"]),
        ("52:54:00:AA:BB:01", ["52:54:00:aa:bb:01"]),
        ("52-54-00-AA-BB-01", ["52:54:00:aa:bb:01", "52-54-00-aa-bb-01"]),
        ("525400aabb01", ["52:54:00:aa:bb:01", "525400aabb01"]),
        ("5254.00aa.bb01", ["52:54:00:aa:bb:01", "5254.00aa.bb01"]),
        ("5254.00aa", ["5254.00aa"]),
        ("%_", ["%_"]),
        ("İ" * 40, ["i̇" * 32]),
    ],
)
def test_query_has_the_form_of_terms(text: str, query: list[str]) -> None:
    assert list(rules.query(text)) == query


@pytest.mark.parametrize("text", [None, "", " x ", "x" * 65, "\0\0\0"])
def test_query_without_form_is_refused(text: str | None) -> None:
    with pytest.raises(errors.InvalidParameter, match="q: must have 2 to 64 characters"):
        rules.query(text)
