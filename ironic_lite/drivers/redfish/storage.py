"""Reading of RAID controllers, disks and volumes from a BMC.

Plain documents are read, not sushy's classes, which fail as a whole if one drive has a missing or
invalid property.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ironic_lite.core.json_types import Json
from ironic_lite.drivers.redfish import disk_selection
from ironic_lite.drivers.redfish.bmc import connection, faults, quirks, resources, transport
from ironic_lite.drivers.redfish.bmc import library as sushy

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
    # Volumes before schema 1.3.1 lack RAIDType.
    "NonRedundant": "0",
    "Mirrored": "1",
    "StripedWithParity": "5",
    "SpannedMirrors": "1+0",
    "SpannedStripesWithParity": "5+0",
}
_KINDS = {"HDD": "hdd", "SSD": "ssd"}
_INTERFACES = {"SATA": "sata", "SAS": "sas", "SCSI": "scsi", "NVMe": "nvme", "PCIe": "nvme"}
_MOST = 512
"""Member limit of one collection; a larger collection is a fault of the BMC."""
_LOCKED = frozenset({"Locked", "Foreign"})
"""Values of Drive.EncryptionStatus (DSP0268) of disks whose data is not accessible now."""
_TROUBLE = "unreadable"
"""Key of a drive whose document cannot be read, with the reason."""
_WWN_DIGITS = 16
_NVME_NAMES = ("NGUID", "EUI")
"""Linux names a namespace by its NGUID, and by its EUI if it has no other."""
APPLY_TIME = "@Redfish.OperationApplyTime"


@dataclasses.dataclass(frozen=True, slots=True)
class RaidVolume:
    """An existing volume. ``size`` is in bytes; ``drives`` are the paths of its disks.

    ``raw`` is a passed-through disk that the controller calls a volume, or a namespace of an NVMe
    drive. It is not deleted, because the drive would then have no usable space.
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
        """The last segment of its path."""
        return plain_path(self.path).rpartition("/")[2]


@dataclasses.dataclass(frozen=True, slots=True)
class RaidController:
    """A storage subsystem. ``times`` are the supported apply times; None if it does not say.

    ``capabilities`` is the path of the document about new volumes: see `creation_annotations`.
    """

    name: str
    label: str
    maker: str
    levels: frozenset[str] | None
    volumes_path: str
    times: tuple[str, ...] | None
    drives: tuple[Json, ...]
    volumes: tuple[RaidVolume, ...]
    capabilities: str | None

    def offered(self, *, emptied: bool) -> disk_selection.ControllerDisks:
        """Return it for `choose_disks`; ``emptied``: its volumes will be deleted first."""
        uses = self._disk_uses(set() if not emptied else {one.ident for one in self.volumes})
        disks = tuple(
            _read_disk(one, uses.get(_linked_path(one)), emptied=emptied) for one in self.drives
        )
        return disk_selection.ControllerDisks(self.name, disks, self.levels, self.label)

    def _disk_uses(self, going: Collection[str]) -> dict[str, str]:
        """Return disk path -> its use, ignoring the volumes that will be deleted.

        Some BMCs report the use at the volume, some at the disk. A volume without any such report
        may be on any disk.
        """
        there = {one.ident: one for one in self.volumes}
        on = {_linked_path(drive): self._volumes_on(drive) for drive in self.drives}
        placed = set().union(*on.values(), going)
        lost = [one.name for ident, one in there.items() if ident not in placed]
        found = {path: f"it may be in volume {lost[0]}, which lists no disk" for path in on if lost}
        for path, idents in on.items():
            for ident in sorted(idents - set(going)):
                one = there.get(ident)
                found[path] = (
                    _volume_use(one) if one else f"it is in volume {ident}, which is not listed"
                )
        return found

    def _volumes_on(self, drive: Json) -> set[str]:
        """Return the last path segments of the volumes that a disk is in."""
        path = plain_path(_linked_path(drive))
        here = {one.ident for one in self.volumes if path in map(plain_path, one.drives)}
        told = _linked_paths(resources.value(drive, "Links", "Volumes"))
        return here | {plain_path(volume).rpartition("/")[2] for volume in told}


def _volume_use(volume: RaidVolume) -> str:
    if volume.raw:
        return f"it is passed through as {volume.name} (delete_existing takes it)"
    return f"it is in volume {volume.name} (delete_existing deletes that)"


def read_controllers(link: connection.Link) -> list[RaidController]:
    """Return the storage subsystems that have volumes or may be RAID controllers.

    :raises Exception: one of `faults.expected`; as all reading.
    """
    place = link.system().json.get("Storage")
    if not isinstance(place, dict):
        return []
    found = (_read_controller(link, path) for path in member_paths(link, _linked_path(place)))
    return [one for one in found if one is not None]


def read_volumes(link: connection.Link, path: str) -> list[RaidVolume]:
    """Return the volumes of a collection."""
    return [_read_volume(link, member) for member in member_paths(link, path)]


# -- reading ---------------------------------------------------------------------------------


def _linked_path(value: Any) -> str:
    path = value["@odata.id"]
    if not isinstance(path, str):
        raise transport.not_json(f"an @odata.id is {type(path).__name__}")
    return path


def _linked_paths(values: Any) -> list[str]:
    found = [_linked_path(value) for value in values or ()]
    if len(found) > _MOST:
        raise transport.not_json(f"it lists {len(found)} members where {_MOST} are possible")
    return found


def plain_path(path: str) -> str:
    """Return the canonical form of a path: some BMCs end all links, or some, with a slash."""
    return path.rstrip("/")


def member_paths(link: connection.Link, path: str) -> list[str]:
    """Return the paths of all members of a collection."""
    return listed_paths(link, link.wire.document(path))


def listed_paths(link: connection.Link, page: Json) -> list[str]:
    """Return the members of a collection, including those of its further pages (DSP0266)."""
    found = _linked_paths(page.get("Members"))
    while (more := page.get("Members@odata.nextLink")) is not None:
        if not isinstance(more, str) or len(found) > _MOST:
            raise transport.not_json(f"a list of {len(found)} members or more has no end")
        page = link.wire.document(more)
        found += _linked_paths(page.get("Members"))
        if not page.get("Members"):
            break
    return found


def _read_controller(link: connection.Link, path: str) -> RaidController | None:
    """Read a storage subsystem; None if it cannot make volumes."""
    storage = link.wire.document(path)
    if not isinstance(storage.get("Volumes"), dict):
        return None
    cards = list(_controller_documents(link, storage))
    levels = _raid_levels(cards)
    if levels is not None and not levels:
        return None
    place = _linked_path(storage["Volumes"])
    collection = link.wire.document(place)
    first = cards[0] if cards else {}
    return RaidController(
        name=str(storage["Id"]),
        label=str(first.get("Name") or storage.get("Name") or ""),
        maker=str(first.get("Manufacturer") or ""),
        levels=levels,
        volumes_path=place,
        times=_apply_times(collection),
        drives=tuple(_drive_documents(link, storage)),
        volumes=tuple(_read_volume(link, member) for member in listed_paths(link, collection)),
        capabilities=_capabilities_path(collection),
    )


def _capabilities_path(collection: Json) -> str | None:
    """Return the path of the document about new members of a collection (DSP0266)."""
    found = resources.entries(collection, "@Redfish.CollectionCapabilities", "Capabilities")
    return next((resources.link(one, "CapabilitiesObject") for one in found), None)


def creation_annotations(link: connection.Link, path: str | None) -> Json:
    """Return the annotations of new volumes' properties, such as ``Name@Redfish.RequiredOnCreate``.

    :param path: `RaidController.capabilities`; None, like a path without a document, gives {}.
    """
    if path is None:
        return {}
    try:
        return link.wire.document(path)
    except sushy.exceptions.ResourceNotFoundError:
        return {}


def _controller_documents(link: connection.Link, storage: Json) -> Iterator[Json]:
    """Yield the controllers of a subsystem: separate members, or an inline list (until 1.12)."""
    inline = resources.entries(storage, "StorageControllers")
    if inline and "Name" in inline[0]:
        yield from inline
        return
    for name in ("Controllers", "StorageControllers"):
        path = resources.link(storage, name)
        if path is not None:
            for member in member_paths(link, path):
                yield link.wire.document(member)
            return


def _raid_levels(cards: Iterable[Json]) -> frozenset[str] | None:
    told = [card["SupportedRAIDTypes"] for card in cards if "SupportedRAIDTypes" in card]
    if not told:
        return None
    words = {word for words in told for word in words or ()}
    return frozenset(_LEVELS[word] for word in words if word in _LEVELS)


def _drive_documents(link: connection.Link, storage: Json) -> Iterator[Json]:
    for path in _linked_paths(storage.get("Drives")):
        try:
            yield {**link.wire.document(path), "@odata.id": path}
        except sushy.exceptions.ResourceNotFoundError:
            # The drive was pulled out after the list was read.
            continue
        except sushy.exceptions.SushyError as why:
            if isinstance(why, sushy.exceptions.AccessError):
                raise
            if not isinstance(why, sushy.exceptions.HTTPError):
                link.system_document()  # raises if the BMC itself is silent
            said = faults.facts(why).get("http_status", type(why).__name__)
            shown = f"it cannot be read ({said})"
            yield {"@odata.id": path, "Id": plain_path(path).rpartition("/")[2], _TROUBLE: shown}


def _apply_times(document: Json) -> tuple[str, ...] | None:
    told = document.get(f"{APPLY_TIME}Support")
    return tuple(told.get("SupportedValues") or ()) if isinstance(told, dict) else None


def _read_volume(link: connection.Link, path: str) -> RaidVolume:
    document = link.wire.document(path)
    kind = document.get("RAIDType")
    old = document.get("VolumeType")
    return RaidVolume(
        path=path,
        name=str(document.get("DisplayName") or document.get("Name") or document["Id"]),
        level=_LEVELS.get(kind or "") or (None if kind else _OLD_TYPES.get(old or "")),
        size=_capacity_bytes(document.get("CapacityBytes")),
        drives=tuple(_linked_paths((document.get("Links") or {}).get("Drives"))),
        raw=old == "RawDevice" or kind == "None" or not (kind or old),
        hint=_root_device_hint(document.get("Identifiers") or ()),
        times=_apply_times(document),
    )


def _capacity_bytes(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _root_device_hint(identifiers: Iterable[Json]) -> dict[str, str] | None:
    """Return the hint that finds the volume among the disks of the booted machine."""
    names: dict[object, str] = {}
    for one in identifiers:
        name = str(one.get("DurableName") or "").lower()
        name = name.removeprefix("0x").removeprefix("naa.").removeprefix("eui.").replace("-", "")
        if name.strip("0"):
            names.setdefault(one.get("DurableNameFormat"), name)
    if "NAA" in names:
        name = names["NAA"]
        return {"wwn" if len(name) <= _WWN_DIGITS else "wwn_with_extension": f"0x{name}"}
    # Linux names namespaces so, and the agent takes its name.
    return next(({"wwn": f"eui.{names[kind]}"} for kind in _NVME_NAMES if kind in names), None)


def _read_disk(drive: Json, use: str | None, *, emptied: bool) -> disk_selection.RaidDisk:
    return disk_selection.RaidDisk(
        path=_linked_path(drive),
        name=str(drive["Id"]),
        size=_capacity_bytes(drive.get("CapacityBytes")),
        kind=_KINDS.get(drive.get("MediaType") or ""),
        interface=_INTERFACES.get(drive.get("Protocol") or ""),
        label=str(drive.get("Name") or ""),
        trouble=_disk_trouble(drive, emptied=emptied) or use,
    )


def _disk_trouble(drive: Json, *, emptied: bool) -> str | None:
    """Return why a disk cannot be used, whatever volume it is in.

    A hot spare of certain volumes (Dedicated) is free once those volumes are deleted.
    """
    status = drive.get("Status") or {}
    state, health = status.get("State") or "Enabled", status.get("Health") or "OK"
    spare = _spare_kind(drive)
    free = {"None", "Dedicated"} if emptied else {"None"}
    lock = drive.get("EncryptionStatus")
    for wrong, reason in (
        (_TROUBLE in drive, drive.get(_TROUBLE)),
        (lock in _LOCKED, f"it is encrypted and locked ({lock})"),
        (_is_foreign(drive), "it is foreign: it holds volumes of another controller"),
        (state not in {"Enabled", "StandbyOffline"}, f"its state is {state}"),
        (health == "Critical", "its health is Critical"),
        (drive.get("FailurePredicted") is True, "it is about to fail"),
        (spare not in free, f"it is a hot spare ({spare})"),
        (_capacity_bytes(drive.get("CapacityBytes")) <= 0, "the BMC does not report its size"),
    ):
        if wrong:
            return reason
    return None


def _spare_kind(drive: Json) -> str:
    """Return the kind of hot spare; before schema 1.5 only the drive's indicator reports it."""
    lamp = "Hotspare" if drive.get("StatusIndicator") == "Hotspare" else "None"
    return str(drive.get("HotspareType") or lamp)


def _is_foreign(drive: Json) -> bool:
    return resources.value(drive, *quirks.FOREIGN_DISK.place) in quirks.FOREIGN_DISK.words
