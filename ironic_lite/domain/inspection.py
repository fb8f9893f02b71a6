"""Results derived from a machine's inventory, reported by a BMC or an agent.

An inventory has the form in which ironic-python-agent sends it: ``interfaces``, ``cpu``,
``memory``, ``disks``, ``system_vendor``, ``boot`` ... `HOOKS` process it, under the names that
operators know from Ironic; nothing here touches a machine or a database.
"""

from __future__ import annotations

import binascii
import dataclasses
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import root_device, vocabulary

# LLDP frames of switches that a ramdisk has received (IEEE 802.1AB). Pure.
#
# A frame is a list of TLVs: a type, and a value in hexadecimal digits. The names are Ironic's.

_ORGANIZATION = 127
MOST = 1000  # TLVs: more than fit into a frame of 1500 octets, each has two at least
_LLDP_MAC = 6  # octets
_CHASSIS_MAC, _CHASSIS_ADDRESS = 4, 5  # IEEE 802.1AB 8.5.2.2
_PORT_MAC, _PORT_ADDRESS = 3, 4  # IEEE 802.1AB 8.5.3.2
_MAC_FAMILY = 6
_FAMILIES = {1: 4, 2: 16, _MAC_FAMILY: _LLDP_MAC}
"""Numbers of address families (IANA), and the lengths of their addresses."""

_CAPABILITIES = (
    *("Other", "Repeater", "Bridge", "WLAN", "Router", "Telephone"),
    *("DOCSIS cable device", "Station only", "C-Vlan", "S-Vlan", "TPMR"),
)
"""IEEE 802.1AB 8.5.8.1, the first bit first."""
_PHYSICAL = (
    *("1000BASE-T fdx", "1000BASE-T hdx", "1000BASE-X fdx", "1000BASE-X hdx"),
    *("Asym and Sym PAUSE fdx", "Sym PAUSE fdx", "Asym PAUSE fdx", "PAUSE fdx"),
    *("100BASE-T2 fdx", "100BASE-T2 hdx", "100BASE-TX fdx", "100BASE-TX hdx"),
    *("10BASE-T4", "10BASE-T fdx", "10BASE-T hdx"),
)
"""IANAifMauAutoNegCapBits of RFC 4836, the last bit first."""
_HALF_AND_FULL = (
    *("100BASE-TX", "100BASE-FX", "100BASE-T2", "1000BASE-X", "1000BASE-LX"),
    *("1000BASE-SX", "1000BASE-CX", "1000BASE-T"),
)
_MEDIA = (
    *("Unknown", "AUI", "10BASE-5", "FOIRL", "10BASE-2", "10BASE-T duplex mode unknown"),
    *("10BASE-FP", "10BASE-FB", "10BASE-FL duplex mode unknown", "10BROAD36"),
    *("10BASE-T half duplex", "10BASE-T full duplex"),
    *("10BASE-FL half duplex", "10BASE-FL full duplex", "100 BASE-T4"),
    *(f"{medium} {half} duplex" for medium in _HALF_AND_FULL for half in ("half", "full")),
    *("10GBASE-X", "10GBASE-LX4", "10GBASE-R", "10GBASE-ER", "10GBASE-LR", "10GBASE-SR"),
    *("10GBASE-W", "10GBASE-EW", "10GBASE-LW", "10GBASE-SW", "10GBASE-CX4"),
    *("2BASE-TL", "10PASS-TS", "100BASE-BX10D", "100BASE-BX10U", "100BASE-LX10"),
    *("1000BASE-BX10D", "1000BASE-BX10U", "1000BASE-LX10"),
    *("1000BASE-PX10D", "1000BASE-PX10U", "1000BASE-PX20D", "1000BASE-PX20U"),
)
"""Media attachment units by their number in IANAifMauTypeListBits of RFC 4836."""


def parse_lldp(tlvs: object) -> Json:
    """Return the content of a frame by name, without unreadable or excess parts.

    :param tlvs: ``[[type, hexadecimal digits], ...]``, as ironic-python-agent gives them.
    """
    found: Json = {}
    for one in tlvs[:MOST] if isinstance(tlvs, list) else ():
        kind, value = _read_tlv(one)
        read = _ORGANIZED.get(value[:_PREFIX]) if kind == _ORGANIZATION else _READERS.get(kind)
        if read is None:
            continue
        body = value[_PREFIX:] if kind == _ORGANIZATION else value
        try:
            _add_facts(found, read(body))
        except (ValueError, IndexError):
            continue
    return found


def _read_tlv(one: object) -> tuple[int, bytes]:
    if not isinstance(one, Sequence) or isinstance(one, str) or len(one) != 2:  # noqa: PLR2004
        return -1, b""
    kind, digits = one
    if not isinstance(kind, int) or not isinstance(digits, str):
        return -1, b""
    try:
        return kind, binascii.unhexlify(digits)
    except (binascii.Error, ValueError):
        return -1, b""


def _add_facts(found: Json, more: Json) -> None:
    """Add the content of a TLV; repeated ones give lists."""
    for name, value in more.items():
        if isinstance(value, list):
            found[name] = [*found.get(name, []), *value]
        else:
            found[name] = value


# -- one TLV -------------------------------------------------------------------------------------


def _text_reader(name: str) -> Callable[[bytes], Json]:
    return lambda value: {name: _decoded_text(value)}


def _decoded_text(value: bytes) -> str:
    return value.decode("utf-8", "replace").replace("\0", "").strip()


def _number_reader(name: str, *, at: int, size: int) -> Callable[[bytes], Json]:
    def read(value: bytes) -> Json:
        part = value[at : at + size]
        if len(part) != size:
            raise ValueError(name)
        return {name: int.from_bytes(part)}

    return read


def _identity_reader(name: str, mac: int, network: int) -> Callable[[bytes], Json]:
    def read(value: bytes) -> Json:
        subtype, rest = value[0], value[1:]
        if subtype == mac:
            return {name: _exactly(rest, _LLDP_MAC).hex(":")}
        return {name: _read_address(rest) if subtype == network else _decoded_text(rest)}

    return read


def _exactly(value: bytes, size: int) -> bytes:
    """Return the first octets of a value; raises ValueError if there are fewer."""
    if len(value) < size:
        raise ValueError(value)
    return value[:size]


def _read_address(value: bytes) -> str:
    """Return a network or MAC address, which begins with the number of its family."""
    found = _exactly(value[1:], _FAMILIES.get(value[0], len(value)))
    return found.hex(":") if value[0] == _MAC_FAMILY else str(ipaddress.ip_address(found))


def _read_management(value: bytes) -> Json:
    return {"switch_mgmt_addresses": [_read_address(value[1 : 1 + value[0]])]}


def _read_capabilities(value: bytes) -> Json:
    whole = _exactly(value, 4)
    known, enabled = int.from_bytes(whole[:2]), int.from_bytes(whole[2:])
    return {
        "switch_capabilities_support": _capability_names(known),
        "switch_capabilities_enabled": _capability_names(enabled),
    }


def _capability_names(bits: int) -> list[str]:
    return [name for place, name in enumerate(_CAPABILITIES) if bits & 1 << place]


def _read_vlan(value: bytes) -> Json:
    name = _decoded_text(_exactly(value[3:], value[2]))
    return {"switch_port_vlans": [{"id": int.from_bytes(value[:2]), "name": name}]}


def _read_aggregation(value: bytes) -> Json:
    bits, number = value[0], int.from_bytes(_exactly(value[1:], 4))
    return {
        "switch_port_link_aggregation_support": bool(bits & 1),
        "switch_port_link_aggregation_enabled": bool(bits & 2),
        "switch_port_link_aggregation_id": number,
    }


def _read_protocol_vlan(value: bytes) -> Json:
    bits = value[0]
    return {
        "switch_port_protocol_vlan_support": bool(bits & 2),
        "switch_port_protocol_vlan_enabled": bool(bits & 4),
        "switch_port_protocol_vlan_ids": [int.from_bytes(_exactly(value[1:], 2))],
    }


def _read_protocol(value: bytes) -> Json:
    return {"switch_protocol_identities": [_exactly(value[1:], value[0]).hex()]}


def _read_physical(value: bytes) -> Json:
    """Read the configuration of MAC and PHY; an unknown medium has no name."""
    whole = _exactly(value, 5)
    offers, medium = int.from_bytes(whole[1:3]), int.from_bytes(whole[3:])
    found: Json = {
        "switch_port_autonegotiation_support": bool(whole[0] & 1),
        "switch_port_autonegotiation_enabled": bool(whole[0] & 2),
    }
    named = sorted(name for place, name in enumerate(_PHYSICAL) if offers & 1 << place)
    found["switch_port_physical_capabilities"] = named
    if medium < len(_MEDIA):
        found["switch_port_mau_type"] = _MEDIA[medium]
    return found


_READERS: Mapping[int, Callable[[bytes], Json]] = {
    1: _identity_reader("switch_chassis_id", _CHASSIS_MAC, _CHASSIS_ADDRESS),
    2: _identity_reader("switch_port_id", _PORT_MAC, _PORT_ADDRESS),
    4: _text_reader("switch_port_description"),
    5: _text_reader("switch_system_name"),
    6: _text_reader("switch_system_description"),
    7: _read_capabilities,
    8: _read_management,
}
_PREFIX = 4  # octets: the organization and its subtype
_ORGANIZED: Mapping[bytes, Callable[[bytes], Json]] = {
    # IEEE 802.1Q D.2 and IEEE 802.3 79.3
    b"\x00\x80\xc2\x01": _number_reader("switch_port_untagged_vlan_id", at=0, size=2),
    b"\x00\x80\xc2\x02": _read_protocol_vlan,
    b"\x00\x80\xc2\x03": _read_vlan,
    b"\x00\x80\xc2\x04": _read_protocol,
    b"\x00\x80\xc2\x06": _number_reader("switch_port_management_vlan_id", at=0, size=2),
    b"\x00\x80\xc2\x07": _read_aggregation,
    b"\x00\x12\x0f\x01": _read_physical,
    b"\x00\x12\x0f\x03": _read_aggregation,
    b"\x00\x12\x0f\x04": _number_reader("switch_port_mtu", at=0, size=2),
}


ADD_PORTS = ("all", "active", "pxe", "disabled")
"""Network cards that become ports: all, with an IP address, the booting one, none."""

_MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")  # no group (IEEE 802), no broadcast
_NO_MAC = "00:00:00:00:00:00"
_LONGEST = 4096  # characters of a sentence that quotes a machine
_WORD = 255  # characters of a property
_MOST = 4096  # cards or disks: each may become a row, or part of a statement
_PXELINUX = re.compile(r"[0-9a-f]{2}-(?P<mac>[0-9a-f]{2}(-[0-9a-f]{2}){5})")


@dataclasses.dataclass(slots=True)
class Case:
    """An inventory, and the results of the hooks so far.

    ``ports`` maps each address that gets a port to whether machines may boot from it, and
    ``client_ids`` those of InfiniBand cards to their DHCP client identifiers. ``remarks``
    are sentences for the log. ``extra`` is the node's field of that name, ``aliases`` names PCI
    devices: ``{(vendor, product): name}``, each of four hexadecimal digits.
    """

    inventory: JsonView
    plugin_data: Json
    properties: Json
    add_ports: str = "pxe"
    extra: Json = dataclasses.field(default_factory=dict)
    aliases: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    ports: dict[str, bool] = dataclasses.field(default_factory=dict)
    client_ids: dict[str, str] = dataclasses.field(default_factory=dict)
    remarks: list[str] = dataclasses.field(default_factory=list)


Hook = Callable[[Case], None]


def run(names: Iterable[str], case: Case) -> Case:
    """Run hooks over a case, in this order, each once and after those it requires.

    :raises errors.HardwareError: a hook cannot use the inventory.
    """
    done: set[str] = set()
    for name in names:
        for each in (*NEEDS.get(name, ()), name):
            if each not in done:
                done.add(each)
                HOOKS[each](case)
    return case


def check(report: object) -> tuple[Json, Json]:
    """Return the inventory in a ramdisk's report, and all else in it.

    An inventory has at least one network card with an address; hooks leave out other cards. The
    numbers of cards and of disks are limited to those of a real machine. A collection that failed
    may be missing, if ``error`` says why.

    :param report: an untrusted JSON value.
    :raises errors.InvalidParameter, errors.MissingParameter: naming the path.
    """
    if not isinstance(report, dict):
        raise errors.InvalidParameter(path="/", reason="must be a JSON object")
    rest = {name: value for name, value in report.items() if name != "inventory"}
    inventory = report.get("inventory")
    if inventory is None and rest.get("error"):
        return {}, rest
    if inventory is None:
        raise errors.MissingParameter(path="inventory")
    if not isinstance(inventory, dict):
        raise errors.InvalidParameter(path="inventory", reason="must be an object")
    for name in ("interfaces", "disks"):
        if isinstance(inventory.get(name), list) and len(inventory[name]) > _MOST:
            reason = f"has more than {_MOST} entries"
            raise errors.InvalidParameter(path=f"inventory/{name}", reason=reason)
    _check_cards(inventory.get("interfaces"))
    return inventory, rest


def _check_cards(cards: object) -> None:
    if not isinstance(cards, list) or not cards:
        reason = "must be a list of at least one network card"
        raise errors.InvalidParameter(path="inventory/interfaces", reason=reason)
    told = [card.get("mac_address") for card in cards if isinstance(card, dict)]
    if not any(isinstance(one, str) and one for one in told):
        path = "inventory/interfaces/0/mac_address"
        raise errors.InvalidParameter(path=path, reason="must be text, at least of one card")


def addresses(inventory: JsonView) -> list[str]:
    """Return the MAC addresses of an inventory in the form of ports."""
    cards = [card for card in inventory.get("interfaces") or () if isinstance(card, dict)]
    return [mac for card in cards if (mac := address(card.get("mac_address"))) is not None]


def bmc_addresses(inventory: JsonView) -> frozenset[str]:
    """Return the IP addresses of the machine's BMC, in their shortest form."""
    told = (_read_ip(inventory.get(name)) for name in ("bmc_address", "bmc_v6address"))
    return frozenset(str(one) for one in told if one is not None and not one.is_unspecified)


def lacking(properties: JsonView, wanted: Sequence[str]) -> list[str]:
    """Return the wanted properties that are missing or empty; 0 is a value."""
    return [name for name in wanted if properties.get(name) in (None, "")]


def address(value: object) -> str | None:
    """Return a MAC address in the form of ports, None for an invalid or impossible one."""
    if not isinstance(value, str):
        return None
    found = value.strip().lower().replace("-", ":")
    return found if _MAC.fullmatch(found) and found != _NO_MAC else None


def boots_from(inventory: JsonView) -> str | None:
    """Return the address of the card that the machine has booted from.

    pxelinux puts the kind of hardware before it.
    """
    found = _inventory_part(inventory, "boot").get("pxe_interface")
    if not isinstance(found, str):
        return None
    prefixed = _PXELINUX.fullmatch(found.strip().lower())
    return address(prefixed["mac"] if prefixed else found)


# -- hooks ---------------------------------------------------------------------------------------


def _ramdisk_error(case: Case) -> None:
    told = case.plugin_data.get("error")
    if told:
        words = str(told)[:_LONGEST]
        raise errors.HardwareError(reason=f"The ramdisk reports an error: {words}")


def _validate_interfaces(case: Case) -> None:
    """Choose the cards.

    ``plugin_data`` gets them as ``all_interfaces`` and ``valid_interfaces`` by name, and as
    ``macs``.
    """
    every = dict(_read_interfaces(case))
    if not every:
        raise errors.HardwareError(
            reason="The inventory has no network interface with a name and a MAC address."
            + "".join(f" {remark}." for remark in case.remarks)[:_LONGEST]
        )
    valid = {name: one for name, one in every.items() if _is_wanted_port(case, name, one)}
    if not valid:
        names = ", ".join(sorted(every))[:_LONGEST]
        raise errors.HardwareError(
            reason=f"None of the network interfaces {names} matches [inspector]add_ports, which "
            f"is {case.add_ports}."
        )
    case.plugin_data["all_interfaces"] = every
    case.plugin_data["valid_interfaces"] = valid
    case.plugin_data["macs"] = [one["mac_address"] for one in valid.values()]


def _read_interfaces(case: Case) -> Iterable[tuple[str, Json]]:
    boots = boots_from(case.inventory)
    listed = case.inventory.get("interfaces")
    for one in listed if isinstance(listed, list) else ():
        name, mac = (one.get("name"), one.get("mac_address")) if isinstance(one, dict) else (0, 0)
        known = address(mac)
        if not (name and isinstance(name, str) and known):
            remark = f"The network interface {name!r:.80} has no usable address: {mac!r:.80}"
            case.remarks.append(remark)
            continue
        # The booting card may be unknown; then any card may be used, unless the BMC tells of each.
        told = one.get("pxe_enabled")
        enabled = told if isinstance(told, bool) else boots in (None, known)
        yield name, {**one, "mac_address": known, "pxe_enabled": enabled}


def _is_wanted_port(case: Case, name: str, one: Json) -> bool:
    addresses = [found for key in _IP_KEYS if (found := _read_ip(one.get(key))) is not None]
    if name == "lo" or any(found.is_loopback for found in addresses):
        return False
    if case.add_ports == "active":
        return bool(addresses)
    return case.add_ports != "pxe" or bool(one["pxe_enabled"])


_IP_KEYS = ("ipv4_address", "ipv6_address")


def _read_ip(value: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(value.partition("%")[0]) if isinstance(value, str) else None
    except ValueError:
        return None


def _find_ports(case: Case) -> None:
    if case.add_ports != "disabled":
        valid = case.plugin_data["valid_interfaces"].values()
        case.ports = {one["mac_address"]: one["pxe_enabled"] for one in valid}
        case.client_ids = {
            one["mac_address"]: told
            for one in valid
            if isinstance(told := one.get("client_id"), str) and 0 < len(told) <= _WORD
        }


def _find_architecture(case: Case) -> None:
    _put_property(case, "cpu_arch", _inventory_part(case.inventory, "cpu").get("architecture"))


def _find_memory(case: Case) -> None:
    _put_property(case, "memory_mb", _inventory_part(case.inventory, "memory").get("physical_mb"))


def _find_cpus(case: Case) -> None:
    _put_property(case, "cpus", _inventory_part(case.inventory, "cpu").get("count"))


def _put_property(case: Case, name: str, value: object) -> None:
    """Write a property, unless the machine does not report a usable value."""
    word = isinstance(value, str) and 0 < len(value) <= _WORD
    number = isinstance(value, int) and value is not True and value > 0
    if word or number:
        case.properties[name] = value
    else:
        kept = "" if lacking(case.properties, [name]) else "; the node's property stays"
        case.remarks.append(f"The inventory does not have {name}: it is {value!r:.80}{kept}")


def _boot_mode(case: Case) -> None:
    mode = _inventory_part(case.inventory, "boot").get("current_boot_mode")
    if mode in ("bios", "uefi"):
        known = case.properties.get("capabilities")
        case.properties["capabilities"] = vocabulary.put_capability(known, "boot_mode", mode)


def _root_device(case: Case) -> None:
    """Write the size of the instance's disk, chosen by hints or by the ramdisk."""
    hints = case.properties.get("root_device")
    if isinstance(hints, dict) and hints:
        chosen = _hinted_disks(case, hints)
    else:
        told = case.plugin_data.get("root_disk")
        chosen = told if isinstance(told, dict) else {}
    size = chosen.get("size")
    if isinstance(size, int) and size >= root_device.GIB:
        case.properties["local_gb"] = size // root_device.GIB
    else:
        case.remarks.append("The disk for instances is not known, or has no size: local_gb stays")


def _hinted_disks(case: Case, hints: Json) -> Json:
    try:
        found = root_device.matching(case.inventory.get("disks"), hints)
    except ValueError as why:
        reason = f"properties/root_device: {why} is not a valid hint"
        raise errors.HardwareError(reason=reason) from None
    if found is None:
        raise errors.HardwareError(
            reason="No disk of the inventory matches all of properties/root_device: "
            f"{', '.join(sorted(hints))}. See the inventory for the existing disks."
        )
    return found


def _raid_device(case: Case) -> None:
    """Make a disk that the last inspection did not see the root device."""
    present = root_device.serials(case.inventory.get("disks"))
    earlier = case.extra.get(BLOCK_DEVICES)
    known = earlier.get("serials") if isinstance(earlier, dict) else None
    case.extra = {**case.extra, BLOCK_DEVICES: {"serials": present}}
    if not isinstance(known, list) or case.properties.get("root_device"):
        return
    fresh = [serial for serial in present if serial not in known]
    if len(fresh) == 1:
        case.properties["root_device"] = {"serial": fresh[0]}
    elif fresh:
        case.remarks.append(f"{len(fresh)} disks are new; none is made the root device")


BLOCK_DEVICES = "block_devices"
"""Key of ``extra`` with the disks of the last inspection, for raid-device."""


def _pci_devices(case: Case) -> None:
    """Count the named PCI devices as capabilities; remove those of missing devices."""
    listed = case.plugin_data.get("pci_devices")
    if not isinstance(listed, list):
        case.remarks.append(
            "The ramdisk reports no PCI devices: its collector pci-devices is not on"
        )
        return
    counts: dict[str, int] = dict.fromkeys(case.aliases.values(), 0)
    for one in (each for each in listed if isinstance(each, dict)):
        ids = str(one.get("vendor_id")).lower(), str(one.get("product_id")).lower()
        name = case.aliases.get(ids)
        if name is not None:
            counts[name] += 1
    known = case.properties.get("capabilities")
    for name, count in counts.items():
        if count or vocabulary.get_capability(known, name) is not None:
            known = vocabulary.put_capability(known, name, str(count))
    if known:
        case.properties["capabilities"] = known


def _parse_lldp(case: Case) -> None:
    """Parse the frames of switches: ``plugin_data`` gets ``parsed_lldp``, by card."""
    raw = case.plugin_data.get("lldp_raw")
    heard = dict(raw) if isinstance(raw, dict) else {}
    listed = case.inventory.get("interfaces")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("lldp") and isinstance(one.get("name"), str):
            heard.setdefault(one["name"], one["lldp"])
    found = {name: parse_lldp(tlvs) for name, tlvs in heard.items()}
    case.plugin_data["parsed_lldp"] = {name: told for name, told in found.items() if told}


def _inventory_part(inventory: JsonView, name: str) -> JsonView:
    found = inventory.get(name)
    return found if isinstance(found, dict) else {}


HOOKS: Mapping[str, Hook] = {
    "ramdisk-error": _ramdisk_error,
    "validate-interfaces": _validate_interfaces,
    "ports": _find_ports,
    "architecture": _find_architecture,
    "memory": _find_memory,
    "cpus": _find_cpus,
    "boot-mode": _boot_mode,
    "root-device": _root_device,
    "raid-device": _raid_device,
    "pci-devices": _pci_devices,
    "parse-lldp": _parse_lldp,
}
NEEDS: Mapping[str, tuple[str, ...]] = {"ports": ("validate-interfaces",)}
