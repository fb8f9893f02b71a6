"""Parts of machines, out of documents as DMTF's schemas have them, and as BMCs spoil them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite.drivers.redfish.inventory import parts

Json = dict[str, Any]
GIB = 1024**3
CPU: Json = {
    "ProcessorType": "CPU",
    "InstructionSet": "x86-64",
    "Model": "Xeon",
    "MaxSpeedMHz": 3700,
    "TotalCores": 8,
    "TotalThreads": 16,
}
DRIVE: Json = {
    "Id": "0",
    "Name": "Drive 0",
    "CapacityBytes": 1000 * GIB,
    "MediaType": "SSD",
    "Model": "C123",
    "Manufacturer": "Drives Ltd",
    "SerialNumber": "SN1",
    "Identifiers": [{"DurableName": "5000C50000000001", "DurableNameFormat": "NAA"}],
}
CARD: Json = {"Id": "NIC1", "MACAddress": "52:54:00:00:00:0A", "SpeedMbps": 10000}
ABSENT: Json = {"Status": {"State": "Absent"}}


# -- processors and memory -------------------------------------------------------------------


def test_processors_are_counted_by_their_threads() -> None:
    found = parts.cpu({}, [CPU, CPU, {**CPU, **ABSENT}, {**CPU, "ProcessorType": "GPU"}])
    assert found == {
        "count": 32,
        "architecture": "x86_64",
        "model_name": "Xeon",
        "frequency": 3700,
    }


@pytest.mark.parametrize(
    ("summary", "processors", "count"),
    [
        ({}, [{**CPU, "TotalThreads": "16"}], 16),
        ({}, [CPU, {**CPU, "TotalThreads": None}], 16),
        ({"LogicalProcessorCount": 64, "Count": 2}, [], 64),
        ({"CoreCount": 32, "Count": 2}, [{"TotalCores": "many"}], 32),
        ({"Count": 2}, [], 2),
        ({"Count": -1}, [], None),
    ],
    ids=str,
)
def test_processors_are_counted_by_what_is_told(
    summary: Json, processors: list[Json], count: int | None
) -> None:
    assert parts.cpu({"ProcessorSummary": summary}, processors).get("count") == count


@pytest.mark.parametrize(
    ("word", "name"),
    [("x86-64", "x86_64"), ("x86", "i686"), ("ARM-A64", "aarch64"), ("OEM", None), (None, None)],
)
def test_architectures_have_the_names_of_images(word: str | None, name: str | None) -> None:
    assert parts.cpu({}, [{"InstructionSet": word}]).get("architecture") == name


@pytest.mark.parametrize(
    ("word", "name"), [("x86", "x86_64"), ("ARM", "aarch64"), ("Power", None), (None, None)]
)
def test_the_architecture_of_a_dgx_without_instruction_set_is_found(
    word: str | None, name: str | None
) -> None:
    processor = {"InstructionSet": None, "ProcessorArchitecture": word, "ProcessorType": "CPU"}
    assert parts.cpu({}, [processor]).get("architecture") == name


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("AMD EPYC 7763 64-Core Processor", "x86_64"),
        ("Intel(R) Xeon(R) Gold 6354 CPU @ 3.00GHz", "x86_64"),
        ("ARMv9", "aarch64"),
        ("Grace A02", "aarch64"),
        ("Multi-Core Processor", None),
        (None, None),
    ],
)
def test_the_model_tells_the_architecture_if_nothing_else_does(
    model: str | None, name: str | None
) -> None:
    assert parts.cpu({}, [{"Model": model}]).get("architecture") == name
    summary = {"ProcessorSummary": {"Model": model}}
    assert parts.cpu(summary, [{"Id": "CPU_0"}]).get("architecture") == name
    assert parts.cpu({}, [{"Model": model, "InstructionSet": "RV64"}])["architecture"] == "riscv64"


@pytest.mark.parametrize(
    ("size", "modules", "megabytes"),
    [
        (96, [], 98304),
        (0.5, [], 512),
        ("32", [], 32768),
        (None, [{"CapacityMiB": 1024}, {"CapacityMiB": 512, **ABSENT}, {}], 1024),
        (0, [{"CapacityMiB": 1024}], 1024),
    ],
    ids=str,
)
def test_memory_is_that_of_the_summary_or_of_the_modules(
    size: Any, modules: list[Json], megabytes: int
) -> None:
    system = {"MemorySummary": {"TotalSystemMemoryGiB": size}}
    found = {"physical_mb": megabytes, "total": megabytes * 1024**2}
    assert parts.memory(system, modules) == found


def test_memory_that_is_not_told_is_none() -> None:
    assert parts.memory({}, []) == {}
    assert parts.memory({"MemorySummary": None}, [{"CapacityMiB": True}]) == {}


# -- network cards ---------------------------------------------------------------------------


def test_cards_are_told_once_and_only_with_an_address() -> None:
    cards = [
        {**CARD, "LinkStatus": "LinkDown", "IPv4Addresses": [{"Address": "0.0.0.0"}, None]},
        {**CARD, "Id": "again"},
        {"Id": "off", "MACAddress": "52:54:00:00:00:0b", "Status": {"State": "Disabled"}},
        {"Id": "null", "MACAddress": None, "PermanentMACAddress": "52-54-00-00-00-0C"},
        {"Id": "zero", "MACAddress": "00:00:00:00:00:00"},
        {"Id": "na", "MACAddress": "N/A"},
        {"Id": "group", "MACAddress": "01:00:5E:00:00:01"},
        {"Id": "all", "MACAddress": "FF:FF:FF:FF:FF:FF"},
        {"Id": "both", "MACAddress": "00:00:00:00:00:00", "PermanentMACAddress": "52540000000D"},
    ]
    assert parts.without_address(cards) == ["zero", "na", "group", "all"]
    assert parts.interfaces(cards) == [
        {
            "name": "NIC1",
            "mac_address": "52:54:00:00:00:0a",
            "speed_mbps": 10000,
            "has_carrier": False,
        },
        {"name": "null", "mac_address": "52:54:00:00:00:0c"},
        {"name": "both", "mac_address": "52:54:00:00:00:0d"},
    ]


def test_disabled_cards_count_unless_a_setting_has_disabled_them() -> None:
    cards = [
        {**CARD, "Status": {"State": "Disabled"}},
        {**CARD, "MACAddress": "52:54:00:00:00:0b", "Status": {"State": "Disabled"}},
        {**CARD, "MACAddress": "52:54:00:00:00:0c", "Status": {"State": "Absent"}},
    ]
    cards[1]["InterfaceEnabled"] = False
    found = parts.interfaces(cards, disabled=True)
    assert [one["mac_address"] for one in found] == ["52:54:00:00:00:0a"]
    assert parts.interfaces(cards) == []


def test_a_card_may_have_addresses_of_ip() -> None:
    card = {
        **CARD,
        "IPv4Addresses": [{"Address": "192.0.2.7"}],
        "IPv6Addresses": [{"Address": "::"}, {"Address": "fe80::1"}],
    }
    (found,) = parts.interfaces([card])
    assert (found["ipv4_address"], found["ipv6_address"]) == ("192.0.2.7", "fe80::1")


def test_functions_of_adapters_are_cards() -> None:
    inside = {"MACAddress": "52:54:00:00:00:0A"}
    found = parts.functions([{"Id": "f1", "Ethernet": inside}, {"Id": "f2", "Ethernet": None}])
    assert found == [{"name": "f1", "mac_address": "52:54:00:00:00:0a"}]


def test_ports_of_adapters_are_cards() -> None:
    port = {
        "Id": "1",
        "CurrentSpeedGbps": 25,
        "LinkStatus": "LinkUp",
        "Ethernet": {"AssociatedMACAddresses": [None, "00:00:00:00:00:00", "52:54:00:00:00:0A"]},
    }
    old = {"Id": "2", "LinkStatus": "Up", "AssociatedNetworkAddresses": ["52-54-00-00-00-0B"]}
    odd = {"Id": "3", "AssociatedMACAddresses": "52540000000C"}
    wwn = {"Id": "4", "AssociatedNetworkAddresses": ["20:00:00:25:b5:00:00:01"]}
    assert parts.functions([port, old, odd, wwn]) == [
        {"name": "1", "mac_address": "52:54:00:00:00:0a", "speed_mbps": 25000, "has_carrier": True},
        {"name": "2", "mac_address": "52:54:00:00:00:0b", "has_carrier": True},
        {"name": "3", "mac_address": "52:54:00:00:00:0c"},
    ]


def test_functions_of_two_adapters_with_one_name_are_kept_apart() -> None:
    cards = [
        ("slot-1", {"name": "1", "mac_address": "52:54:00:00:00:0a"}),
        ("slot-2", {"name": "1", "mac_address": "52:54:00:00:00:0b"}),
        ("slot-3", {"name": "2", "mac_address": "52:54:00:00:00:0b"}),
    ]
    assert parts.named_apart(cards) == [
        {"name": "1", "mac_address": "52:54:00:00:00:0a"},
        {"name": "slot-2 1", "mac_address": "52:54:00:00:00:0b"},
    ]


def test_a_port_tells_of_its_switch() -> None:
    heard = {"ChassisId": "00:11", "PortId": "Eth1/7", "ManagementVlanId": 7, "SystemName": ""}
    wanted = {"switch_chassis_id": "00:11", "switch_port_id": "Eth1/7", "switch_vlan_id": 7}
    assert parts.neighbour({"Ethernet": {"LLDPReceive": heard}}) == wanted
    assert parts.neighbour({"Ethernet": {"LLDPReceive": None}}) == {}
    assert parts.neighbour({}) == {}


# -- disks -----------------------------------------------------------------------------------


def test_a_disk_is_told_as_agents_do() -> None:
    assert parts.disk(DRIVE) == {
        "name": "Drive 0",
        "size": 1000 * GIB,
        "model": "C123",
        "vendor": "Drives Ltd",
        "serial": "SN1",
        "rotational": False,
        "wwn": "0x5000c50000000001",
    }
    assert parts.disk({"CapacityBytes": 5}) == {"name": "disk", "size": 5}


@pytest.mark.parametrize("spoilt", [ABSENT, {"CapacityBytes": None}, {"CapacityBytes": 0}], ids=str)
def test_an_empty_place_is_no_disk(spoilt: Json) -> None:
    assert parts.disk({**DRIVE, **spoilt}) is None
    assert parts.volume({**DRIVE, **spoilt}, {}) is None


@pytest.mark.parametrize(
    ("devices", "drives", "volumes", "size"),
    [
        ([], [], [], None),
        ([], [3], [], None),
        ([], [500, 100], [], 99),
        ([], [100], [400, 2], 399),
        ([50], [100], [400], 49),
        ([1], [100], [], 99),
        ([5], [], [], 4),
    ],
    ids=str,
)
def test_the_disk_for_an_image_is_the_smallest_that_is_large_enough(
    devices: list[int], drives: list[int], volumes: list[int], size: int | None
) -> None:
    sizes = ([each * GIB for each in some] for some in (devices, drives, volumes))
    assert parts.local_gb(*sizes) == size


# -- the rest --------------------------------------------------------------------------------


def test_the_machine_has_names_and_a_mode() -> None:
    system = {
        "Manufacturer": " Contoso ",
        "Model": "3500RX",
        "SerialNumber": "N7",
        "UUID": "38947555",
        "BiosVersion": "P79",
        "Boot": {"BootSourceOverrideMode": "Legacy"},
    }
    assert parts.maker(system) == {
        "product_name": "3500RX",
        "serial_number": "N7",
        "manufacturer": "Contoso",
        "system_uuid": "38947555",
        "firmware": {"version": "P79"},
    }
    assert parts.boot(system) == {"current_boot_mode": "bios", "pxe_interface": None}
    assert (parts.maker({}), parts.boot({})["current_boot_mode"]) == ({}, None)


def test_functions_of_pci_have_numbers_as_agents_send_them() -> None:
    function = {"VendorId": "0x8086", "DeviceId": "0X1572", "RevisionId": "01", "DeviceClass": "N"}
    wanted = {"vendor_id": "8086", "product_id": "1572", "revision": "01", "class": "N"}
    assert parts.pci(function) == wanted
    assert parts.pci({"VendorId": 32902}) == {}


ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        2**80,
        0.5,
        float("nan"),
        float("inf"),
        "",
        " ",
        "x",
        "7",
        "-1e999",
    ),
    *("\0", "52:54:00:00:00:0a", [], [None], [[]], ["x"], [7], [{}], {}, {"State": None}),
    *({"State": ["Absent"]}, {"Count": "x"}, {"TotalSystemMemoryGiB": {}}, {"MACAddress": 7}),
    *({"LLDPReceive": []}, {"LLDPReceive": {"ChassisId": {}}}, [{"Address": 7}]),
    *([{"DurableName": 7, "DurableNameFormat": "NAA"}], {"BootSourceOverrideMode": []}),
]
NAMES = (
    *("Status", "Boot", "MemorySummary", "ProcessorSummary", "ProcessorType", "InstructionSet"),
    *("TotalThreads", "TotalCores", "MaxSpeedMHz", "Model", "MACAddress", "SpeedMbps"),
    *("IPv4Addresses", "LinkStatus", "Ethernet", "CapacityBytes", "CapacityMiB", "MediaType"),
    *("Identifiers", "VendorId", "DeviceClass", "Manufacturer", "BiosVersion", "Id", "Name"),
)


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), max_size=8))
def test_no_document_is_too_odd(document: Json) -> None:
    parts.cpu(document, [document])
    parts.memory(document, [document])
    parts.interfaces([document])
    parts.functions([document])
    parts.neighbour(document)
    parts.disk(document)
    parts.volume(document, {"/d": document})
    parts.maker(document)
    parts.boot(document)
    parts.pci(document)
