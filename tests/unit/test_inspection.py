"""What follows from an inventory: cards, ports, properties, disks, devices and neighbours."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import options
from ironic_lite.domain import inspection, root_device, vocabulary

# What follows from an inventory: cards, ports, properties.

Json = dict[str, Any]
A, B = "52:54:00:00:00:0a", "52:54:00:00:00:0b"
CARDS: list[Json] = [
    {"name": "eth0", "mac_address": A.upper(), "ipv4_address": "192.0.2.7"},
    {"name": "eth1", "mac_address": B.replace(":", "-"), "ipv6_address": None},
]


def case(add_ports: str = "pxe", properties: Json | None = None, **inventory: Any) -> Any:
    return inspection.Case(inventory, {}, properties or {}, add_ports)


def ports(add_ports: str, **inventory: Any) -> dict[str, bool]:
    return inspection.run(["ports"], case(add_ports, **inventory)).ports


def test_options_offer_what_there_is() -> None:
    assert set(options.HOOKS) == set(inspection.HOOKS)
    (opt,) = (opt for opt in options.GROUPS["inspector"] if opt.dest == "add_ports")
    for word in inspection.ADD_PORTS:
        assert opt.type(word) == word
    with pytest.raises(ValueError, match="Valid values"):
        opt.type("none")


# -- cards -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("add_ports", "pxe", "found"),
    [
        ("pxe", None, {A: True, B: True}),
        ("pxe", B, {B: True}),
        ("pxe", "01-52-54-00-00-00-0B", {B: True}),
        ("pxe", "52:54:00:00:00:0c", None),
        ("pxe", 7, {A: True, B: True}),
        ("all", None, {A: True, B: True}),
        ("all", B, {A: False, B: True}),
        ("active", B, {A: False}),
        ("disabled", None, {}),
    ],
    ids=lambda value: str(value) if isinstance(value, str | int | None) else "ports",
)
def test_cards_become_ports(add_ports: str, pxe: Any, found: dict[str, bool] | None) -> None:
    inventory: Json = {"interfaces": CARDS, "boot": {"pxe_interface": pxe}}
    if found is None:
        with pytest.raises(errors.HardwareError, match=r"eth0, eth1 matches .*add_ports"):
            ports(add_ports, **inventory)
    else:
        assert ports(add_ports, **inventory) == found


def test_loops_are_no_cards_and_odd_ones_are_told_of() -> None:
    loops = [
        {"name": "lo", "mac_address": "52:54:00:00:00:01"},
        {"name": "lo1", "mac_address": "52:54:00:00:00:02", "ipv6_address": "::1%lo1"},
    ]
    odd = [
        {"name": "none", "mac_address": None},
        {"name": "zero", "mac_address": "00:00:00:00:00:00"},
        {"name": "infiniband", "mac_address": "80:00:02:08:fe:80:00:00:00:00:00:00"},
        {"mac_address": A},
        "eth9",
        None,
    ]
    found = inspection.run(["ports"], case("all", interfaces=[*loops, *odd, *CARDS]))
    assert list(found.ports) == [A, B]
    assert len(found.remarks) == len(odd)
    assert any("'zero' has no usable address" in remark for remark in found.remarks)


def test_plug_in_data_tells_of_the_cards() -> None:
    told = inspection.run(
        ["validate-interfaces"], case(interfaces=CARDS, boot={"pxe_interface": A})
    ).plugin_data
    assert told["macs"] == [A]
    assert list(told["all_interfaces"]) == ["eth0", "eth1"]
    assert told["valid_interfaces"] == {"eth0": {**CARDS[0], "mac_address": A, "pxe_enabled": True}}


@pytest.mark.parametrize("listed", [None, [], {}, "eth0", [{}], 7], ids=str)
def test_a_machine_without_cards_is_not_taken(listed: Any) -> None:
    with pytest.raises(errors.HardwareError, match="no network interface with a name and a MAC"):
        ports("pxe", interfaces=listed)


@pytest.mark.parametrize("boot", [None, [], "bios", {"pxe_interface": {}}], ids=str)
def test_boot_interface_may_be_unknown(boot: Any) -> None:
    assert inspection.boots_from({"boot": boot}) is None
    assert inspection.boots_from({}) is None


# -- properties ------------------------------------------------------------------------------


def test_properties_are_those_of_the_inventory() -> None:
    found = inspection.run(
        ["architecture", "memory", "cpus", "boot-mode"],
        case(
            properties={"cpus": 1, "room": "7", "capabilities": "raid_level:1,boot_mode:bios"},
            cpu={"architecture": "aarch64", "count": 64},
            memory={"physical_mb": 4096},
            boot={"current_boot_mode": "uefi"},
        ),
    )
    assert found.properties == {
        "cpu_arch": "aarch64",
        "cpus": 64,
        "memory_mb": 4096,
        "room": "7",
        "capabilities": "raid_level:1,boot_mode:uefi",
    }


@pytest.mark.parametrize(
    "told",
    [{}, {"cpu": None}, {"cpu": {"architecture": ["x"]}}, {"cpu": {"architecture": True}}],
    ids=str,
)
def test_missing_properties_keep_known_values(told: Json) -> None:
    known = {"cpu_arch": "x86_64"}
    assert inspection.run(["architecture"], case(properties=known, **told)).properties == known
    found = inspection.run(["architecture"], case(**told))
    assert found.properties == {}
    assert ["does not have cpu_arch" in remark for remark in found.remarks] == [True]


@pytest.mark.parametrize("told", ["x" * 256, -1, -(2**63)], ids=["long", "negative", "least"])
def test_impossible_properties_are_left_out(told: Any) -> None:
    """Lists of nodes carry their properties along."""
    found = inspection.run(["architecture"], case(cpu={"architecture": told}))
    assert (found.properties, len(found.remarks)) == ({}, 1)


@pytest.mark.parametrize("told", [None, 8192.5, "", {}, [8192], True, 0], ids=str)
def test_unknown_sizes_are_left_out_and_the_rest_is_kept(told: Any) -> None:
    more: Json = {"memory": {"physical_mb": told}, "cpu": {"count": 4, "architecture": "x86_64"}}
    odd = [{"name": "eth7", "mac_address": ""}, {"name": "eth8"}, None, *CARDS]
    inventory, _ = inspection.check({"inventory": {"interfaces": odd}})
    hooks = ["ports", "memory", "cpus", "architecture"]
    found = inspection.run(hooks, case(interfaces=inventory["interfaces"], **more))
    assert found.properties == {"cpus": 4, "cpu_arch": "x86_64"}
    assert len(found.remarks) == 4
    assert set(inspection.addresses(inventory)) >= set(found.ports)
    assert found.ports


def test_infiniband_cards_have_client_identifiers() -> None:
    client = "ff:00:00:00:00:00:02:00:00:02:c9:00:7c:fe:90:03:00:29:26:52"
    cards = [{**CARDS[0], "client_id": client}, *({**one, "client_id": 7} for one in CARDS[1:])]
    found = inspection.run(["ports"], case("all", interfaces=cards))
    assert found.client_ids == {inspection.address(CARDS[0]["mac_address"]): client}


def test_no_sentence_is_as_long_as_what_it_repeats() -> None:
    long = [{"name": f"{at}" + "x" * 5000, "mac_address": A} for at in range(3)]
    with pytest.raises(errors.HardwareError) as why:
        ports("active", interfaces=long)
    assert len(why.value.message) < 5000
    odd = {"name": "y" * 5000, "mac_address": "z" * 5000}
    found = inspection.run(["ports"], case(interfaces=[odd, *CARDS]))
    assert [len(remark) < 300 for remark in found.remarks] == [True]


def test_an_error_of_the_ramdisk_is_the_end() -> None:
    broken = inspection.Case({}, {"error": "no disks"}, {})
    with pytest.raises(errors.HardwareError, match="no disks"):
        inspection.run(["ramdisk-error"], broken)
    assert inspection.run(["ramdisk-error"], case()).remarks == []


def test_a_hook_runs_once_after_those_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    hooks = {name: (lambda case, name=name: ran.append(name)) for name in inspection.HOOKS}
    monkeypatch.setattr(inspection, "HOOKS", hooks)
    inspection.run(["ports", "memory", "validate-interfaces", "memory"], case())
    assert ran == ["validate-interfaces", "ports", "memory"]


def test_zero_is_a_value_of_a_property() -> None:
    known: Json = {"local_gb": 0, "cpu_arch": "", "memory_mb": None}
    wanted = ("local_gb", "cpu_arch", "memory_mb", "cpus")
    assert inspection.lacking(known, wanted) == ["cpu_arch", "memory_mb", "cpus"]


# -- capabilities ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "value", "after"),
    [
        (None, None, "a:1"),
        ("", None, "a:1"),
        (7, None, "a:1"),
        ("b:2, a:0", "0", "b:2,a:1"),
        ("b,,c:x:y", None, "b,c:x:y,a:1"),
        ({"b": 2, "a": 0}, "0", {"b": 2, "a": "1"}),
    ],
    ids=str,
)
def test_a_capability_is_read_and_put_in_its_place(known: Any, value: Any, after: Any) -> None:
    assert vocabulary.get_capability(known, "a") == value
    assert vocabulary.put_capability(known, "a", "1") == after
    assert vocabulary.get_capability(after, "a") == "1"


# What follows from the disks, PCI devices and neighbours of an inventory.

GIB = root_device.GIB
SMALL = {"name": "/dev/sda", "size": 32 * GIB, "serial": "S1", "rotational": True, "model": "A B"}
LARGE = {"name": "/dev/sdb", "size": 960 * GIB + 7, "serial": "S2", "rotational": False}
DISKS = [SMALL, LARGE]


def disks_case(properties: Json | None = None, inventory: Json | None = None, **more: Any) -> Any:
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
    hinted = disks_case({"root_device": {"size": ">= 100"}, "local_gb": 1})
    assert inspection.run(["root-device"], hinted).properties["local_gb"] == 960


def test_without_hints_it_is_the_one_that_the_ramdisk_would_take() -> None:
    told = disks_case(plugin_data={"root_disk": SMALL})
    assert inspection.run(["root-device"], told).properties == {"local_gb": 32}


@pytest.mark.parametrize("told", [None, 7, {}, {"size": "32"}, {"size": 12}], ids=str)
def test_a_disk_that_is_not_told_changes_nothing(told: Any) -> None:
    found = inspection.run(
        ["root-device"], disks_case({"local_gb": 5}, plugin_data={"root_disk": told})
    )
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
        inspection.run(["root-device"], disks_case({"root_device": hints}))


# -- volumes built since ---------------------------------------------------------------------


def test_a_disk_that_is_new_becomes_the_root_device() -> None:
    first = inspection.run(["raid-device"], disks_case(inventory={"disks": [SMALL]}))
    assert first.properties == {}
    second = inspection.run(["raid-device"], disks_case(extra=first.extra))
    assert second.properties == {"root_device": {"serial": "S2"}}
    assert second.extra == {"block_devices": {"serials": ["S1", "S2"]}}


@pytest.mark.parametrize("serial", ["", " ", None, 7])
def test_disk_without_a_serial_number_does_not_become_the_root_device(serial: Any) -> None:
    told = {"disks": [SMALL, {**LARGE, "serial": serial}]}
    found = inspection.run(
        ["raid-device"], disks_case(inventory=told, extra={"block_devices": {"serials": ["S1"]}})
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
    found = inspection.run(["raid-device"], disks_case(dict(properties), extra=extra))
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
    found = disks_case({"capabilities": "x710:2,boot_mode:uefi"}, plugin_data={"pci_devices": told})
    found.aliases = ALIASES
    assert inspection.run(["pci-devices"], found).properties == {
        "capabilities": "boot_mode:uefi,h100:2,x710:0"
    }


def test_a_ramdisk_that_tells_none_changes_nothing() -> None:
    found = inspection.run(["pci-devices"], disks_case({"capabilities": "h100:2"}, aliases=ALIASES))
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
    found = inspection.run(
        ["parse-lldp"], disks_case(inventory=inventory, plugin_data={"lldp_raw": raw})
    )
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


# What switches say of themselves, as a ramdisk passes it on.


def test_a_whole_frame_is_read() -> None:
    frame = [
        [1, "0464649b32f300"],
        [2, "0773776974636831706f727437"],
        [3, "0078"],
        [4, "706f72742037"],
        [5, "737769746368310a00"],
        [6, "4a756e69706572"],
        [7, "00140004"],
        [8, "0501c000020b020000023f00"],
        [8, "110220010db8000000000000000000000001020000023f00"],
        [127, "0080c2010066"],
        [127, "0080c303000a0474657374"],
        [127, "0080c2030066047465737431"],
        [127, "0080c2030067047465737432"],
        [127, "0080c2070300000007"],
        [127, "00120f0405ea"],
        [0, ""],
    ]
    assert inspection.parse_lldp(frame) == {
        "switch_chassis_id": "64:64:9b:32:f3:00",
        "switch_port_id": "switch1port7",
        "switch_port_description": "port 7",
        "switch_system_name": "switch1",
        "switch_system_description": "Juniper",
        "switch_capabilities_support": ["Bridge", "Router"],
        "switch_capabilities_enabled": ["Bridge"],
        "switch_mgmt_addresses": ["192.0.2.11", "2001:db8::1"],
        "switch_port_untagged_vlan_id": 102,
        "switch_port_vlans": [{"id": 102, "name": "test"}, {"id": 103, "name": "test"}],
        "switch_port_link_aggregation_support": True,
        "switch_port_link_aggregation_enabled": True,
        "switch_port_link_aggregation_id": 7,
        "switch_port_mtu": 1514,
    }


def test_no_more_is_read_than_a_frame_can_hold() -> None:
    """Each address is added to a list: what a stranger makes of millions must not be his choice."""
    found = inspection.parse_lldp([[8, "0501c000020b"]] * 5000 + [[5, "6c617465"]])
    assert len(found.pop("switch_mgmt_addresses")) == inspection.MOST
    assert found == {}


@pytest.mark.parametrize(
    ("digits", "found"),
    [
        (
            "00120f01036c01001e",
            {
                "switch_port_autonegotiation_support": True,
                "switch_port_autonegotiation_enabled": True,
                "switch_port_physical_capabilities": [
                    "1000BASE-T fdx",
                    "100BASE-TX fdx",
                    "100BASE-TX hdx",
                    "10BASE-T fdx",
                    "10BASE-T hdx",
                ],
                "switch_port_mau_type": "1000BASE-T full duplex",
            },
        ),
        (
            "00120f01000000ffff",
            {
                "switch_port_autonegotiation_support": False,
                "switch_port_autonegotiation_enabled": False,
                "switch_port_physical_capabilities": [],
            },
        ),
        (
            "0080c202060067",
            {
                "switch_port_protocol_vlan_support": True,
                "switch_port_protocol_vlan_enabled": True,
                "switch_port_protocol_vlan_ids": [103],
            },
        ),
        ("0080c2040200aa", {"switch_protocol_identities": ["00aa"]}),
        ("0080c2060042", {"switch_port_management_vlan_id": 66}),
    ],
)
def test_facts_of_a_port_are_read(digits: str, found: Any) -> None:
    name = [5, "737769746368310a00"]
    whole = {**found, "switch_system_name": "switch1"}
    assert inspection.parse_lldp([[127, digits], name]) == whole
    broken = [[127, digits[:places]] for places in range(8, len(digits), 2)]
    assert inspection.parse_lldp([*broken, name, ["x"], [127, 7], [127, "0"]]) == {
        "switch_system_name": "switch1"
    }


def test_address_of_a_switchs_management_may_be_a_mac() -> None:
    assert inspection.parse_lldp([[8, "0706525400000001020000023f00"], [8, "050652540000"]]) == {
        "switch_mgmt_addresses": ["52:54:00:00:00:01"]
    }


@pytest.mark.parametrize(
    "tlvs",
    [
        *([[7, "0014"]], [[1, "045254"]], [[127, "0080c303000a0474"]], [[127, "0080c20703"]]),
        *(None, {}, "x", [], [None], [7], [["1", "04"]], [[1, None]], [[1, "0"]], [[1, "zz"]]),
        *([[1, ""]], [[2, "04"]], [[2, "0403"]], [[8, "05"]], [[127, "0080c201"]], [[1, 2, 3]]),
        *([[127, "0080c203"]], [[127, "00120f04aa"]], [[8, ""]], [[127, ""]], [[126, "00"]], "ab"),
    ],
    ids=str,
)
def test_malformed_tlvs_are_left_out(tlvs: Any) -> None:
    assert inspection.parse_lldp(tlvs) == {}


def test_addresses_of_a_port_are_addresses() -> None:
    assert inspection.parse_lldp([[2, "03525400000001"]]) == {"switch_port_id": "52:54:00:00:00:01"}
    assert inspection.parse_lldp([[1, "0501c0000201"]]) == {"switch_chassis_id": "192.0.2.1"}
