"""The parts of a machine, out of the documents of its BMC, in the words of ironic-python-agent.

Pure functions over JSON (DMTF DSP0268: ComputerSystem, Processor, Memory, EthernetInterface, Drive,
Volume, PCIeFunction, Port). What a BMC does not tell, or tells in another type, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ironic_lite import inspection
from ironic_lite.drivers.redfish import documents, override

Json = dict[str, Any]

GIB = 1024**3

SMALLEST = 4 * GIB
"""Bytes a disk must have to be one that an image fits on."""

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
"""The name of an architecture by InstructionSet of a Processor."""

_LARGEST = 2**63 - 1
_UNUSED = frozenset({"Absent", "Disabled"})


# -- the whole machine ---------------------------------------------------------------------------


def maker(system: Json) -> Json:
    """Return ``system_vendor``: names, serial number and firmware."""
    version = documents.text(system, "BiosVersion")
    return _told(
        product_name=documents.text(system, "Model"),
        serial_number=documents.text(system, "SerialNumber"),
        manufacturer=documents.text(system, "Manufacturer"),
        system_uuid=documents.text(system, "UUID"),
        firmware=None if version is None else {"version": version},
    )


def boot(system: Json) -> Json:
    """Return ``boot``: in which mode the machine starts; no BMC says which card it started from."""
    word = documents.text(system, "Boot", "BootSourceOverrideMode")
    return {"current_boot_mode": override.MODE_NAMES.get(word or ""), "pxe_interface": None}


def memory(system: Json, modules: Iterable[Json]) -> Json:
    """Return ``memory``, {} if nothing says how much; modules are looked at without a summary."""
    size = documents.number(system, "MemorySummary", "TotalSystemMemoryGiB")
    megabytes = _whole(None if size is None else size * 1024)
    if not megabytes:
        sizes = (_whole(documents.number(each, "CapacityMiB")) for each in modules if _is(each))
        megabytes = sum(size for size in sizes if size)
    return {"physical_mb": megabytes, "total": megabytes * 1024**2} if megabytes else {}


def cpu(system: Json, processors: Iterable[Json]) -> Json:
    """Return ``cpu``: model and architecture of the first processor, threads of all."""
    found = [each for each in processors if _is(each) and _computes(each)]
    first: Json = found[0] if found else {}
    word = documents.text(first, "InstructionSet")
    return _told(
        count=_threads(found) or _summed(system),
        architecture=ARCHITECTURES.get(word or ""),
        model_name=documents.text(first, "Model")
        or documents.text(system, "ProcessorSummary", "Model"),
        frequency=documents.number(first, "MaxSpeedMHz"),
    )


def _computes(processor: Json) -> bool:
    """Tell whether this is a CPU, not a GPU or an FPGA."""
    return (documents.text(processor, "ProcessorType") or "CPU") == "CPU"


def _threads(processors: Sequence[Json]) -> int | None:
    """Return the threads of all, or their cores; None unless each of them says."""
    for name in ("TotalThreads", "TotalCores"):
        counts = [_whole(documents.number(each, name)) for each in processors]
        if counts and all(counts):
            return sum(count for count in counts if count)
    return None


def _summed(system: Json) -> int | None:
    for name in ("LogicalProcessorCount", "CoreCount", "Count"):
        count = _whole(documents.number(system, "ProcessorSummary", name))
        if count:
            return count
    return None


# -- network cards -------------------------------------------------------------------------------


def mac_address(card: Json) -> str | None:
    """Return the address of an EthernetInterface, None if it has none or is not in use."""
    if documents.text(card, "Status", "State") in _UNUSED:
        return None
    address = documents.text(card, "MACAddress") or documents.text(card, "PermanentMACAddress")
    return address.lower().replace("-", ":") if address else None


def interfaces(cards: Iterable[Json]) -> list[Json]:
    """Return ``interfaces`` of EthernetInterface documents; each address once."""
    found: dict[str, Json] = {}
    for card in cards:
        address = inspection.address(mac_address(card))
        if address is not None and address not in found:
            found[address] = _told(
                name=documents.text(card, "Id") or address,
                mac_address=address,
                speed_mbps=_whole(documents.number(card, "SpeedMbps")),
                has_carrier=_carrier(documents.text(card, "LinkStatus")),
                ipv4_address=_ip(card, "IPv4Addresses"),
                ipv6_address=_ip(card, "IPv6Addresses"),
            )
    return list(found.values())


def functions(found: Iterable[Json]) -> list[Json]:
    """Return ``interfaces`` of NetworkDeviceFunction documents, whose address is a level deeper."""
    cards = []
    for function in found:
        inside = documents.value(function, "Ethernet")
        cards.append({**(inside if isinstance(inside, dict) else {}), **function})
    return interfaces(cards)


def neighbour(port: Json) -> Json:
    """Return which switch a Port hears by LLDP (Ethernet.LLDPReceive), {} if none."""
    heard = documents.value(port, "Ethernet", "LLDPReceive")
    vlan = documents.number(heard, "ManagementVlanId")
    return _told(
        switch_chassis_id=documents.text(heard, "ChassisId"),
        switch_port_id=documents.text(heard, "PortId"),
        switch_system_name=documents.text(heard, "SystemName"),
        switch_system_description=documents.text(heard, "SystemDescription"),
        switch_vlan_id=_whole(vlan),
    )


def ip_address(card: Json) -> tuple[str | None, str | None]:
    """Return the first IPv4 and the first IPv6 address of an EthernetInterface."""
    return _ip(card, "IPv4Addresses"), _ip(card, "IPv6Addresses")


def _ip(card: Json, name: str) -> str | None:
    found = (documents.text(entry, "Address") for entry in documents.entries(card, name))
    return next((each for each in found if each and each not in {"0.0.0.0", "::"}), None)


def _carrier(word: str | None) -> bool | None:
    return None if word is None else word == "LinkUp"


# -- disks ---------------------------------------------------------------------------------------


def disk(drive: Json) -> Json | None:
    """Return one of ``disks`` from a Drive or a device of SimpleStorage; None: an empty place."""
    size = _whole(documents.number(drive, "CapacityBytes"))
    if not size or not _is(drive):
        return None
    kind = documents.text(drive, "MediaType")
    return _told(
        name=documents.text(drive, "Name") or documents.text(drive, "Id") or "disk",
        size=size,
        model=documents.text(drive, "Model"),
        vendor=documents.text(drive, "Manufacturer"),
        serial=documents.text(drive, "SerialNumber"),
        rotational={"HDD": True, "SSD": False}.get(kind or ""),
        wwn=_wwn(drive),
    )


def volume(document: Json) -> Json | None:
    """Return a volume as ``{"name", "size", "raid_level"}``; None without a size."""
    size = _whole(documents.number(document, "CapacityBytes"))
    if not size or not _is(document):
        return None
    name = documents.text(document, "Name") or documents.text(document, "Id")
    return _told(name=name, size=size, raid_type=documents.text(document, "RAIDType"))


def controller(storage: Json, disks: Sequence[Json], volumes: Sequence[Json]) -> Json:
    """Return one of ``storage_controllers``."""
    return {
        **_told(id=documents.text(storage, "Id"), name=documents.text(storage, "Name")),
        "drives": list(disks),
        "volumes": list(volumes),
    }


def local_gb(devices: Iterable[int], drives: Iterable[int], volumes: Iterable[int]) -> int | None:
    """Return the GiB of the disk that an image is likely to be written to; None without any.

    It is the smallest of 4 GiB or more: among volumes, else among drives; a smaller one of
    SimpleStorage goes first. One GiB is left to what stands beside an image.

    :param devices, drives, volumes: sizes in bytes, of SimpleStorage and of Storage.
    """
    best = _smallest(volumes) or _smallest(drives)
    sizes = [size for size in (_smallest(devices), best) if size]
    return min(sizes) // GIB - 1 if sizes else None


def _smallest(sizes: Iterable[int]) -> int | None:
    return min((size for size in sizes if size >= SMALLEST), default=None)


def _wwn(drive: Json) -> str | None:
    for one in documents.entries(drive, "Identifiers"):
        name = (documents.text(one, "DurableName") or "").lower()
        if name and documents.text(one, "DurableNameFormat") in {"NAA", "EUI"}:
            return f"0x{name.removeprefix('naa.').removeprefix('0x')}"
    return None


# -- PCI -----------------------------------------------------------------------------------------


def pci(function: Json) -> Json:
    """Return one of ``pci_devices`` from a PCIeFunction: numbers as agents have them, no 0x."""
    return _told(
        vendor_id=_hex(function, "VendorId"),
        product_id=_hex(function, "DeviceId"),
        subsystem_vendor_id=_hex(function, "SubsystemVendorId"),
        subsystem_id=_hex(function, "SubsystemId"),
        revision=_hex(function, "RevisionId"),
        **{"class": documents.text(function, "DeviceClass")},
    )


def _hex(document: Json, name: str) -> str | None:
    found = documents.text(document, name)
    return found.lower().removeprefix("0x") if found else None


# -- small things --------------------------------------------------------------------------------


def _is(document: Json) -> bool:
    """Tell whether the part is there: BMCs list empty places, too."""
    return documents.text(document, "Status", "State") != "Absent"


def _told(**facts: Any) -> Json:
    """Return the facts without those that nobody has told."""
    return {name: fact for name, fact in facts.items() if fact is not None}


def _whole(found: int | float | None) -> int | None:
    """Return a number of something, None if it is none or no computer has as many."""
    return int(found) if found is not None and 0 <= found <= _LARGEST else None
