"""What a BMC says about its RAID controllers, their disks and volumes, read in our words.

Plain documents are read, not sushy's classes: those take one missing or odd property in one drive
for a fault of all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sushy.exceptions

from ironic_lite.drivers.redfish import connection, selection, transport

Json = dict[str, Any]

RAID_TYPES: Mapping[str, str] = {
    "0": "RAID0",
    "1": "RAID1",
    "5": "RAID5",
    "6": "RAID6",
    "1+0": "RAID10",
    "5+0": "RAID50",
    "6+0": "RAID60",
}
_LEVELS = {word: level for level, word in RAID_TYPES.items()}
_OLD_TYPES = {
    # Volumes before schema 1.3.1 have no RAIDType.
    "NonRedundant": "0",
    "Mirrored": "1",
    "StripedWithParity": "5",
    "SpannedMirrors": "1+0",
    "SpannedStripesWithParity": "5+0",
}
_KINDS = {"HDD": "hdd", "SSD": "ssd"}
_INTERFACES = {"SATA": "sata", "SAS": "sas", "SCSI": "scsi", "NVMe": "nvme", "PCIe": "nvme"}
_MOST = 512
"""Members of one collection; more is not a machine but a fault of the BMC."""
_WWN_DIGITS = 16
APPLY = "@Redfish.OperationApplyTime"


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """A volume that is there. ``size`` in bytes; ``drives`` are the paths of its disks.

    ``raw`` is a disk that the controller passes through and only calls a volume.
    """

    path: str
    name: str
    level: str | None
    size: int
    drives: tuple[str, ...]
    raw: bool
    hint: Mapping[str, str] | None
    times: tuple[str, ...] | None

    @property
    def ident(self) -> str:
        """The last word of its path."""
        return self.path.rstrip("/").rpartition("/")[2]


@dataclasses.dataclass(frozen=True, slots=True)
class Controller:
    """A storage subsystem. ``times`` are when changes can be made; None if it does not say."""

    name: str
    label: str
    maker: str
    levels: frozenset[str] | None
    volumes_path: str
    times: tuple[str, ...] | None
    drives: tuple[Json, ...]
    volumes: tuple[Volume, ...]

    def offered(self, *, emptied: bool) -> selection.Controller:
        """Return it for `selection.choose`; ``emptied``: its volumes are going to be deleted."""
        staying = {} if emptied else {one.path: one.name for one in self.volumes if not one.raw}
        taken: dict[str, str] = {}
        for volume in self.volumes:
            if volume.path in staying:
                taken.update(dict.fromkeys(volume.drives, volume.name))
        for drive in self.drives:
            # Some BMCs say it at the volume, some at the drive.
            for path in _paths((drive.get("Links") or {}).get("Volumes")):
                if path in staying:
                    taken[_link(drive)] = staying[path]
        disks = tuple(_disk(drive, taken, emptied=emptied) for drive in self.drives)
        return selection.Controller(self.name, disks, self.levels, self.label)


def read(link: connection.Link) -> list[Controller]:
    """Return the storage subsystems with volumes, RAID controllers or not sure ones.

    :raises faults.EXPECTED: as all reading.
    """
    place = link.system().json.get("Storage")
    if not isinstance(place, dict):
        return []
    found = (_controller(link, path) for path in _members(link, _link(place)))
    return [one for one in found if one is not None]


def volumes(link: connection.Link, path: str) -> list[Volume]:
    """Return the volumes of a collection."""
    return [_volume(link.wire.document(member)) for member in _members(link, path)]


# -- reading ---------------------------------------------------------------------------------


def _link(value: Any) -> str:
    path = value["@odata.id"]
    if not isinstance(path, str):
        raise transport.NotJson(f"an @odata.id is {type(path).__name__}")
    return path


def _paths(values: Any) -> list[str]:
    found = [_link(value) for value in values or ()]
    if len(found) > _MOST:
        raise transport.NotJson(f"it lists {len(found)} members where {_MOST} are possible")
    return found


def _members(link: connection.Link, path: str) -> list[str]:
    return _paths(link.wire.document(path).get("Members"))


def _controller(link: connection.Link, path: str) -> Controller | None:
    """Read a storage subsystem; None for one that makes no volumes."""
    storage = link.wire.document(path)
    if not isinstance(storage.get("Volumes"), dict):
        return None
    cards = list(_cards(link, storage))
    levels = _levels(cards)
    if levels is not None and not levels:
        return None
    place = _link(storage["Volumes"])
    collection = link.wire.document(place)
    members = [link.wire.document(member) for member in _paths(collection.get("Members"))]
    first = cards[0] if cards else {}
    return Controller(
        name=str(storage["Id"]),
        label=str(first.get("Name") or storage.get("Name") or ""),
        maker=str(first.get("Manufacturer") or ""),
        levels=levels,
        volumes_path=place,
        times=_times(collection),
        drives=tuple(_drives(link, storage)),
        volumes=tuple(map(_volume, members)),
    )


def _cards(link: connection.Link, storage: Json) -> Iterator[Json]:
    """Yield the controllers of a subsystem: members of their own, or a list in it (until 1.12)."""
    inline = storage.get("StorageControllers") or []
    if inline and "Name" in inline[0]:
        yield from inline
    elif isinstance(storage.get("Controllers"), dict):
        for path in _members(link, _link(storage["Controllers"])):
            yield link.wire.document(path)


def _levels(cards: Iterable[Json]) -> frozenset[str] | None:
    told = [card["SupportedRAIDTypes"] for card in cards if "SupportedRAIDTypes" in card]
    if not told:
        return None
    words = {word for words in told for word in words or ()}
    return frozenset(_LEVELS[word] for word in words if word in _LEVELS)


def _drives(link: connection.Link, storage: Json) -> Iterator[Json]:
    for path in _paths(storage.get("Drives")):
        try:
            yield {**link.wire.document(path), "@odata.id": path}
        except sushy.exceptions.ResourceNotFoundError:
            # Listed, and pulled out a moment ago.
            continue


def _times(document: Json) -> tuple[str, ...] | None:
    told = document.get(f"{APPLY}Support")
    return tuple(told.get("SupportedValues") or ()) if isinstance(told, dict) else None


def _volume(document: Json) -> Volume:
    kind = document.get("RAIDType")
    old = document.get("VolumeType")
    return Volume(
        path=_link(document),
        name=str(document.get("Name") or document["Id"]),
        level=_LEVELS.get(kind or "") or (None if kind else _OLD_TYPES.get(old or "")),
        size=_bytes(document.get("CapacityBytes")),
        drives=tuple(_paths((document.get("Links") or {}).get("Drives"))),
        raw=old == "RawDevice" or kind == "None",
        hint=_hint(document.get("Identifiers") or ()),
        times=_times(document),
    )


def _bytes(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _hint(identifiers: Iterable[Json]) -> dict[str, str] | None:
    """Return what finds the volume among the disks of the booted machine."""
    for one in identifiers:
        name = str(one.get("DurableName") or "").lower().removeprefix("0x").removeprefix("naa.")
        if one.get("DurableNameFormat") in {"NAA", "EUI"} and name:
            key = "wwn" if len(name) <= _WWN_DIGITS else "wwn_with_extension"
            return {key: f"0x{name}"}
    return None


def _disk(drive: Json, taken: Mapping[str, str], *, emptied: bool) -> selection.Disk:
    path = _link(drive)
    return selection.Disk(
        path=path,
        name=str(drive["Id"]),
        size=_bytes(drive.get("CapacityBytes")),
        kind=_KINDS.get(drive.get("MediaType") or ""),
        interface=_INTERFACES.get(drive.get("Protocol") or ""),
        label=str(drive.get("Name") or ""),
        trouble=_trouble(drive, taken.get(path), emptied=emptied),
    )


def _trouble(drive: Json, volume: str | None, *, emptied: bool) -> str | None:
    """Return why a disk cannot be used."""
    status = drive.get("Status") or {}
    state, health = status.get("State") or "Enabled", status.get("Health") or "OK"
    spare = drive.get("HotspareType") or "None"
    for wrong, reason in (
        (volume is not None, f"it is in volume {volume} (delete_existing deletes that)"),
        (state not in {"Enabled", "StandbyOffline"}, f"its state is {state}"),
        (health == "Critical", "its health is Critical"),
        (drive.get("FailurePredicted") is True, "it is about to fail"),
        (spare != "None" and not emptied, f"it is a hot spare ({spare})"),
        (_bytes(drive.get("CapacityBytes")) <= 0, "the BMC does not say its size"),
    ):
        if wrong:
            return reason
    return None
