"""Results derived from a machine's inventory, reported by a BMC or an agent.

An inventory has the form in which ironic-python-agent sends it: ``interfaces``, ``cpu``,
``memory``, ``disks``, ``system_vendor``, ``boot`` ... Hooks process it, under the names that
operators know from Ironic; nothing here touches a machine or a database. Those of this module, and
those of other packages, are entry points of the group ``ironic_lite.inspection.hooks``.
"""

from __future__ import annotations

import copy
import dataclasses
import ipaddress
import re
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import orjson

from ironic_lite import errors, records
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import lldp, root_device, vocabulary

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

ADD_PORTS = ("all", "active", "pxe", "disabled")
"""Network cards that become ports: all, with an IP address, the booting one, none."""

_MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")  # no group (IEEE 802), no broadcast
BMC_ADDRESSES = ("ipmi_address", "redfish_address")
"""Keys of ``driver_info`` with an address or a URL of the BMC."""
_NO_MAC = "00:00:00:00:00:00"
_LONGEST = 4096  # characters of a sentence that quotes a machine
_WORD = 255  # characters of a property
_MOST = 4096  # cards or disks: each may become a row, or part of a statement
_PXELINUX = re.compile(r"[0-9a-f]{2}-(?P<mac>[0-9a-f]{2}(-[0-9a-f]{2}){5})")


KEEP_PORTS = ("all", "present", "added")
"""Existing ports that stay: all, those with a card in the inventory, those that ADD_PORTS adds."""

CLIENT_ID = "client-id"
"""Key in a port's ``extra`` with the DHCP client identifier of its InfiniBand card."""

ACCELERATORS: Sequence[JsonView] = tuple(
    {"vendor_id": "10de", "device_id": device, "type": "GPU", "device_info": name}
    for device, name in (
        ("1eb8", "NVIDIA Corporation Tesla T4"),
        ("1df6", "NVIDIA Corporation GV100GL"),
        ("2236", "NVIDIA Corporation A10"),
        ("2235", "NVIDIA Corporation A40"),
        ("26b9", "NVIDIA Corporation L40S"),
        ("26ba", "NVIDIA Corporation L20"),
    )
)
"""The accelerators that are known without [inspector]known_accelerators."""


@dataclasses.dataclass(frozen=True, slots=True)
class HookOptions:
    """The options of the hooks of this module; the names are those of [inspector].

    ``aliases`` names PCI devices: ``{(vendor, product): name}``, each of four hexadecimal digits.
    """

    add_ports: str = "pxe"
    keep_ports: str = "all"
    update_pxe_enabled: bool = True
    disk_partitioning_spacing: bool = True
    cpu_capabilities: Mapping[str, str] = dataclasses.field(default_factory=dict)
    extra_hardware_strict: bool = False
    physical_networks: Sequence[tuple[IPNetwork, str]] = ()
    accelerators: Sequence[JsonView] = ACCELERATORS
    aliases: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)


class InspectedNode(NamedTuple):
    """Facts of the node that hooks may read."""

    uuid: str = ""
    name: str | None = None
    driver: str = ""
    owner: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class InspectedPort:
    """A port of the inspected node. Hooks may change all of it but the address."""

    address: str
    name: str | None = None
    pxe_enabled: bool = True
    physical_network: str | None = None
    local_link_connection: Json = dataclasses.field(default_factory=dict)
    category: str | None = None
    extra: Json = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class Case:
    """An inspected machine, and the results of the hooks so far.

    ``inventory``, ``node`` and ``options`` are for reading. Hooks change ``plugin_data``, the
    node's fields ``properties``, ``extra``, ``resource_class`` and ``traits``, and ``ports``: those
    of the node, by address. A new entry becomes a port; a port whose entry is removed goes.
    ``remarks`` are sentences for the log. ``incomplete``: the inventory may lack network cards.

    All changes are stored after the last hook, or none of them.
    """

    inventory: JsonView
    plugin_data: Json
    properties: Json
    options: HookOptions = dataclasses.field(default_factory=HookOptions)
    node: InspectedNode = dataclasses.field(default_factory=InspectedNode)
    extra: Json = dataclasses.field(default_factory=dict)
    resource_class: str | None = None
    traits: set[str] = dataclasses.field(default_factory=set)
    ports: dict[str, InspectedPort] = dataclasses.field(default_factory=dict)
    remarks: list[str] = dataclasses.field(default_factory=list)
    incomplete: bool = False


class InspectionHook:
    """A part of the processing of an inventory; one object serves all nodes and keeps no state."""

    dependencies: ClassVar[Sequence[str]] = ()
    """Names of hooks that run before this one; they are added where they are not listed."""

    def preprocess(self, case: Case) -> None:
        """Prepare or refuse the data, before `run` of any hook."""

    def run(self, case: Case) -> None:
        """Process the inventory, and change the case.

        An exception fails the inspection; its text is shown to the owner of the node.
        """


def run(hooks: Mapping[str, InspectionHook], case: Case) -> Case:
    """Run hooks over a case, in this order.

    :raises errors.HardwareError: a hook has failed, or its result cannot be stored; the text begins
        with "hook" and the name.
    """
    for stage in (InspectionHook.preprocess, InspectionHook.run):
        for name, hook in hooks.items():
            try:
                getattr(hook, stage.__name__)(case)
                _check_result(case)
            except Exception as why:  # hooks of other packages may raise anything
                reason = f"hook {name}: {_words(why)}"[:_LONGEST]
                raise errors.HardwareError(reason=reason) from why
    return case


def _words(why: Exception) -> str:
    if isinstance(why, errors.Error):
        return why.message
    return f"{type(why).__name__}: {why}" if str(why) else type(why).__name__


_PORT_LENGTHS = {"name": _WORD, "physical_network": 64, "category": 80}


def _check_result(case: Case) -> None:
    """Refuse results that cannot be stored.

    :raises errors.InvalidParameter: naming the value.
    """
    for name in ("properties", "extra", "plugin_data"):
        _check_object(name, getattr(case, name))
    _check_text("resource_class", case.resource_class, 80)
    for trait in case.traits:
        good = isinstance(trait, str) and vocabulary.TRAIT.fullmatch(trait)
        reason = f"{str(trait)[:80]!r} is not a trait: use CUSTOM_A, or a standard one"
        _require(good, "traits", reason)
    for key, port in case.ports.items():
        path = f"ports/{key!s:.40}"
        _require(isinstance(port, InspectedPort), path, "must be an InspectedPort")
        _require(isinstance(key, str) and key == port.address, path, "must be the port's address")
        _require(isinstance(port.pxe_enabled, bool), f"{path}/pxe_enabled", "must be true or false")
        for name, most in _PORT_LENGTHS.items():
            _check_text(f"{path}/{name}", getattr(port, name), most)
        for name in ("extra", "local_link_connection"):
            _check_object(f"{path}/{name}", getattr(port, name))


def _check_object(path: str, value: object) -> None:
    _require(isinstance(value, dict), path, "must be an object")
    try:
        orjson.dumps(value)
    except TypeError as why:
        _require(False, path, f"has no form in JSON: {why}")


def _check_text(path: str, value: object, most: int) -> None:
    good = value is None or (isinstance(value, str) and 0 < len(value) <= most)
    _require(good, path, f"must be text of {most} characters at most, or None")


def _require(good: object, path: str, reason: str) -> None:
    if not good:
        raise errors.InvalidParameter(path=path, reason=reason)


# -- ports after the hooks -----------------------------------------------------------------------


class PortChanges(NamedTuple):
    """Changes of a node's ports.

    ``changed`` has the new values of columns by the UUID of the port, ``remarks`` sentences about
    changes that are not made.
    """

    added: list[InspectedPort]
    changed: dict[str, Json]
    removed: list[records.Port]
    remarks: list[str]


def inspected(port: records.Port) -> InspectedPort:
    """Return a port of a node as hooks get it."""
    shown = (each.name for each in dataclasses.fields(InspectedPort))
    return InspectedPort(**copy.deepcopy({name: getattr(port, name) for name in shown}))


def port_changes(
    known: Iterable[records.Port], wanted: Mapping[str, InspectedPort], *, busy: Collection[str]
) -> PortChanges:
    """Compare the ports of a node with those that the hooks have left.

    :param busy: UUIDs of portgroups that an instance uses.
    """
    changes = PortChanges([], {}, [], [])
    before = {port.address: port for port in known}
    for mac, one in wanted.items():
        if mac not in before and address(mac) == mac:
            changes.added.append(one)
        elif mac not in before:
            remark = f"no port is added for a network card with the address {mac[:40]!r}"
            changes.remarks.append(remark)
    for mac, port in before.items():
        why = None if mac in wanted else _use_of(port, busy)
        if why is not None:
            changes.remarks.append(f"port {port.uuid} ({mac}) is not removed: {why}")
        elif mac not in wanted:
            changes.removed.append(port)
        elif found := _changed_columns(port, wanted[mac], changes.remarks):
            changes.changed[port.uuid] = found
    return changes


def _changed_columns(port: records.Port, wanted: InspectedPort, remarks: list[str]) -> Json:
    names = (each.name for each in dataclasses.fields(InspectedPort))
    after = {name: getattr(wanted, name) for name in names}
    found = {name: value for name, value in after.items() if value != getattr(port, name)}
    if port.portgroup_uuid is not None and "physical_network" in found:
        del found["physical_network"]
        remarks.append(f"port {port.uuid} is in a portgroup: its physical network stays")
    return found


def _use_of(port: records.Port, busy: Collection[str]) -> str | None:
    if port.internal_info.get(records.VIF):
        return "a VIF is attached to it"
    return "its portgroup is in use" if port.portgroup_uuid in busy else None


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
    found = (address(card.get("mac_address")) for card in _cards(inventory))
    return [mac for mac in found if mac is not None]


def _cards(inventory: JsonView) -> Iterator[JsonView]:
    """Yield the objects in the list of network cards."""
    listed = inventory.get("interfaces")
    return (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict))


def bmc_addresses(inventory: JsonView) -> frozenset[str]:
    """Return the IP addresses of the machine's BMC, in their shortest form."""
    told = (_read_ip(inventory.get(name)) for name in ("bmc_address", "bmc_v6address"))
    return frozenset(str(one) for one in told if one is not None and not one.is_unspecified)


def bmc_host(address: str) -> str | None:
    """Return the host in the value of one of `BMC_ADDRESSES`, None without one."""
    text = address.strip()
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        pass  # a name, or a URL
    try:
        parts = urllib.parse.urlsplit(text if "//" in text else f"//{text}")
    except ValueError:
        return None
    # A login with a slash ends the host too early, so the host would be a part of the login.
    return None if "@" in "".join(parts[2:]) else parts.hostname


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


class RamdiskErrorHook(InspectionHook):
    """Fails the inspection with the error of the ramdisk."""

    def preprocess(self, case: Case) -> None:
        told = case.plugin_data.get("error")
        if told:
            words = str(told)[:_LONGEST]
            raise errors.HardwareError(reason=f"The ramdisk reports an error: {words}")


class ValidateInterfacesHook(InspectionHook):
    """Chooses the cards.

    ``plugin_data`` gets them as ``all_interfaces`` and ``valid_interfaces`` by name, and as
    ``macs``.
    """

    def preprocess(self, case: Case) -> None:
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
                reason=f"None of the network interfaces {names} matches [inspector]add_ports, "
                f"which is {case.options.add_ports}."
            )
        case.plugin_data["all_interfaces"] = every
        case.plugin_data["valid_interfaces"] = valid
        case.plugin_data["macs"] = [one["mac_address"] for one in valid.values()]


_INTERFACES_FIRST = ("validate-interfaces",)


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
    found = _ip_addresses(one)
    if name == "lo" or any(each.is_loopback for each in found):
        return False
    if case.options.add_ports == "active":
        return bool(found)
    return case.options.add_ports != "pxe" or bool(one["pxe_enabled"])


_IP_KEYS = ("ipv4_address", "ipv6_address")


def _ip_addresses(card: JsonView) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    return [found for key in _IP_KEYS if (found := _read_ip(card.get(key))) is not None]


def _read_ip(value: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(value.partition("%")[0]) if isinstance(value, str) else None
    except ValueError:
        return None


def _ports_of_cards(case: Case) -> Iterable[tuple[str, JsonView, InspectedPort]]:
    """Yield name, entry and port of each card that has a port."""
    for name, one in case.plugin_data["all_interfaces"].items():
        port = case.ports.get(one["mac_address"])
        if port is not None:
            yield name, one, port


class PortsHook(InspectionHook):
    """Adds a port for each chosen card; updates or removes other ports as options say."""

    dependencies = _INTERFACES_FIRST

    def run(self, case: Case) -> None:
        """Change the ports."""
        options, valid = case.options, case.plugin_data["valid_interfaces"].values()
        self._remove(case, {one["mac_address"] for one in valid})
        if options.update_pxe_enabled and _knows_boot_card(case.inventory):
            every = case.plugin_data["all_interfaces"].values()
            boots = {one["mac_address"] for one in every if one["pxe_enabled"]}
            for port in case.ports.values():
                port.pxe_enabled = port.address in boots
        for one in valid if options.add_ports != "disabled" else ():
            mac = one["mac_address"]
            case.ports.setdefault(mac, InspectedPort(address=mac, pxe_enabled=one["pxe_enabled"]))
        for _name, one, port in _ports_of_cards(case):
            client = one.get("client_id")
            if isinstance(client, str) and 0 < len(client) <= _WORD:
                port.extra[CLIENT_ID] = client

    def _remove(self, case: Case, chosen: Collection[str]) -> None:
        if case.options.keep_ports == "all":
            return
        every = {one["mac_address"] for one in case.plugin_data["all_interfaces"].values()}
        wanted = every if case.options.keep_ports == "present" else chosen
        gone = [mac for mac in case.ports if mac not in wanted]
        if gone and case.incomplete:
            case.remarks.append(
                f"No port is removed: a part of the machine could not be read, which may have "
                f"the cards {', '.join(gone)[:_LONGEST]}"
            )
            return
        for mac in gone:
            del case.ports[mac]


def _knows_boot_card(inventory: JsonView) -> bool:
    """Return whether the booting card is known, or a BMC tells of each card."""
    told = any(isinstance(one.get("pxe_enabled"), bool) for one in _cards(inventory))
    return told or boots_from(inventory) is not None


class LocalLinkConnectionHook(InspectionHook):
    """Writes the switch port of each card, as LLDP reports it; keys that are set stay."""

    dependencies = _INTERFACES_FIRST

    def run(self, case: Case) -> None:
        """Change ``local_link_connection`` of the ports."""
        parsed = case.plugin_data.get("parsed_lldp")
        frames = dict(parsed) if isinstance(parsed, dict) else {}
        frames |= {name: lldp.parse(tlvs) for name, tlvs in _lldp_frames(case).items()}
        for name, _one, port in _ports_of_cards(case):
            frame = frames.get(name)
            facts = _switch_port(frame if isinstance(frame, dict) else {})
            if not facts:
                case.remarks.append(f"No switch is known by LLDP for the card {name:.80}")
            port.local_link_connection = {**facts, **port.local_link_connection}


def _switch_port(frame: JsonView) -> Json:
    """Return the facts of a frame under the names of ``local_link_connection``."""
    found = {
        "port_id": frame.get("switch_port_id"),
        "switch_id": address(frame.get("switch_chassis_id")),
        "switch_info": frame.get("switch_system_name"),
    }
    return {
        key: text
        for key, text in found.items()
        if isinstance(text, str) and 0 < len(text) <= lldp.LONGEST
    }


class PhysicalNetworkHook(InspectionHook):
    """Writes the physical network of each port by the addresses of its card."""

    dependencies = _INTERFACES_FIRST

    def run(self, case: Case) -> None:
        """Change ``physical_network`` of the ports whose card is in a known network."""
        for _name, one, port in _ports_of_cards(case):
            named = (
                network
                for known in _ip_addresses(one)
                for subnet, network in case.options.physical_networks
                if known in subnet
            )
            port.physical_network = next(named, port.physical_network)


class ArchitectureHook(InspectionHook):
    """Writes ``cpu_arch``."""

    def run(self, case: Case) -> None:
        found = _inventory_part(case.inventory, "cpu").get("architecture")
        _put_property(case, "cpu_arch", found)


class MemoryHook(InspectionHook):
    """Writes ``memory_mb``."""

    def run(self, case: Case) -> None:
        found = _inventory_part(case.inventory, "memory").get("physical_mb")
        _put_property(case, "memory_mb", found)


class CpusHook(InspectionHook):
    """Writes ``cpus``."""

    def run(self, case: Case) -> None:
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


def _put_capabilities(case: Case, found: Mapping[str, str]) -> None:
    known = case.properties.get("capabilities")
    for name, value in found.items():
        known = vocabulary.put_capability(known, name, value)
    if known:
        case.properties["capabilities"] = known


class BootModeHook(InspectionHook):
    """Writes the capability ``boot_mode``."""

    def run(self, case: Case) -> None:
        mode = _inventory_part(case.inventory, "boot").get("current_boot_mode")
        if mode in ("bios", "uefi"):
            _put_capabilities(case, {"boot_mode": mode})


class CpuCapabilitiesHook(InspectionHook):
    """Writes a capability for each known flag of the processor."""

    def run(self, case: Case) -> None:
        flags = _inventory_part(case.inventory, "cpu").get("flags")
        if not isinstance(flags, list) or not flags:
            case.remarks.append("The inventory does not have the flags of the processor")
            return
        known = case.options.cpu_capabilities.items()
        _put_capabilities(case, {name: "true" for flag, name in known if flag in flags})


class RootDeviceHook(InspectionHook):
    """Writes ``local_gb``, the size of the instance's disk, chosen by hints or by the ramdisk."""

    def run(self, case: Case) -> None:
        hints = case.properties.get("root_device")
        if isinstance(hints, dict) and hints:
            chosen = _hinted_disks(case, hints)
        else:
            told = case.plugin_data.get("root_disk")
            chosen = told if isinstance(told, dict) else {}
        size = chosen.get("size")
        if isinstance(size, int) and size >= root_device.GIB:
            spacing = int(case.options.disk_partitioning_spacing)
            case.properties["local_gb"] = size // root_device.GIB - spacing
        else:
            case.remarks.append(
                "The disk for instances is not known, or has no size: local_gb stays"
            )


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


class RaidDeviceHook(InspectionHook):
    """Makes a disk that the last inspection did not see the root device."""

    def run(self, case: Case) -> None:
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


def _pci_devices(case: Case) -> list[tuple[tuple[str, str], Json]] | None:
    """Return the PCI devices of a report with vendor and product, None if there is no list."""
    listed = case.plugin_data.get("pci_devices")
    if not isinstance(listed, list):
        case.remarks.append(
            "The ramdisk reports no PCI devices: its collector pci-devices is not on"
        )
        return None
    return [
        ((str(one.get("vendor_id")).lower(), str(one.get("product_id")).lower()), one)
        for one in listed
        if isinstance(one, dict)
    ]


class PciDevicesHook(InspectionHook):
    """Counts the named PCI devices as capabilities; zeroes those of missing devices."""

    def run(self, case: Case) -> None:
        listed = _pci_devices(case)
        if listed is None:
            return
        aliases = case.options.aliases
        counts: dict[str, int] = dict.fromkeys(aliases.values(), 0)
        for ids, _one in listed:
            if ids in aliases:
                counts[aliases[ids]] += 1
        known = case.properties.get("capabilities")
        shown = {
            name: str(count)
            for name, count in counts.items()
            if count or vocabulary.get_capability(known, name) is not None
        }
        _put_capabilities(case, shown)


class AcceleratorsHook(InspectionHook):
    """Writes ``accelerators``: the known ones among the PCI devices, with their addresses."""

    def run(self, case: Case) -> None:
        listed = _pci_devices(case)
        if listed is None:
            return
        known = {(one["vendor_id"], one["device_id"]): one for one in case.options.accelerators}
        case.properties["accelerators"] = [
            {**known[ids], "pci_address": one.get("bus")} for ids, one in listed if ids in known
        ]


class ParseLldpHook(InspectionHook):
    """Parses the frames of switches: ``plugin_data`` gets ``parsed_lldp``, by card."""

    def run(self, case: Case) -> None:
        found = {name: lldp.parse(tlvs) for name, tlvs in _lldp_frames(case).items()}
        case.plugin_data["parsed_lldp"] = {name: told for name, told in found.items() if told}


def _lldp_frames(case: Case) -> Json:
    raw = case.plugin_data.get("lldp_raw")
    heard = dict(raw) if isinstance(raw, dict) else {}
    for one in _cards(case.inventory):
        if one.get("lldp") and isinstance(one.get("name"), str):
            heard.setdefault(one["name"], one["lldp"])
    return heard


class ExtraHardwareHook(InspectionHook):
    """Puts the lists of hardware-detect in order: ``plugin_data/extra`` instead of ``data``."""

    def run(self, case: Case) -> None:
        listed, strict = case.plugin_data.get("data"), case.options.extra_hardware_strict
        if not isinstance(listed, list) or not all(
            isinstance(one, list) and (not strict or len(one) == _EXTRA_SIZE) for one in listed
        ):
            case.remarks.append(
                "The ramdisk reports no extra hardware data in the form of lists: is its collector "
                "extra-hardware on?"
            )
            if strict:
                case.plugin_data.pop("data", None)
            return
        found: dict[str, dict[str, Json]] = {}
        odd = 0
        for one in listed:
            if len(one) >= _EXTRA_SIZE and all(isinstance(word, str) for word in one[:3]):
                kind, item, name = one[:3]
                found.setdefault(kind, {}).setdefault(item, {})[name] = _as_number(one[3])
            else:
                odd += bool(one)
        if odd:
            case.remarks.append(f"{odd} entries of the extra hardware data are left out")
        case.plugin_data["extra"] = found
        del case.plugin_data["data"]


_EXTRA_SIZE = 4  # kind, item, name, value
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)  # fits into 64 bits


def _as_number(value: object) -> object:
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) else value


def _inventory_part(inventory: JsonView, name: str) -> JsonView:
    found = inventory.get(name)
    return found if isinstance(found, dict) else {}
