"""Parsing of a BMC's documents into an inventory in the format of ironic-python-agent.

Pure functions over JSON (DMTF DSP0268: ComputerSystem, Processor, Memory, EthernetInterface, Drive,
Volume, PCIeFunction, Port). Missing values and values of a wrong type are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ironic_lite.core.json_types import Json
from ironic_lite.domain import inspection
from ironic_lite.drivers.redfish import override
from ironic_lite.drivers.redfish.bmc import resources

GIB = 1024**3

SMALLEST = 4 * GIB
"""Least size in bytes of a disk that an image fits on."""

ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {
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
)
"""Architecture names by InstructionSet of a Processor."""

FAMILIES: Mapping[str, str] = MappingProxyType({"x86": "x86_64", "ARM": "aarch64", "IA-64": "ia64"})
"""Architecture names by ProcessorArchitecture, for BMCs that report no InstructionSet."""

MODELS: Mapping[str, str] = MappingProxyType(
    {
        r"\b(EPYC|Xeon|Opteron)\b": "x86_64",
        r"\b(ARMv[89]|Grace|Neoverse|Ampere)\b": "aarch64",
    }
)
"""Architecture names by a processor's model, for BMCs that report neither."""

_LARGEST = 2**63 - 1


# -- the whole machine ---------------------------------------------------------------------------


def maker(system: Json) -> Json:
    """Return ``system_vendor``: names, serial number and firmware."""
    version = resources.text(system, "BiosVersion")
    return _known_facts(
        product_name=resources.text(system, "Model"),
        serial_number=resources.text(system, "SerialNumber"),
        manufacturer=resources.text(system, "Manufacturer"),
        system_uuid=resources.text(system, "UUID"),
        firmware=None if version is None else {"version": version},
    )


def boot(system: Json) -> Json:
    """Return ``boot`` with the boot mode; no BMC reports the card that the machine booted from."""
    word = resources.text(system, "Boot", "BootSourceOverrideMode")
    return {"current_boot_mode": override.MODE_NAMES.get(word or ""), "pxe_interface": None}


def memory(system: Json, modules: Iterable[Json]) -> Json:
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


def cpu(system: Json, processors: Iterable[Json]) -> Json:
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


def interfaces(cards: Iterable[Json], *, disabled: bool = False) -> list[Json]:
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


def without_address(cards: Iterable[Json]) -> list[str]:
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


def functions(found: Iterable[Json]) -> list[Json]:
    """Return ``interfaces`` from NetworkDeviceFunction or Port documents, with nested addresses."""
    return interfaces(map(_flat_card, found))


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


def named_apart(found: Iterable[tuple[str, Json]]) -> list[Json]:
    """Return ``interfaces`` of several adapters, each address and each name once.

    :param found: the adapter's name and an entry. Many adapters call their first function ``1``.
    """
    kept: dict[str, Json] = {}
    for adapter, card in found:
        names = {one["name"] for one in kept.values()}
        name = card["name"] if card["name"] not in names else f"{adapter} {card['name']}"
        kept.setdefault(card["mac_address"], {**card, "name": name})
    return list(kept.values())


def neighbour(port: Json) -> Json:
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


def ip_address(card: Json) -> tuple[str | None, str | None]:
    """Return the first IPv4 and the first IPv6 address of an EthernetInterface."""
    return _ip_address(card, "IPv4Addresses"), _ip_address(card, "IPv6Addresses")


def _ip_address(card: Json, name: str) -> str | None:
    found = (resources.text(entry, "Address") for entry in resources.entries(card, name))
    return next((each for each in found if each and each not in {"0.0.0.0", "::"}), None)


def _has_carrier(word: str | None) -> bool | None:
    return None if word is None else word in {"LinkUp", "Up"}


# -- disks ---------------------------------------------------------------------------------------


def disk(drive: Json) -> Json | None:
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


def volume(document: Json, drives: Mapping[str, Json]) -> Json | None:
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


def controller(storage: Json, disks: Sequence[Json], volumes: Sequence[Json]) -> Json:
    """Return an entry of ``storage_controllers``."""
    return {
        **_known_facts(id=resources.text(storage, "Id"), name=resources.text(storage, "Name")),
        "drives": list(disks),
        "volumes": list(volumes),
    }


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
    return min((size for size in sizes if size >= SMALLEST), default=None)


def _drive_wwn(drive: Json) -> str | None:
    for one in resources.entries(drive, "Identifiers"):
        name = (resources.text(one, "DurableName") or "").lower()
        if name and resources.text(one, "DurableNameFormat") in {"NAA", "EUI", "NGUID"}:
            return f"0x{name.removeprefix('naa.').removeprefix('0x')}"
    return None


# -- PCI -----------------------------------------------------------------------------------------


def pci(function: Json) -> Json:
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
