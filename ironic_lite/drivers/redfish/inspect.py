"""Inspection by Redfish: the inventory of a machine from its BMC's documents.

The machine may be off.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Self

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.domain import inspection, vocabulary
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import boot, hardware
from ironic_lite.drivers.redfish.bmc import connection, quirks, resources, transport

LOG = logging.getLogger(__name__)

# Parsing of a BMC's documents into an inventory in the format of ironic-python-agent.
#
# Pure functions over JSON (DMTF DSP0268: ComputerSystem, Processor, Memory, EthernetInterface,
# Drive, Volume, PCIeFunction, Port). Missing values and values of a wrong type are left out.

GIB = 1024**3

SMALLEST_DISK = 4 * GIB
"""Least size in bytes of a disk that an image fits on."""

ARCHITECTURES: Mapping[str, str] = {
    "x86": "i686",
    "x86-64": "x86_64",
    "IA-64": "ia64",
    "ARM-A32": "arm",
    "ARM-A64": "aarch64",
    "MIPS32": "mips",
    "MIPS64": "mips64",
    "RV32": "riscv32",
    "RV64": "riscv64",
}
"""Architecture names by InstructionSet of a Processor."""

FAMILIES: Mapping[str, str] = {"x86": "x86_64", "ARM": "aarch64", "IA-64": "ia64"}
"""Architecture names by ProcessorArchitecture, for BMCs that report no InstructionSet."""

MODELS: Mapping[str, str] = {
    r"\b(EPYC|Xeon|Opteron)\b": "x86_64",
    r"\b(ARMv[89]|Grace|Neoverse|Ampere)\b": "aarch64",
}
"""Architecture names by a processor's model, for BMCs that report neither."""

_LARGEST = 2**63 - 1


# -- the whole machine ---------------------------------------------------------------------------


def parse_maker(system: Json) -> Json:
    """Return ``system_vendor``: names, serial number and firmware."""
    version = resources.text(system, "BiosVersion")
    return _known_facts(
        product_name=resources.text(system, "Model"),
        serial_number=resources.text(system, "SerialNumber"),
        manufacturer=resources.text(system, "Manufacturer"),
        system_uuid=resources.text(system, "UUID"),
        firmware=None if version is None else {"version": version},
    )


def parse_boot(system: Json) -> Json:
    """Return ``boot`` with the boot mode; no BMC reports the card that the machine booted from."""
    word = resources.text(system, "Boot", "BootSourceOverrideMode")
    return {"current_boot_mode": boot.MODE_NAMES.get(word or ""), "pxe_interface": None}


def parse_memory(system: Json, modules: Iterable[Json]) -> Json:
    """Return ``memory``, {} if the size is unknown; modules are read only without a summary."""
    size = resources.number(system, "MemorySummary", "TotalSystemMemoryGiB")
    megabytes = _read_integer(None if size is None else size * 1024)
    if not megabytes:
        sizes = (
            _read_integer(resources.number(each, "CapacityMiB"))
            for each in modules
            if _is_present(each)
        )
        megabytes = sum(size for size in sizes if size)
    return {"physical_mb": megabytes, "total": megabytes * 1024**2} if megabytes else {}


def parse_cpu(system: Json, processors: Iterable[Json]) -> Json:
    """Return ``cpu``: model and architecture of the first processor, and threads of all."""
    found = [each for each in processors if _is_present(each) and _is_cpu(each)]
    first: Json = found[0] if found else {}
    model = resources.text(first, "Model") or resources.text(system, "ProcessorSummary", "Model")
    return _known_facts(
        count=_total_threads(found) or _summary_memory(system),
        architecture=_architecture(first, model),
        model_name=model,
        frequency=resources.number(first, "MaxSpeedMHz"),
    )


def _architecture(processor: Json, model: str | None) -> str | None:
    word = resources.text(processor, "InstructionSet") or ""
    family = resources.text(processor, "ProcessorArchitecture") or ""
    named = (name for pattern, name in MODELS.items() if re.search(pattern, model or "", re.I))
    return ARCHITECTURES.get(word) or FAMILIES.get(family) or next(named, None)


def _is_cpu(processor: Json) -> bool:
    """Return whether this processor is a CPU, not a GPU or an FPGA."""
    return (resources.text(processor, "ProcessorType") or "CPU") == "CPU"


def _total_threads(processors: Sequence[Json]) -> int | None:
    """Return the total of threads or else of cores; None unless all processors report it."""
    for name in ("TotalThreads", "TotalCores"):
        counts = [_read_integer(resources.number(each, name)) for each in processors]
        if counts and all(counts):
            return sum(count for count in counts if count)
    return None


def _summary_memory(system: Json) -> int | None:
    for name in ("LogicalProcessorCount", "CoreCount", "Count"):
        count = _read_integer(resources.number(system, "ProcessorSummary", name))
        if count:
            return count
    return None


# -- network cards -------------------------------------------------------------------------------


def parse_interfaces(cards: Iterable[Json], *, disabled: bool = False) -> list[Json]:
    """Return ``interfaces`` from EthernetInterface documents; each address once.

    :param disabled: take the cards that are disabled, unless a setting has disabled them.
    """
    found: dict[str, Json] = {}
    for card in cards:
        address = _mac_address(card) if _is_enabled(card, disabled=disabled) else None
        if address is not None and address not in found:
            found[address] = _known_facts(
                name=resources.text(card, "Id") or address,
                mac_address=address,
                speed_mbps=_read_integer(resources.number(card, "SpeedMbps")),
                has_carrier=_has_carrier(resources.text(card, "LinkStatus")),
                ipv4_address=_ip_address(card, "IPv4Addresses"),
                ipv6_address=_ip_address(card, "IPv6Addresses"),
            )
    return list(found.values())


def cards_without_address(cards: Iterable[Json]) -> list[str]:
    """Return the enabled cards among EthernetInterface documents that have no possible address."""
    bare = (one for one in cards if _is_enabled(one, disabled=False) and not _mac_address(one))
    return [resources.text(card, "Id") or "a card without an Id" for card in bare]


def _is_enabled(card: Json, *, disabled: bool) -> bool:
    state = resources.text(card, "Status", "State")
    set_off = resources.value(card, "InterfaceEnabled") is False
    return state != "Absent" and (state != "Disabled" or (disabled and not set_off))


def _mac_address(card: Json) -> str | None:
    """Return the first possible MAC address of a card.

    The address lists are those of a Port, of a NetworkPort, and of ports of old BMCs.
    """
    told = [resources.value(card, name) for name in ("MACAddress", "PermanentMACAddress")]
    for name in ("AssociatedMACAddresses", "AssociatedNetworkAddresses"):
        listed = resources.value(card, name)
        told += listed if isinstance(listed, list) else [listed]
    return next((known for one in told if (known := _possible_address(one))), None)


def _possible_address(value: object) -> str | None:
    """Return a MAC address; some BMCs write it without separators."""
    text = value.strip() if isinstance(value, str) else ""
    bare = re.fullmatch(r"[0-9A-Fa-f]{12}", text)
    return inspection.address(":".join(re.findall("..", text)) if bare else text)


def parse_functions(found: Iterable[Json]) -> list[Json]:
    """Return ``interfaces`` from NetworkDeviceFunction or Port documents, with nested addresses."""
    return parse_interfaces(map(_flat_card, found))


def _flat_card(document: Json) -> Json:
    """Return a NetworkDeviceFunction, Port or NetworkPort in the form of an EthernetInterface."""
    inside = resources.value(document, "Ethernet")
    gigabits = resources.number(document, "CurrentSpeedGbps")
    speed = {} if gigabits is None else {"SpeedMbps": gigabits * 1000}
    return {**speed, **(inside if isinstance(inside, dict) else {}), **document}


def is_ethernet(document: Json) -> bool:
    """Return whether a function or port may have a MAC address, as Fibre Channel has none."""
    kinds = ("NetDevFuncType", "PortProtocol", "ActiveLinkTechnology", "LinkNetworkTechnology")
    told = {word for name in kinds if (word := resources.text(document, name))}
    return _is_enabled(document, disabled=False) and (not told or "Ethernet" in told)


def number_equal_names(found: Iterable[tuple[str, Json]]) -> list[Json]:
    """Return ``interfaces`` of several adapters, each address and each name once.

    :param found: the adapter's name and an entry. Many adapters call their first function ``1``.
    """
    kept: dict[str, Json] = {}
    for adapter, card in found:
        names = {one["name"] for one in kept.values()}
        name = card["name"] if card["name"] not in names else f"{adapter} {card['name']}"
        kept.setdefault(card["mac_address"], {**card, "name": name})
    return list(kept.values())


def parse_neighbour(port: Json) -> Json:
    """Return the switch that a Port sees by LLDP (Ethernet.LLDPReceive), or {}."""
    heard = resources.value(port, "Ethernet", "LLDPReceive")
    vlan = resources.number(heard, "ManagementVlanId")
    return _known_facts(
        switch_chassis_id=resources.text(heard, "ChassisId"),
        switch_port_id=resources.text(heard, "PortId"),
        switch_system_name=resources.text(heard, "SystemName"),
        switch_system_description=resources.text(heard, "SystemDescription"),
        switch_vlan_id=_read_integer(vlan),
    )


def _ip_address(card: Json, name: str) -> str | None:
    found = (resources.text(entry, "Address") for entry in resources.entries(card, name))
    return next((each for each in found if each and each not in {"0.0.0.0", "::"}), None)


def _has_carrier(word: str | None) -> bool | None:
    return None if word is None else word in {"LinkUp", "Up"}


# -- disks ---------------------------------------------------------------------------------------


def parse_disk(drive: Json) -> Json | None:
    """Return an entry of ``disks`` from a Drive or SimpleStorage device; None for an empty bay."""
    size = _read_integer(resources.number(drive, "CapacityBytes"))
    if not size or not _is_present(drive):
        return None
    kind = resources.text(drive, "MediaType")
    return _known_facts(
        name=resources.text(drive, "Name") or resources.text(drive, "Id") or "disk",
        size=size,
        model=resources.text(drive, "Model"),
        vendor=resources.text(drive, "Manufacturer"),
        serial=resources.text(drive, "SerialNumber"),
        rotational={"HDD": True, "SSD": False}.get(kind or ""),
        wwn=_drive_wwn(drive),
    )


def parse_volume(document: Json, drives: Mapping[str, Json]) -> Json | None:
    """Return a volume as ``{"name", "size", "raid_type", "wwn", "members"}``; None without a size.

    :param drives: the drives of its controller by path. Spares are no members.
    """
    size = _read_integer(resources.number(document, "CapacityBytes"))
    if not size or not _is_present(document):
        return None
    name = resources.text(document, "Name") or resources.text(document, "Id")
    linked = (resources.text(one, "@odata.id") for one in resources.entries(document, *_MEMBERS))
    found = [drives[path.rstrip("/")] for path in linked if path and path.rstrip("/") in drives]
    members = [
        _known_facts(serial=resources.text(one, "SerialNumber"), wwn=_drive_wwn(one))
        for one in found
        if not _is_spare(one)
    ]
    return _known_facts(
        name=name,
        size=size,
        raid_type=resources.text(document, "RAIDType"),
        wwn=_drive_wwn(document),
        members=members,
    )


_MEMBERS = ("Links", "Drives")


def _is_spare(drive: Json) -> bool:
    """Return whether a drive is a hot spare; before schema 1.5 only its indicator reports it."""
    spare = resources.text(drive, "HotspareType") or "None"
    return spare != "None" or resources.text(drive, "StatusIndicator") == "Hotspare"


def local_gb(devices: Iterable[int], drives: Iterable[int], volumes: Iterable[int]) -> int | None:
    """Return the GiB of the disk that an image is likely to be written to; None without disks.

    It is the smallest disk of at least 4 GiB: among volumes, else among drives; a smaller one of
    SimpleStorage wins. One GiB is reserved for data beside the image.

    :param devices, drives, volumes: sizes in bytes, of SimpleStorage and of Storage.
    """
    best = _smallest_size(volumes) or _smallest_size(drives)
    sizes = [size for size in (_smallest_size(devices), best) if size]
    return min(sizes) // GIB - 1 if sizes else None


def _smallest_size(sizes: Iterable[int]) -> int | None:
    return min((size for size in sizes if size >= SMALLEST_DISK), default=None)


def _drive_wwn(drive: Json) -> str | None:
    for one in resources.entries(drive, "Identifiers"):
        name = (resources.text(one, "DurableName") or "").lower()
        if name and resources.text(one, "DurableNameFormat") in {"NAA", "EUI", "NGUID"}:
            return f"0x{name.removeprefix('naa.').removeprefix('0x')}"
    return None


# -- PCI -----------------------------------------------------------------------------------------


def parse_pci(function: Json) -> Json:
    """Return an entry of ``pci_devices`` from a PCIeFunction, with hex numbers without 0x."""
    return _known_facts(
        vendor_id=_read_hex(function, "VendorId"),
        product_id=_read_hex(function, "DeviceId"),
        subsystem_vendor_id=_read_hex(function, "SubsystemVendorId"),
        subsystem_id=_read_hex(function, "SubsystemId"),
        revision=_read_hex(function, "RevisionId"),
        **{"class": resources.text(function, "DeviceClass")},
    )


def _read_hex(document: Json, name: str) -> str | None:
    found = resources.text(document, name)
    return found.lower().removeprefix("0x") if found else None


# -- helpers -------------------------------------------------------------------------------------


def _is_present(document: Json) -> bool:
    """Return whether the part is present, because BMCs also list empty slots."""
    return resources.text(document, "Status", "State") != "Absent"


def _known_facts(**facts: object) -> Json:
    """Return the facts without unknown ones."""
    return {name: fact for name, fact in facts.items() if fact is not None}


def _read_integer(found: int | float | None) -> int | None:
    """Return an integer, None if the value is not a number or is implausibly large."""
    return int(found) if found is not None and 0 <= found <= _LARGEST else None


# Reading of all inventory documents of a machine, within limits on number and time.
#
# An unreadable part loses only itself: many BMCs answer 500 for one document of a hundred, and some
# do not know their network cards while the machine is off. The result names the missing parts.

MOST_DOCUMENTS = 2000
"""Document limit of one inspection; a larger number is a fault of the BMC."""

MOST_BYTES = 128 * 1024 * 1024
"""Memory limit of all documents together, which are kept until the end of the inspection. One BMC
could otherwise take all memory of the conductor."""

MOST_TOGETHER = 512 * 1024 * 1024
"""Memory limit of the documents of all inspections of this process, without `FREE_BYTES` of each,
because one owner may have the BMCs of many nodes."""

FREE_BYTES = 16 * 1024 * 1024

SURVEY_SECONDS = 1800.0
"""Time limit in seconds for all documents together."""

MOST_FAILURES = 3
"""Unreadable documents of one list, after which its other documents are skipped, because each one
costs several attempts."""


class _Together:
    """The bytes that all surveys of this process have beyond their free ones."""

    def __init__(self) -> None:
        self._taken = 0
        self._guard = threading.Lock()

    def take(self, count: int) -> bool:
        """Take bytes; return whether there were so many."""
        with self._guard:
            free = self._taken + count <= MOST_TOGETHER
            self._taken += count if free else 0
            return free

    def give_back(self, count: int) -> None:
        """Free bytes."""
        with self._guard:
            self._taken -= count


_TOGETHER = _Together()


class Survey:
    """The parts of one machine, read on demand; a context that frees their memory at its end.

    ``faults`` are sentences about parts that could not be read, ``remarks`` about other ones.

    :raises errors.HardwareError: the system itself cannot be read; see `connection.call`.
    """

    def __init__(self, task: base.Task) -> None:
        self.task = task
        self.faults: list[str] = []
        self.remarks: list[str] = []
        self.disks_told = True
        self._address = connection.settings(task).address
        self._listed: dict[str, list[Json]] = {}
        self._left = MOST_DOCUMENTS
        self._room = MOST_BYTES
        self._shared = 0
        self._crowded = False
        self._until = time.monotonic() + SURVEY_SECONDS
        self.system = resources.system(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _TOGETHER.give_back(self._shared)
        self._shared = 0

    def take(self) -> tuple[Json, Json, int | None]:
        """Return inventory, plug-in data, and the size in GiB of the disk for an image.

        :raises errors.HardwareError: the BMC stopped answering, or its lists have no end.
        """
        processors = self._collection_members("Processors", self.system)
        inventory: Json = {
            "cpu": parse_cpu(self.system, processors),
            "memory": self._read_memory(),
            "system_vendor": parse_maker(self.system),
            "boot": parse_boot(self.system),
            "interfaces": self.interfaces(),
        }
        told = any(resources.text(one, "InstructionSet") for one in processors)
        if "architecture" in inventory["cpu"] and not told:
            quirks.NO_INSTRUCTION_SET.log(f"Node {self.task.node.uuid}")
        local_gb = self._read_disks(inventory)
        inventory["pci_devices"] = [found for found in map(parse_pci, self._pci_devices()) if found]
        inventory |= self._bmc_addresses()
        hostname = resources.text(self.system, "HostName")
        if hostname:
            inventory["hostname"] = hostname
        heard = self._lldp_neighbours()
        return inventory, ({"parsed_lldp": heard} if heard else {}), local_gb

    # -- parts ------------------------------------------------------------------------------

    def _read_memory(self) -> Json:
        told = parse_memory(self.system, ())
        return told or parse_memory(self.system, self._collection_members("Memory", self.system))

    def interfaces(self) -> list[Json]:
        """Return the network cards with the MAC address of the first source that has one.

        The sources are EthernetInterfaces, and each adapter's functions or else its ports.
        """
        cards = self._collection_members("EthernetInterfaces", self.system)
        found, bare = parse_interfaces(cards), cards_without_address(cards)
        if found and not bare:
            return found
        own = [("", card) for card in found]
        every = number_equal_names([*own, *self._adapter_cards(name_bare=not cards)])
        # Some BMCs report all cards as disabled while the machine is off.
        if not every and (every := parse_interfaces(cards, disabled=True)):
            quirks.CARDS_OFF.log(f"Node {self.task.node.uuid}")
        if len(every) - len(found) < len(bare):
            self._remark_bare("EthernetInterfaces", bare)
        return every

    def _adapter_cards(self, *, name_bare: bool) -> Iterator[tuple[str, Json]]:
        """Yield the adapter's name and an entry of ``interfaces``, for each card of each adapter.

        :param name_bare: remark on adapters without an address.
        """
        for adapter in self._network_adapters:
            name = resources.text(adapter, "Id") or "adapter"
            ethernet = False
            for source in ("NetworkDeviceFunctions", "Ports", "NetworkPorts"):
                members = self._adapter_members(source, adapter)
                ethernet |= any(map(is_ethernet, members))
                if cards := parse_functions(members):
                    yield from ((name, card) for card in cards)
                    break
            else:
                if name_bare and ethernet:
                    self._remark_bare("NetworkAdapters", [name])

    def _adapter_members(self, source: str, adapter: Json) -> list[Json]:
        """Return a list of an adapter; it is read once for addresses and switches together."""
        path = resources.link(adapter, source)
        if path is None:
            return []
        if path not in self._listed:
            self._listed[path] = self._collection_members(source, adapter)
        return self._listed[path]

    def _remark_bare(self, place: str, names: list[str]) -> None:
        listed = ", ".join(names)
        self.remarks.append(f"{place}: the BMC reports no possible MAC address of {listed}")

    def _read_disks(self, inventory: Json) -> int | None:
        """Read disks into the inventory; return the size of the one for an image."""
        before = len(self.faults)
        controllers = [
            self._read_controller(one) for one in self._collection_members("Storage", self.system)
        ]
        simple = self._collection_members("SimpleStorage", self.system)
        listed = (resources.entries(one, "Devices") for one in simple)
        devices = _known_only(map(parse_disk, (device for some in listed for device in some)))
        drives = [disk for one in controllers for disk in one["drives"]]
        volumes = [volume for one in controllers for volume in one["volumes"]]
        inventory["disks"] = drives or devices
        inventory["storage_controllers"] = controllers
        self.disks_told = len(self.faults) == before
        return local_gb(*([one["size"] for one in some] for some in (devices, drives, volumes)))

    def _read_controller(self, storage: Json) -> Json:
        drives = list(self._linked_documents("Drives", storage, "Drives"))
        volumes = self._collection_members("Volumes", storage)
        paths = {str(one.get("@odata.id")).rstrip("/"): one for one in drives}
        known = _known_only(parse_volume(one, paths) for one in volumes)
        return {
            **_known_facts(id=resources.text(storage, "Id"), name=resources.text(storage, "Name")),
            "drives": _known_only(map(parse_disk, drives)),
            "volumes": known,
        }

    def _pci_devices(self) -> Iterator[Json]:
        for device in self._linked_documents("PCIeDevices", self.system, "PCIeDevices"):
            yield from self._collection_members("PCIeFunctions", device)

    def _lldp_neighbours(self) -> Json:
        """Return the switches that network cards see by LLDP, by port name."""
        ports = (
            port for card in self._network_adapters for port in self._adapter_members("Ports", card)
        )
        found = ((resources.text(port, "Id"), parse_neighbour(port)) for port in ports)
        return {name: heard for name, heard in found if name and heard}

    @functools.cached_property
    def _network_adapters(self) -> list[Json]:
        chassis = self._linked_documents("Chassis", self.system, "Links", "Chassis")
        listed = (self._collection_members("NetworkAdapters", one) for one in chassis)
        found = [card for some in listed for card in some]
        # A NetworkInterface has the lists of its adapter.
        return found or self._collection_members("NetworkInterfaces", self.system)

    def _bmc_addresses(self) -> Json:
        """Return the BMC's addresses from driver_info, or else from its manager."""
        host = urllib.parse.urlsplit(self._address).hostname or ""
        try:
            known = ipaddress.ip_address(host)
        except ValueError:
            return self._told_addresses()
        six = isinstance(known, ipaddress.IPv6Address)
        return {"bmc_v6address" if six else "bmc_address": str(known)}

    def _told_addresses(self) -> Json:
        for manager in self._linked_documents("ManagedBy", self.system, "Links", "ManagedBy"):
            for card in self._collection_members("EthernetInterfaces", manager):
                v4, v6 = _ip_address(card, "IPv4Addresses"), _ip_address(card, "IPv6Addresses")
                if v4 or v6:
                    found = {"bmc_address": v4, "bmc_v6address": v6}
                    return {name: address for name, address in found.items() if address}
        return {}

    # -- reading ----------------------------------------------------------------------------

    def _collection_members(self, name: str, document: Json) -> list[Json]:
        """Return the documents of the collection that ``name`` leads to."""
        path = resources.link(document, name)
        return self._read_documents(name, functools.partial(resources.members, self.task, path))

    def _linked_documents(self, name: str, document: Json, *names: str) -> list[Json]:
        """Return the documents that the list of links at this place leads to."""
        find = functools.partial(resources.listed, self.task, document, *names)
        return self._read_documents(name, find)

    def _read_documents(self, name: str, find: Callable[..., Iterable[Json]]) -> list[Json]:
        """Return the readable documents of a list.

        :param find: yields the documents; takes ``spare``.
        :raises errors.BmcUnreachable: the BMC does not answer, or takes too long.
        """
        kept: list[Json] = []
        bad: list[errors.HardwareError] = []

        def spare(why: errors.HardwareError) -> None:
            bad.append(why)
            if len(bad) == MOST_FAILURES:
                raise why
            self._note_unreadable(name, why)
            self._count_document()

        try:
            for one in find(spare=spare):
                self._count_document(one)
                kept.append(one)
        except errors.HardwareError as why:
            over = self._left < 0 or self._room < 0 or self._crowded
            if over or time.monotonic() > self._until:
                raise
            self._note_unreadable(name, why)
        return kept

    def _note_unreadable(self, name: str, why: errors.HardwareError) -> None:
        """Note an unreadable part; raise if the fault is not limited to that part."""
        if not isinstance(why, errors.BmcBadAnswer):
            # A part may be silent or not ready, or need another right or licence. If the BMC itself
            # is silent or the login fails, this request raises.
            resources.system(self.task)
        sentence = f"{name}: {str(why).rstrip('.')}"
        if sentence not in self.faults:
            self.faults.append(sentence)

    def _count_document(self, document: Json | None = None) -> None:
        """Count one more document against the limits, with its memory if it is kept.

        :raises errors.Stopping: the service stops.
        """
        self.task.pause(0)
        self._left -= 1
        self._room -= 0 if document is None else transport.memory_size(document)
        if self._left < 0 or self._room < 0:
            reason = f"it lists more than {MOST_DOCUMENTS} parts"
            if self._room < 0:
                reason = f"its parts take more than {MOST_BYTES // 1024**2} MiB of memory"
            raise errors.BmcBadAnswer(address=self._address, reason=reason)
        self._share_memory()
        if time.monotonic() > self._until:
            reason = f"reading its inventory took more than {SURVEY_SECONDS:g} s"
            raise errors.BmcUnreachable(address=self._address, reason=reason)

    def _share_memory(self) -> None:
        more = MOST_BYTES - self._room - FREE_BYTES - self._shared
        if more <= 0:
            return
        if not _TOGETHER.take(more):
            self._crowded = True
            reason = "its parts are large, and those of other machines take the memory for them"
            raise errors.BmcUnreachable(address=self._address, reason=f"{reason}; retry later")
        self._shared += more


def _known_only(found: Iterable[Json | None]) -> list[Json]:
    return [one for one in found if one is not None]


ESSENTIAL = ("memory_mb", "local_gb", "cpu_arch")
"""Properties that every successful inspection must find."""


class RedfishInspect(hardware.RedfishInterface, base.Inspect):
    """The inspect interface ``redfish``."""

    survey: ClassVar[type[Survey]] = Survey
    """The parts of a machine that are read."""

    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        """Write properties, ports and inventory, or nothing unless all essential facts are found.

        A property that the BMC does not report keeps the operator's value.

        :raises errors.HardwareError: a property of ``ESSENTIAL`` is unknown, or a hook failed.
        """
        with self.survey(task) as found:
            inventory, plugin_data, local_gb = found.take()
        properties = dict(task.node.properties or {})
        _write_properties(properties, inventory, local_gb)
        _without_disks(task, properties, disks_told=found.disks_told)
        _refuse_incomplete(properties, found.faults)
        case = task.run_hooks(
            config.CONF.redfish.inspection_hooks,
            inventory,
            plugin_data,
            properties=properties,
            remarks=found.remarks,
            incomplete=bool(found.faults or found.remarks),
        )
        case.remarks += found.faults
        if found.faults:
            case.plugin_data["faults"] = found.faults
        task.keep_result(case)
        return base.DONE


def _write_properties(properties: Json, inventory: Json, local_gb: int | None) -> None:
    """Write the BMC's facts; the boot mode only if the node has none."""
    told = {
        "memory_mb": inventory["memory"].get("physical_mb"),
        "local_gb": local_gb,
        "cpu_arch": inventory["cpu"].get("architecture"),
        "cpus": inventory["cpu"].get("count"),
        "vendor": inventory["system_vendor"].get("manufacturer"),
    }
    properties.update({name: value for name, value in told.items() if value is not None})
    mode, known = inventory["boot"]["current_boot_mode"], properties.get("capabilities")
    if mode is not None and vocabulary.get_capability(known, "boot_mode") is None:
        properties["capabilities"] = vocabulary.put_capability(known, "boot_mode", mode)


def _without_disks(task: base.Task, properties: Json, *, disks_told: bool) -> None:
    """Set local_gb to 0 if the BMC lists its disks and has none."""
    if disks_told and inspection.lacking(properties, ["local_gb"]):
        LOG.warning("Node %s: its BMC shows no disk; local_gb is set to 0.", task.node.uuid)
        properties["local_gb"] = 0


def _refuse_incomplete(properties: Json, faults: list[str]) -> None:
    missing = inspection.lacking(properties, ESSENTIAL)
    if missing:
        why = f" It could not be read: {'; '.join(faults)}." if faults else ""
        raise errors.HardwareError(
            reason=f"The BMC does not report {', '.join(missing)}.{why} Switch the machine on "
            "once, or write them into the node's properties, and inspect it again."
        )
