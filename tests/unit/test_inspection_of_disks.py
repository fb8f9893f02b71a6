"""What follows from the disks, PCI devices and neighbours of an inventory."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import options
from ironic_lite.domain import inspection, root_device

Json = dict[str, Any]
GIB = root_device.GIB
SMALL = {"name": "/dev/sda", "size": 32 * GIB, "serial": "S1", "rotational": True, "model": "A B"}
LARGE = {"name": "/dev/sdb", "size": 960 * GIB + 7, "serial": "S2", "rotational": False}
DISKS = [SMALL, LARGE]


def case(properties: Json | None = None, inventory: Json | None = None, **more: Any) -> Any:
    data = more.pop("plugin_data", {})
    told = {"disks": DISKS} if inventory is None else inventory
    return inspection.Case(told, data, properties or {}, **more)


# -- hints -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hints", "found"),
    [
        ({"serial": "s2"}, LARGE),
        ({"serial": "s!= S1"}, LARGE),
        ({"size": 32}, SMALL),
        ({"size": 960}, None),
        ({"size": ">= 100"}, LARGE),
        ({"size": ">100"}, LARGE),
        ({"size": "> 960"}, LARGE),
        ({"size": "< 960"}, SMALL),
        ({"rotational": "n"}, LARGE),
        ({"rotational": "T"}, SMALL),
        ({"model": "s== A B"}, SMALL),
        ({"model": "<in> b"}, SMALL),
        ({"model": "<or> C D <or> a b"}, SMALL),
        ({"serial": "== 2"}, None),
        ({"size": "<= 100"}, SMALL),
        ({"rotational": False}, LARGE),
        ({"rotational": "true", "name": "/dev/sda"}, SMALL),
        ({"model": "a b"}, SMALL),
        ({"name": "<or> /dev/sdx <or> /dev/sdb"}, LARGE),
        ({"wwn": "0x5000"}, None),
        ({"serial": "S1", "size": ">= 100"}, None),
    ],
    ids=str,
)
def test_all_hints_must_fit(hints: Json, found: Json | None) -> None:
    assert root_device.matching(DISKS, hints) == found


@pytest.mark.parametrize("told", [None, "", "?", 2, []])
@pytest.mark.parametrize("wanted", [True, False])
def test_disk_of_unknown_rotation_has_no_rotation(told: Any, wanted: bool) -> None:
    disks = [{**SMALL, "rotational": told}]
    assert root_device.matching(disks, {"rotational": wanted}) is None


@pytest.mark.parametrize(("told", "wanted"), [("false", False), ("true", True), (0, False)])
def test_rotation_may_be_a_text(told: Any, wanted: bool) -> None:
    disks = [{**SMALL, "rotational": told}]
    assert root_device.matching(disks, {"rotational": wanted}) == disks[0]
    assert root_device.matching(disks, {"rotational": not wanted}) is None


@pytest.mark.parametrize("told", [None, "", "10", True, [], {}])
@pytest.mark.parametrize("wanted", ["< 960", ">= 1", "!= 1"])
def test_disk_of_unknown_size_matches_no_size(told: Any, wanted: str) -> None:
    assert root_device.matching([{**SMALL, "size": told}], {"size": wanted}) is None


def test_a_hint_nobody_knows_is_named() -> None:
    with pytest.raises(ValueError, match="colour"):
        root_device.matching(DISKS, {"serial": "S1", "colour": "red"})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("size", "100 GB", "a number of GiB"),
        ("size", "s== 100", "a number of GiB"),
        ("size", "<or> 100 <or> 200", "a number of GiB"),
        ("size", 0, "a number of GiB"),
        ("size", 447.1, "a number of GiB"),
        ("size", True, "a number of GiB"),
        ("size", [100], "a number of GiB"),
        ("rotational", "maybe", "true or false"),
        ("rotational", None, "true or false"),
        ("serial", 12345, "must be text"),
        ("name", ["a"], "must be text"),
        ("name", "", "must have a value"),
        ("name", "s==", "must have a value"),
        ("name", "== /dev/sda", "use s=="),
        ("model", "<all-in> SSD 860", "use s=="),
        ("colour", "red", "is not a hint"),
    ],
    ids=str,
)
def test_hint_for_which_the_agent_would_fail_has_a_fault(name: str, value: Any, said: str) -> None:
    assert said in (root_device.fault(name, value) or "")
    with pytest.raises(ValueError, match=f"^{name}$"):
        root_device.matching(DISKS, {name: value})


@pytest.mark.parametrize("told", [None, {}, [None, 7], "sda", [{}]], ids=str)
def test_odd_disks_are_none(told: Any) -> None:
    assert root_device.matching(told, {"size": 1}) is None
    assert root_device.serials(told) == []


# -- the root device -------------------------------------------------------------------------


def test_the_disk_that_hints_choose_gives_local_gb() -> None:
    hinted = case({"root_device": {"size": ">= 100"}, "local_gb": 1})
    assert inspection.run(["root-device"], hinted).properties["local_gb"] == 960


def test_without_hints_it_is_the_one_that_the_ramdisk_would_take() -> None:
    told = case(plugin_data={"root_disk": SMALL})
    assert inspection.run(["root-device"], told).properties == {"local_gb": 32}


@pytest.mark.parametrize("told", [None, 7, {}, {"size": "32"}, {"size": 12}], ids=str)
def test_a_disk_that_is_not_told_changes_nothing(told: Any) -> None:
    found = inspection.run(["root-device"], case({"local_gb": 5}, plugin_data={"root_disk": told}))
    assert (found.properties, len(found.remarks)) == ({"local_gb": 5}, 1)


@pytest.mark.parametrize(
    ("hints", "said"),
    [
        ({"serial": "S9"}, "No disk .* matches all of properties/root_device: serial"),
        ({"colour": "red"}, "colour is not a valid hint"),
        ({"size": "big"}, "is not a valid hint"),
    ],
    ids=str,
)
def test_hints_that_lead_nowhere_end_the_inspection(hints: Json, said: str) -> None:
    with pytest.raises(errors.HardwareError, match=said):
        inspection.run(["root-device"], case({"root_device": hints}))


# -- volumes built since ---------------------------------------------------------------------


def test_a_disk_that_is_new_becomes_the_root_device() -> None:
    first = inspection.run(["raid-device"], case(inventory={"disks": [SMALL]}))
    assert first.properties == {}
    second = inspection.run(["raid-device"], case(extra=first.extra))
    assert second.properties == {"root_device": {"serial": "S2"}}
    assert second.extra == {"block_devices": {"serials": ["S1", "S2"]}}


@pytest.mark.parametrize("serial", ["", " ", None, 7])
def test_disk_without_a_serial_number_does_not_become_the_root_device(serial: Any) -> None:
    told = {"disks": [SMALL, {**LARGE, "serial": serial}]}
    found = inspection.run(
        ["raid-device"], case(inventory=told, extra={"block_devices": {"serials": ["S1"]}})
    )
    assert found.properties == {}
    assert found.extra == {"block_devices": {"serials": ["S1"]}}


@pytest.mark.parametrize(
    ("properties", "known"),
    [({"root_device": {"name": "x"}}, ["S1"]), ({}, ["S1", "S2"]), ({}, []), ({}, "S1")],
    ids=str,
)
def test_no_other_disk_becomes_it(properties: Json, known: Any) -> None:
    extra = {"block_devices": {"serials": known}, "room": 7}
    found = inspection.run(["raid-device"], case(dict(properties), extra=extra))
    assert found.properties == properties
    assert found.extra["room"] == 7


# -- PCI devices -----------------------------------------------------------------------------

ALIASES = {("10de", "2330"): "h100", ("8086", "1572"): "x710"}


def test_devices_with_a_name_are_counted() -> None:
    told = [
        {"vendor_id": "10DE", "product_id": "2330"},
        {"vendor_id": "10de", "product_id": "2330"},
        {"vendor_id": "10de", "product_id": "0000"},
        {"vendor_id": 7},
        None,
    ]
    found = case({"capabilities": "x710:2,boot_mode:uefi"}, plugin_data={"pci_devices": told})
    found.aliases = ALIASES
    assert inspection.run(["pci-devices"], found).properties == {
        "capabilities": "boot_mode:uefi,h100:2,x710:0"
    }


def test_a_ramdisk_that_tells_none_changes_nothing() -> None:
    found = inspection.run(["pci-devices"], case({"capabilities": "h100:2"}, aliases=ALIASES))
    assert (found.properties, len(found.remarks)) == ({"capabilities": "h100:2"}, 1)


def test_a_name_is_given_as_json() -> None:
    alias = options.PciAlias()
    told = alias('{"vendor_id": "10DE", "product_id": "2330", "name": "h100"}')
    assert told == (("10de", "2330"), "h100")
    assert alias(told) == told
    for wrong in ("", "h100", "[]", '{"vendor_id": "1"}'):
        with pytest.raises(ValueError, match="is not of the form"):
            alias(wrong)


# -- neighbours ------------------------------------------------------------------------------


def test_switches_are_told_by_card() -> None:
    inventory = {"interfaces": [{"name": "eth1", "lldp": [[5, "7332"]]}, {"name": "eth2"}, None]}
    raw = {"eth0": [[5, "7331"]], "eth3": []}
    found = inspection.run(["parse-lldp"], case(inventory=inventory, plugin_data={"lldp_raw": raw}))
    assert found.plugin_data["parsed_lldp"] == {
        "eth0": {"switch_system_name": "s1"},
        "eth1": {"switch_system_name": "s2"},
    }


# -- what a stranger sends -------------------------------------------------------------------

CARD = {"mac_address": "52:54:00:00:00:01"}


@pytest.mark.parametrize(
    ("report", "path"),
    [
        (None, "/"),
        ([], "/"),
        ({}, "inventory"),
        ({"error": None}, "inventory"),
        ({"inventory": 7}, "inventory"),
        ({"inventory": []}, "inventory"),
        ({"inventory": {}}, "inventory/interfaces"),
        ({"inventory": {"interfaces": []}}, "inventory/interfaces"),
        ({"inventory": {"interfaces": {"a": 1}}}, "inventory/interfaces"),
        ({"inventory": {"interfaces": [7]}}, "inventory/interfaces/0/mac_address"),
        (
            {"inventory": {"interfaces": [{"mac_address": None}]}},
            "inventory/interfaces/0/mac_address",
        ),
    ],
    ids=str,
)
def test_a_report_of_another_form_is_refused(report: Any, path: str) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        inspection.check(report)
    assert caught.value.facts["path"] == path


def test_a_report_is_an_inventory_and_more() -> None:
    inventory = {"interfaces": [CARD]}
    assert inspection.check({"inventory": inventory, "a": 1}) == (inventory, {"a": 1})
    assert inspection.check({"error": "no disks"}) == ({}, {"error": "no disks"})


def test_usable_addresses_identify_a_machine() -> None:
    cards = [{"mac_address": "52-54-00-00-00-0A"}, {"mac_address": "00:00:00:00:00:00"}]
    inventory = {"interfaces": cards, "bmc_address": "0.0.0.0", "bmc_v6address": "2001:DB8::0:1"}
    assert inspection.addresses(inventory) == ["52:54:00:00:00:0a"]
    assert inspection.bmc_addresses(inventory) == {"2001:db8::1"}
    assert inspection.bmc_addresses({"bmc_address": 7}) == frozenset()
