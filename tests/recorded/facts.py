"""Facts of a recorded tree, read by other rules than those of the drivers.

The strict BMC refuses by these facts, and the operator's day expects by them.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

Json = dict[str, Any]
Tree = Mapping[str, Json]

ROOT = "/redfish/v1"

DEVICES: Mapping[str, tuple[str, ...]] = {
    "pxe": ("Pxe",),
    "disk": ("Hdd",),
    "cdrom": ("Cd", "UsbCd", "CD/DVD"),
    "bios": ("BiosSetup",),
    "uefihttp": ("UefiHttp",),
}
"""Names of boot devices in the API, and the words of BMCs for them."""
MEDIA: Mapping[str, frozenset[str]] = {
    "cdrom": frozenset({"CD", "DVD"}),
    "disk": frozenset({"USBStick"}),
    "floppy": frozenset({"Floppy"}),
}
_LEVELS = {"RAID0": 1, "RAID1": 2, "RAID5": 3, "RAID6": 4, "RAID10": 4}
"""Levels that the day builds, with the disks that each needs."""


def etag(document: Json) -> str:
    """Return a strong tag of a document's content."""
    return f'"{zlib.crc32(json.dumps(document, sort_keys=True).encode()):08x}"'


def at(tree: Tree, path: object) -> str | None:
    """Return the path of a recorded document, written as the tree does; None if it is missing."""
    if not isinstance(path, str):
        return None
    plain = path.rstrip("/")
    if plain in tree:
        return plain
    return next((one for one in tree if one.lower() == plain.lower()), None)


def value(document: Any, *names: str) -> Any:
    """Return the value at a place of a document, None if the place is missing."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def follow(tree: Tree, document: Json, *names: str) -> str | None:
    """Return the recorded path that a link leads to, None if it is missing."""
    return at(tree, value(document, *names, "@odata.id"))


def each(tree: Tree, document: Json, *names: str) -> Iterator[tuple[str, Json]]:
    """Yield the recorded documents of a list of links."""
    for entry in value(document, *names) or []:
        path = at(tree, value(entry, "@odata.id"))
        if path is not None:
            yield path, tree[path]


def members(tree: Tree, document: Json, *names: str) -> Iterator[tuple[str, Json]]:
    """Yield the recorded members of the collection that a link leads to."""
    path = follow(tree, document, *names)
    if path is not None:
        yield from each(tree, tree[path], "Members")


# -- actions --------------------------------------------------------------------------------------


def parameters(tree: Tree, action: Json) -> dict[str, Json]:
    """Return the parameters of an action by name, from its ActionInfo if it has one."""
    told = action.get("@Redfish.ActionInfo")
    info = tree.get(at(tree, value(told, "@odata.id") or told) or "") or {}
    return {one["Name"]: one for one in info.get("Parameters") or [] if "Name" in one}


def allowed(tree: Tree, action: Json, name: str) -> list[Any] | None:
    """Return the values that an action allows for a parameter, None if it does not list them."""
    listed = action.get(f"{name}@Redfish.AllowableValues")
    if listed is None:
        listed = parameters(tree, action).get(name, {}).get("AllowableValues")
    return listed if isinstance(listed, list) and listed else None


def required(tree: Tree, action: Json) -> list[str]:
    """Return the parameters that an action requires."""
    found = parameters(tree, action)
    return [name for name, one in found.items() if one.get("Required") is True]


# -- the system -----------------------------------------------------------------------------------


def systems(tree: Tree) -> list[str]:
    """Return the systems of a service that can be switched on and off."""
    found = members(tree, tree[ROOT], "Systems")
    return [
        path
        for path, one in found
        if value(one, "Actions", "#ComputerSystem.Reset", "target") and "PowerState" in one
    ]


def manager(tree: Tree, system: Json) -> str:
    """Return the path of the manager of a system."""
    found = [path for path, _ in each(tree, system, "Links", "ManagedBy")]
    found += [path for path, _ in members(tree, tree[ROOT], "Managers")]
    return found[0]


def resets(tree: Tree, system: str) -> set[str]:
    """Return the reset types of a system; all of the specification if it does not list them."""
    action = tree[system]["Actions"]["#ComputerSystem.Reset"]
    listed = allowed(tree, action, "ResetType")
    every = {"On", "ForceOff", "GracefulShutdown", "ForceRestart", "GracefulRestart", "Nmi"}
    return set(listed) if listed is not None else every


def settings(tree: Tree, system: str) -> str | None:
    """Return the path of the settings of a system that wait for a boot; None if it has none."""
    place = follow(tree, tree[system], "@Redfish.Settings", "SettingsObject")
    return place if place and tree[place].get("Boot") else None


def boot(tree: Tree, system: str) -> Json:
    """Return the Boot object that shows what a system offers, completed by its settings."""
    waiting = tree.get(settings(tree, system) or "", {}).get("Boot") or {}
    return {**(tree[system].get("Boot") or {}), **waiting}


def boot_devices(tree: Tree, system: str) -> set[str]:
    """Return the boot devices that a system offers, in the words of the API."""
    main = tree[system].get("Boot") or {}
    name = "BootSourceOverrideTarget@Redfish.AllowableValues"
    listed = main.get(name) or boot(tree, system).get(name)
    if "BootSourceOverrideTarget" not in boot(tree, system):
        return set()
    if not isinstance(listed, list):
        return set(DEVICES)
    return {device for device, words in DEVICES.items() if set(words) & set(listed)}


def boot_modes(tree: Tree, system: str) -> set[str]:
    """Return the boot modes that can be chosen, in the words of the API."""
    seen = boot(tree, system)
    if "BootSourceOverrideMode" not in seen:
        return set()
    listed = seen.get("BootSourceOverrideMode@Redfish.AllowableValues") or ["Legacy", "UEFI"]
    return {{"Legacy": "bios", "UEFI": "uefi"}[word] for word in listed if word in _MODES}


_MODES = ("Legacy", "UEFI")


def lamps(tree: Tree, system: str) -> set[str]:
    """Return the paths of documents with an indicator: system, chassis and drives."""
    found = [(system, tree[system]), *each(tree, tree[system], "Links", "Chassis")]
    for _, storage in members(tree, tree[system], "Storage"):
        found += each(tree, storage, "Drives")
    names = ("IndicatorLED", "LocationIndicatorActive")
    return {path for path, one in found if any(one.get(name) is not None for name in names)}


def drives(tree: Tree, system: str) -> dict[str, set[str]]:
    """Return the virtual drives by path, with the device types of each."""
    found = dict(members(tree, tree[system], "VirtualMedia"))
    for _, one in each(tree, tree[system], "Links", "ManagedBy"):
        found |= dict(members(tree, one, "VirtualMedia"))
    return {path: _devices(one) for path, one in found.items()}


def image(drive: Json) -> str | None:
    """Return the image in a virtual drive; None if it is empty, which GIGABYTE writes as a word."""
    told = drive.get("Image")
    return None if told in {None, "", "None"} else str(told)


def _devices(drive: Json) -> set[str]:
    told = drive.get("MediaTypes")
    if isinstance(told, list) and told:
        return {device for device, words in MEDIA.items() if words & set(told)}
    name = f"{drive.get('Id')} {drive.get('Name')}".upper()
    return {"cdrom"} if re.search(r"CD|DVD", name) else set()


# -- BIOS -----------------------------------------------------------------------------------------


def bios(tree: Tree, system: str) -> str | None:
    """Return the path of the BIOS settings if the tree has any."""
    place = follow(tree, tree[system], "Bios")
    return place if place and tree[place].get("Attributes") else None


def bios_settings(tree: Tree, system: str) -> str | None:
    """Return the path that new BIOS settings are sent to."""
    place = bios(tree, system)
    if place is None:
        return None
    told = value(tree[place], "@Redfish.Settings", "SettingsObject", "@odata.id")
    return (at(tree, told) or str(told).rstrip("/")) if told else place


def registry(tree: Tree, system: str) -> dict[str, Json]:
    """Return the registry whose names fit the BIOS settings best, {} if none does."""
    place = bios(tree, system)
    known = set(tree[place]["Attributes"]) if place else set()
    best: dict[str, Json] = {}
    for one in tree.values():
        entries = value(one, "RegistryEntries", "Attributes") or []
        found = {entry["AttributeName"]: entry for entry in entries if "AttributeName" in entry}
        if len(known & set(found)) > len(known & set(best)):
            best = found
    return best


def offers_registry(tree: Tree, system: str) -> bool:
    """Return whether the BIOS names a registry of its settings that the tree has."""
    place = bios(tree, system)
    named = place is not None and bool(tree[place].get("AttributeRegistry"))
    return named and bool(registry(tree, system)) and bool(value(tree[ROOT], "Registries"))


def choices(entry: Json) -> list[str]:
    """Return the values of an enumeration."""
    listed = entry.get("Value")
    return [str(one["ValueName"]) for one in listed or [] if one.get("ValueName") is not None]


def change(tree: Tree, system: str) -> tuple[str, Any] | None:
    """Return a BIOS setting and another value for it; None if none can be changed."""
    place = bios(tree, system)
    now = tree[place]["Attributes"] if place else {}
    known = registry(tree, system)
    found: dict[str, tuple[str, Any]] = {}
    for name in sorted(now):
        entry = known.get(name)
        if entry is not None and entry.get("ReadOnly"):
            continue
        other = _other(now[name], entry)
        if other is not None:
            found.setdefault((entry or {}).get("Type") or type(now[name]).__name__, (name, other))
    kinds = ("Enumeration", "Boolean", "bool", "Integer", "int")
    return next((found[kind] for kind in kinds if kind in found), None)


def _other(now: Any, entry: Json | None) -> Any:
    """Return another value of a setting, None if none is sure to be allowed."""
    kind = (entry or {}).get("Type")
    if kind == "Enumeration" and now in choices(entry or {}):
        return next((one for one in choices(entry or {}) if one != now), None)
    if isinstance(now, bool) and kind in {None, "Boolean"}:
        return not now
    if type(now) is int and kind in {None, "Integer"}:
        step = int((entry or {}).get("ScalarIncrement") or 1)
        return now - step if now == (entry or {}).get("UpperBound") else now + step
    return None


# -- storage --------------------------------------------------------------------------------------


def levels(tree: Tree, storage: Json) -> list[str]:
    """Return the RAID types that a storage controller supports."""
    found: list[str] = []
    cards = list(storage.get("StorageControllers") or [])
    cards += [one for _, one in members(tree, storage, "Controllers")]
    for card in cards:
        full = tree.get(at(tree, value(card, "@odata.id")) or "") or {}
        found += [*(card.get("SupportedRAIDTypes") or []), *(full.get("SupportedRAIDTypes") or [])]
    return found


def raid(tree: Tree, system: str) -> tuple[str, str, int] | None:
    """Return controller, level and number of free disks for a volume; None if none is possible."""
    words = {"RAID0": "0", "RAID1": "1", "RAID5": "5", "RAID6": "6", "RAID10": "1+0"}
    for _, storage in members(tree, tree[system], "Storage"):
        volumes = follow(tree, storage, "Volumes")
        disks = [one for _, one in each(tree, storage, "Drives") if _is_usable(one)]
        for level in levels(tree, storage):
            if volumes and level in _LEVELS and len(disks) >= _LEVELS[level]:
                return str(storage["Id"]), words[level], _LEVELS[level]
    return None


def _is_usable(drive: Json) -> bool:
    enabled = value(drive, "Status", "State") in {None, "Enabled"}
    return bool(enabled and drive.get("CapacityBytes"))


# -- what inspection must find --------------------------------------------------------------------


def addresses(tree: Tree, system: str) -> set[str]:
    """Return the MAC addresses of a system's enabled network cards, or of all if none is."""
    cards = [card for _, card in members(tree, tree[system], "EthernetInterfaces")]
    there = [card for card in cards if value(card, "Status", "State") != "Absent"]
    enabled = [card for card in there if value(card, "Status", "State") != "Disabled"]
    # All cards of a machine that is off may be disabled.
    found = {_address(card) for card in enabled} - {None} or set(map(_address, there)) - {None}
    if not found:
        for _, chassis in each(tree, tree[system], "Links", "Chassis"):
            for _, adapter in members(tree, chassis, "NetworkAdapters"):
                for _, one in members(tree, adapter, "NetworkDeviceFunctions"):
                    found.add(_address({**one, **(one.get("Ethernet") or {})}))
    return {one for one in found if one}


def _address(card: Json) -> str | None:
    told = str(card.get("MACAddress") or card.get("PermanentMACAddress") or "").strip()
    plain = told.lower().replace("-", ":")
    good = re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", plain) and set(plain) - set("0:")
    return plain if good else None


def architecture(tree: Tree, system: str) -> str | None:
    """Return the architecture of the first CPU as the service names it."""
    sets = {"x86-64": "x86_64", "x86": "i686", "ARM-A64": "aarch64"}
    families = {"x86": "x86_64", "ARM": "aarch64"}
    summary = str(value(tree[system], "ProcessorSummary", "Model") or "")
    for _, one in members(tree, tree[system], "Processors"):
        if (one.get("ProcessorType") or "CPU") == "CPU" and not _is_absent(one):
            told = one.get("InstructionSet")
            family = families.get(str(one.get("ProcessorArchitecture")))
            known = sets.get(str(told)) if told else family
            return known or _by_model(str(one.get("Model") or summary))
    return _by_model(summary)


def _by_model(model: str) -> str | None:
    if "EPYC" in model or "Xeon" in model:
        return "x86_64"
    return "aarch64" if model.startswith(("ARMv", "Grace")) else None


def memory(tree: Tree, system: str) -> int | None:
    """Return the size of the memory in MiB, None if it is not told."""
    told = value(tree[system], "MemorySummary", "TotalSystemMemoryGiB")
    if told:
        return int(float(told) * 1024)
    modules = (one for _, one in members(tree, tree[system], "Memory") if not _is_absent(one))
    return sum(int(one.get("CapacityMiB") or 0) for one in modules) or None


def _is_absent(part: Json) -> bool:
    return bool(value(part, "Status", "State") == "Absent")


# -- services -------------------------------------------------------------------------------------


def updates(tree: Tree) -> Json | None:
    """Return the action that updates firmware, None if there is none."""
    place = follow(tree, tree[ROOT], "UpdateService")
    found = value(tree.get(place or ""), "Actions", "#UpdateService.SimpleUpdate")
    return found if isinstance(found, dict) and found.get("target") else None


def tasks(tree: Tree) -> str:
    """Return the path of the tasks; BMCs without a task service get the usual one."""
    place = follow(tree, tree[ROOT], "Tasks")
    told = value(tree.get(place or ""), "Tasks", "@odata.id")
    return str(told or f"{ROOT}/TaskService/Tasks").rstrip("/")
