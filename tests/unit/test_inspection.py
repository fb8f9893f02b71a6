"""What follows from an inventory: cards, ports, properties."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import options
from ironic_lite.domain import capabilities, inspection

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
    assert capabilities.get(known, "a") == value
    assert capabilities.put(known, "a", "1") == after
    assert capabilities.get(after, "a") == "1"
