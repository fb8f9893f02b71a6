"""What follows from an inventory: cards, ports, properties, disks, devices and neighbours."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors, records
from ironic_lite.core import options
from ironic_lite.domain import inspection, lldp, root_device, vocabulary
from ironic_lite.drivers import registry

# What follows from an inventory: cards, ports, properties.

Json = dict[str, Any]
A, B = "52:54:00:00:00:0a", "52:54:00:00:00:0b"
CARDS: list[Json] = [
    {"name": "eth0", "mac_address": A.upper(), "ipv4_address": "192.0.2.7"},
    {"name": "eth1", "mac_address": B.replace(":", "-"), "ipv6_address": None},
]


def case(add_ports: str = "pxe", properties: Json | None = None, **inventory: Any) -> Any:
    options = inspection.HookOptions(add_ports=add_ports)
    return inspection.Case(inventory, {}, properties or {}, options)


def run(names: list[str], one: inspection.Case) -> inspection.Case:
    return inspection.run(registry.inspection_hooks(names), one)


def ports(add_ports: str, **inventory: Any) -> dict[str, bool]:
    found = run(["ports"], case(add_ports, **inventory)).ports
    return {address: port.pxe_enabled for address, port in found.items()}


@pytest.mark.parametrize(
    ("name", "words"),
    [("add_ports", inspection.ADD_PORTS), ("keep_ports", inspection.KEEP_PORTS)],
)
def test_options_offer_what_there_is(name: str, words: tuple[str, ...]) -> None:
    (opt,) = (opt for opt in options.GROUPS["inspector"] if opt.dest == name)
    for word in words:
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
    found = run(["ports"], case("all", interfaces=[*loops, *odd, *CARDS]))
    assert list(found.ports) == [A, B]
    assert len(found.remarks) == len(odd)
    assert any("'zero' has no usable address" in remark for remark in found.remarks)


def test_plug_in_data_tells_of_the_cards() -> None:
    told = run(
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
    found = run(
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
    assert run(["architecture"], case(properties=known, **told)).properties == known
    found = run(["architecture"], case(**told))
    assert found.properties == {}
    assert ["does not have cpu_arch" in remark for remark in found.remarks] == [True]


@pytest.mark.parametrize("told", ["x" * 256, -1, -(2**63)], ids=["long", "negative", "least"])
def test_impossible_properties_are_left_out(told: Any) -> None:
    """Lists of nodes carry their properties along."""
    found = run(["architecture"], case(cpu={"architecture": told}))
    assert (found.properties, len(found.remarks)) == ({}, 1)


@pytest.mark.parametrize("told", [None, 8192.5, "", {}, [8192], True, 0], ids=str)
def test_unknown_sizes_are_left_out_and_the_rest_is_kept(told: Any) -> None:
    more: Json = {"memory": {"physical_mb": told}, "cpu": {"count": 4, "architecture": "x86_64"}}
    odd = [{"name": "eth7", "mac_address": ""}, {"name": "eth8"}, None, *CARDS]
    inventory, _ = inspection.check({"inventory": {"interfaces": odd}})
    hooks = ["ports", "memory", "cpus", "architecture"]
    found = run(hooks, case(interfaces=inventory["interfaces"], **more))
    assert found.properties == {"cpus": 4, "cpu_arch": "x86_64"}
    assert len(found.remarks) == 4
    assert set(inspection.addresses(inventory)) >= set(found.ports)
    assert found.ports


def test_infiniband_cards_have_client_identifiers() -> None:
    client = "ff:00:00:00:00:00:02:00:00:02:c9:00:7c:fe:90:03:00:29:26:52"
    cards = [{**CARDS[0], "client_id": client}, *({**one, "client_id": 7} for one in CARDS[1:])]
    found = run(["ports"], case("all", interfaces=cards))
    assert [port.extra for port in found.ports.values()] == [{"client-id": client}, {}]


def test_no_sentence_is_as_long_as_what_it_repeats() -> None:
    long = [{"name": f"{at}" + "x" * 5000, "mac_address": A} for at in range(3)]
    with pytest.raises(errors.HardwareError) as why:
        ports("active", interfaces=long)
    assert len(why.value.message) < 5000
    odd = {"name": "y" * 5000, "mac_address": "z" * 5000}
    found = run(["ports"], case(interfaces=[odd, *CARDS]))
    assert [len(remark) < 300 for remark in found.remarks] == [True]


def test_an_error_of_the_ramdisk_is_the_end() -> None:
    broken = inspection.Case({}, {"error": "no disks"}, {})
    with pytest.raises(errors.HardwareError, match="no disks"):
        run(["ramdisk-error"], broken)
    assert run(["ramdisk-error"], case()).remarks == []


def test_a_hook_runs_once_after_those_it_needs() -> None:
    found = registry.inspection_hooks(["ports", "memory", "validate-interfaces", "memory"])
    assert list(found) == ["validate-interfaces", "ports", "memory"]


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
    assert run(["root-device"], hinted).properties["local_gb"] == 959


def test_without_hints_it_is_the_one_that_the_ramdisk_would_take() -> None:
    told = disks_case(plugin_data={"root_disk": SMALL})
    assert run(["root-device"], told).properties == {"local_gb": 31}


def test_partitions_need_no_space_if_the_operator_says_so() -> None:
    told = disks_case(plugin_data={"root_disk": SMALL})
    told.options = inspection.HookOptions(disk_partitioning_spacing=False)
    assert run(["root-device"], told).properties == {"local_gb": 32}


@pytest.mark.parametrize("told", [None, 7, {}, {"size": "32"}, {"size": 12}], ids=str)
def test_a_disk_that_is_not_told_changes_nothing(told: Any) -> None:
    found = run(["root-device"], disks_case({"local_gb": 5}, plugin_data={"root_disk": told}))
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
        run(["root-device"], disks_case({"root_device": hints}))


# -- volumes built since ---------------------------------------------------------------------


def test_a_disk_that_is_new_becomes_the_root_device() -> None:
    first = run(["raid-device"], disks_case(inventory={"disks": [SMALL]}))
    assert first.properties == {}
    second = run(["raid-device"], disks_case(extra=first.extra))
    assert second.properties == {"root_device": {"serial": "S2"}}
    assert second.extra == {"block_devices": {"serials": ["S1", "S2"]}}


@pytest.mark.parametrize("serial", ["", " ", None, 7])
def test_disk_without_a_serial_number_does_not_become_the_root_device(serial: Any) -> None:
    told = {"disks": [SMALL, {**LARGE, "serial": serial}]}
    found = run(
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
    found = run(["raid-device"], disks_case(dict(properties), extra=extra))
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
    found.options = inspection.HookOptions(aliases=ALIASES)
    assert run(["pci-devices"], found).properties == {
        "capabilities": "boot_mode:uefi,h100:2,x710:0"
    }


def test_a_ramdisk_that_tells_none_changes_nothing() -> None:
    found = run(["pci-devices"], disks_case({"capabilities": "h100:2"}))
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
    found = run(["parse-lldp"], disks_case(inventory=inventory, plugin_data={"lldp_raw": raw}))
    assert found.plugin_data["parsed_lldp"] == {
        "eth0": {"switch_system_name": "s1"},
        "eth1": {"switch_system_name": "s2"},
    }


# Switch ports: chassis aa:bb:cc:00:11:22, port Ethernet1/7, name tor-1; then a local chassis ID.
FRAME = [[1, "04aabbcc001122"], [2, "0545746865726e6574312f37"], [5, "746f722d31"]]
NO_MAC = [[1, "0773776974636831"], [2, "0545746865726e6574312f38"]]


def port(address: str = A, **values: Any) -> inspection.InspectedPort:
    return inspection.InspectedPort(address=address, **values)


def test_switch_ports_are_written_into_ports_and_set_keys_stay() -> None:
    found = case(interfaces=[{**CARDS[0], "lldp": NO_MAC}, CARDS[1]])
    found.plugin_data["lldp_raw"] = {"eth0": FRAME}
    found.ports = {A: port(local_link_connection={"port_id": "mine"}), B: port(B)}
    run(["local-link-connection"], found)
    assert found.ports[A].local_link_connection == {
        "port_id": "mine",
        "switch_id": "aa:bb:cc:00:11:22",
        "switch_info": "tor-1",
    }
    assert found.ports[B].local_link_connection == {}
    assert [remark for remark in found.remarks if "LLDP" in remark] == [
        "No switch is known by LLDP for the card eth1"
    ]


@pytest.mark.parametrize(
    ("plugin_data", "lldp", "written"),
    [
        ({}, NO_MAC, {"port_id": "Ethernet1/8"}),
        (
            {"parsed_lldp": {"eth0": {"switch_chassis_id": "AA-BB-CC-00-11-22"}}},
            None,
            {"switch_id": "aa:bb:cc:00:11:22"},
        ),
        ({"parsed_lldp": {"eth0": 7}, "lldp_raw": [1]}, [["x", 1], None], {}),
        ({"parsed_lldp": "x"}, "no list", {}),
        ({"parsed_lldp": {"eth0": {"switch_port_id": "x" * 512}}}, None, {}),
    ],
    ids=["chassis is no MAC", "of a BMC", "odd", "odder", "endless"],
)
def test_switch_ports_have_three_sources(plugin_data: Json, lldp: Any, written: Json) -> None:
    found = case(interfaces=[{**CARDS[0], "lldp": lldp}])
    found.plugin_data, found.ports = plugin_data, {A: port()}
    assert run(["local-link-connection"], found).ports[A].local_link_connection == written


def test_physical_networks_follow_the_addresses_of_cards() -> None:
    entry = options.declare.PhysicalNetwork()
    told = [entry(text) for text in ("192.0.2.0/25:a", "192.0.2.0/24:b", "2001:db8::/64:c")]
    cards = [
        {**CARDS[0], "ipv6_address": "2001:db8::7%eth0"},
        {**CARDS[1], "ipv6_address": "2001:db8::8"},
        {"name": "eth2", "mac_address": "52:54:00:00:00:0c", "ipv4_address": "198.51.100.1"},
    ]
    found = case(interfaces=cards)
    found.options = inspection.HookOptions(physical_networks=told)
    third = "52:54:00:00:00:0c"
    found.ports = {A: port(), B: port(B), third: port(third, physical_network="old")}
    run(["physical-network"], found)
    assert [one.physical_network for one in found.ports.values()] == ["a", "c", "old"]


@pytest.mark.parametrize(
    "entry",
    ["", "net", "192.0.2.0/24", "192.0.2.1/24:a", "192.0.2.0/24:", f"10.0.0.0/8:{'n' * 65}"],
)
def test_wrong_physical_network_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        options.declare.PhysicalNetwork()(entry)


def test_known_accelerators_are_a_property() -> None:
    told = [
        {"vendor_id": "10DE", "product_id": "2235", "bus": "0000:3b:00.0"},
        {"vendor_id": "10de", "product_id": "0000", "bus": "0000:5e:00.0"},
    ]
    found = run(["accelerators"], disks_case(plugin_data={"pci_devices": told}))
    assert found.properties == {
        "accelerators": [
            {
                "vendor_id": "10de",
                "device_id": "2235",
                "type": "GPU",
                "device_info": "NVIDIA Corporation A40",
                "pci_address": "0000:3b:00.0",
            }
        ]
    }
    gone = run(["accelerators"], disks_case(found.properties, plugin_data={"pci_devices": []}))
    assert gone.properties == {"accelerators": []}
    silent = run(["accelerators"], disks_case({"accelerators": [1]}))
    assert (silent.properties, len(silent.remarks)) == ({"accelerators": [1]}, 1)


def test_flags_of_the_processor_are_capabilities() -> None:
    found = case(cpu={"flags": ["vmx", "sse", "aes"]}, properties={"capabilities": "cpu_vt:false"})
    known = {"vmx": "cpu_vt", "svm": "cpu_vt", "aes": "cpu_aes", "smx": "cpu_txt"}
    found.options = inspection.HookOptions(cpu_capabilities=known)
    told = run(["cpu-capabilities"], found).properties["capabilities"]
    assert sorted(told.split(",")) == ["cpu_aes:true", "cpu_vt:true"]


@pytest.mark.parametrize("flags", [None, [], "vmx", 7], ids=str)
def test_processor_without_flags_keeps_its_capabilities(flags: Any) -> None:
    found = run(["cpu-capabilities"], case(cpu={"flags": flags}, properties={}))
    assert (found.properties, len(found.remarks)) == ({}, 1)


EXTRA = [["cpu", "logical", "number", "8"], ["disk", "sda", "size", 32], ["short", "one"], []]


def test_extra_hardware_becomes_an_object() -> None:
    long = "9" * 30
    told = [*EXTRA, ["cpu", "logical", "serial", long], [1, 2, 3, 4], ["cpu", "x", "y", None]]
    found = run(["extra-hardware"], disks_case(plugin_data={"data": told})).plugin_data
    assert found == {
        "extra": {
            "cpu": {"logical": {"number": 8, "serial": long}, "x": {"y": None}},
            "disk": {"sda": {"size": 32}},
        }
    }


@pytest.mark.parametrize(
    ("data", "strict", "left"),
    [(EXTRA, True, {}), ("text", False, {"data": "text"}), ([7], False, {"data": [7]})],
    ids=["strict", "text", "no lists"],
)
def test_extra_hardware_in_another_form_is_not_read(data: Any, strict: bool, left: Json) -> None:
    told = disks_case(plugin_data={"data": data})
    told.options = inspection.HookOptions(extra_hardware_strict=strict)
    found = run(["extra-hardware"], told)
    assert (found.plugin_data, len(found.remarks)) == (left, 1)


# -- ports that exist ------------------------------------------------------------------------

GONE = "52:54:00:00:00:0f"


@pytest.mark.parametrize(
    ("keep", "add", "stay"),
    [
        ("all", "pxe", [GONE, A, B]),
        ("present", "pxe", [A, B]),
        ("added", "pxe", [B]),
        ("added", "all", [A, B]),
        ("present", "disabled", [A]),
    ],
)
def test_ports_stay_as_keep_ports_says(keep: str, add: str, stay: list[str]) -> None:
    found = case(interfaces=CARDS, boot={"pxe_interface": B})
    found.options = inspection.HookOptions(keep_ports=keep, add_ports=add)
    found.ports = {GONE: port(GONE), A: port()}
    assert list(run(["ports"], found).ports) == stay


def test_no_port_is_removed_if_a_part_could_not_be_read() -> None:
    found = case(interfaces=CARDS)
    found.options, found.incomplete = inspection.HookOptions(keep_ports="present"), True
    found.ports = {GONE: port(GONE)}
    run(["ports"], found)
    assert list(found.ports) == [GONE, A, B]
    assert "No port is removed: a part of the machine could not be read" in found.remarks[0]
    assert GONE in found.remarks[0]


@pytest.mark.parametrize(
    ("boots", "update", "flags"),
    [
        (B, True, [False, False, True]),
        (B, False, [True, False, True]),
        (None, True, [True, False, True]),
    ],
    ids=["follow", "are left", "boot card is unknown"],
)
def test_ports_follow_the_boot_card(boots: Any, update: bool, flags: list[bool]) -> None:
    found = case("all", interfaces=CARDS, boot={"pxe_interface": boots})
    found.options = inspection.HookOptions(add_ports="all", update_pxe_enabled=update)
    found.ports = {GONE: port(GONE), A: port(pxe_enabled=False)}
    run(["ports"], found)
    assert [one.pxe_enabled for one in found.ports.values()] == flags


def stored(address: str, **values: Any) -> records.Port:
    blank: Json = {"portgroup_uuid": None, "internal_info": {}}
    shown = dataclasses.asdict(port(address))
    return records.Port({"uuid": f"uuid-{address[-2:]}", **blank, **shown, **values})


def test_changes_of_ports_are_those_of_the_hooks() -> None:
    known = [
        stored(A),
        stored(B, portgroup_uuid="g1"),
        stored(GONE),
        stored("52:54:00:00:00:10", internal_info={"tenant_vif_port_id": "v"}),
        stored("52:54:00:00:00:11", portgroup_uuid="g1"),
        stored("52:54:00:00:00:12", portgroup_uuid="g2"),
    ]
    new = "52:54:00:00:00:20"
    wanted = {
        A: port(category="fast", extra={"rack": 7}),
        B: port(B, physical_network="net_a", name="eth1"),
        new: port(new),
        "01:00:5e:00:00:01": port("01:00:5e:00:00:01"),
    }
    found = inspection.port_changes(known, wanted, busy=["g1"])
    assert found.added == [wanted[new]]
    assert found.changed == {
        "uuid-0a": {"category": "fast", "extra": {"rack": 7}},
        "uuid-0b": {"name": "eth1"},
    }
    assert [one.uuid for one in found.removed] == ["uuid-0f", "uuid-12"]
    assert found.remarks == [
        "no port is added for a network card with the address '01:00:5e:00:00:01'",
        "port uuid-0b is in a portgroup: its physical network stays",
        "port uuid-10 (52:54:00:00:00:10) is not removed: a VIF is attached to it",
        "port uuid-11 (52:54:00:00:00:11) is not removed: its portgroup is in use",
    ]


def test_hooks_change_a_copy_of_a_port() -> None:
    known = stored(A, extra={"a": {"b": 1}})
    inspection.inspected(known).extra["a"]["b"] = 2
    assert known.extra == {"a": {"b": 1}}


# -- hooks of others -------------------------------------------------------------------------


class Stranger(inspection.InspectionHook):
    """A hook that does one thing."""

    def __init__(self, act: Callable[[inspection.Case], object]) -> None:
        self._act = act

    def run(self, case: inspection.Case) -> None:
        self._act(case)


def keyed(found: inspection.Case) -> object:
    return found.inventory["cpu"]["model"]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (keyed, "hook odd: KeyError: 'cpu'"),
        (lambda _: 1 / 0, "hook odd: ZeroDivisionError: division by zero"),
        (
            lambda one: setattr(one, "resource_class", "x" * 81),
            r"hook odd: .*resource_class: must be",
        ),
        (lambda one: setattr(one, "properties", None), "hook odd: .*properties: must be an object"),
        (
            lambda one: one.properties.update(at={1, 2}),
            "hook odd: .*properties: has no form in JSON",
        ),
        (lambda one: one.extra.update({7: 1}), "hook odd: .*extra: has no form in JSON"),
        (lambda one: one.traits.add("fast"), "hook odd: .*traits: 'fast' is not a trait"),
        (lambda one: one.ports.update({A: {}}), f"hook odd: .*ports/{A}: must be an Inspected"),
        (lambda one: one.ports.update({B: port()}), f"hook odd: .*ports/{B}: must be the port's"),
        (
            lambda one: one.ports.update({A: port(physical_network="n" * 65)}),
            f"hook odd: .*ports/{A}/physical_network: must be text of 64",
        ),
        (
            lambda one: one.ports.update({A: port(pxe_enabled="yes")}),
            f"hook odd: .*ports/{A}/pxe_enabled: must be true or false",
        ),
    ],
    ids=range(11),
)
def test_fault_of_a_hook_names_it(act: Any, said: str) -> None:
    with pytest.raises(errors.HardwareError, match=said):
        inspection.run({"odd": Stranger(act)}, case())


def test_all_hooks_prepare_before_the_first_runs() -> None:
    seen: list[str] = []

    class Noted(inspection.InspectionHook):
        def __init__(self, name: str) -> None:
            self.name = name

        def preprocess(self, case: inspection.Case) -> None:
            seen.append(f"prepare {self.name}")

        def run(self, case: inspection.Case) -> None:
            seen.append(f"run {self.name}")

    inspection.run({"a": Noted("a"), "b": Noted("b")}, case())
    assert seen == ["prepare a", "prepare b", "run a", "run b"]


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
    assert lldp.parse(frame) == {
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
    found = lldp.parse([[8, "0501c000020b"]] * 5000 + [[5, "6c617465"]])
    assert len(found.pop("switch_mgmt_addresses")) == lldp.MOST
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
    assert lldp.parse([[127, digits], name]) == whole
    broken = [[127, digits[:places]] for places in range(8, len(digits), 2)]
    assert lldp.parse([*broken, name, ["x"], [127, 7], [127, "0"]]) == {
        "switch_system_name": "switch1"
    }


def test_address_of_a_switchs_management_may_be_a_mac() -> None:
    assert lldp.parse([[8, "0706525400000001020000023f00"], [8, "050652540000"]]) == {
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
    assert lldp.parse(tlvs) == {}


def test_addresses_of_a_port_are_addresses() -> None:
    assert lldp.parse([[2, "03525400000001"]]) == {"switch_port_id": "52:54:00:00:00:01"}
    assert lldp.parse([[1, "0501c0000201"]]) == {"switch_chassis_id": "192.0.2.1"}
