"""Results derived from a machine's inventory, reported by a BMC or an agent.

An inventory has the form in which ironic-python-agent sends it: ``interfaces``, ``cpu``,
``memory``, ``disks``, ``system_vendor``, ``boot`` ... `HOOKS` process it, under the names that
operators know from Ironic; nothing here touches a machine or a database.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import capabilities, lldp, root_device

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
        # The booting card may be unknown; then any card may be used.
        yield name, {**one, "mac_address": known, "pxe_enabled": boots in (None, known)}


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
        case.properties["capabilities"] = capabilities.put(known, "boot_mode", mode)


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
        if count or capabilities.get(known, name) is not None:
            known = capabilities.put(known, name, str(count))
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
    found = {name: lldp.parse(tlvs) for name, tlvs in heard.items()}
    case.plugin_data["parsed_lldp"] = {name: told for name, told in found.items() if told}


def _inventory_part(inventory: JsonView, name: str) -> JsonView:
    found = inventory.get(name)
    return found if isinstance(found, dict) else {}


HOOKS: Mapping[str, Hook] = MappingProxyType(
    {
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
)
NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType({"ports": ("validate-interfaces",)})
