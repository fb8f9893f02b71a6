"""Volumes of a storage controller: created, deleted, initialized; at once, by a task, at a boot."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tests.emulators.bmc import shapes
from tests.emulators.bmc.refusals import Refused
from tests.emulators.bmc.server import Reply, Request

if TYPE_CHECKING:
    from tests.emulators.bmc.machine import Machine

Json = dict[str, Any]

_APPLY = "@Redfish.OperationApplyTime"


def _apply_time(machine: Machine, request: Request) -> bool:
    """Return whether the change waits for the next boot.

    :raises Refused: the controller does not know that time.
    """
    support = machine.tree[machine.places.volumes].get(f"{_APPLY}Support")
    known = support["SupportedValues"] if support else []
    when = request.body.get(_APPLY)
    if when is not None and when not in known:
        raise Refused(400, "PropertyValueNotInList", f"The value {when} of {_APPLY} is none.")
    return (when or (known[0] if known else "Immediate")) == "OnReset"


def _create_volume(machine: Machine, request: Request, path: str) -> Reply:
    wanted = request.body
    later = _apply_time(machine, request)
    storage = machine.tree[path.rpartition("/")[0]]
    drives = wanted.get("Links", {}).get("Drives", [])
    places = [entry["@odata.id"].rstrip("/") for entry in drives]
    level, size = wanted.get("RAIDType"), wanted.get("CapacityBytes")
    if level not in storage["StorageControllers"][0]["SupportedRAIDTypes"]:
        raise Refused(400, "PropertyValueNotInList", f"The value {level} of RAIDType is none.")
    if len(places) < shapes.LEVELS[level]:
        raise Refused(400, "PropertyValueError", f"{level} needs {shapes.LEVELS[level]} drives.")
    for place in places:
        if shapes.link(place) not in storage["Drives"]:
            raise Refused(400, "ResourceNotFound", f"There is no drive {place}.")
    free = room(machine, level, places)
    if size is not None and size > free:
        raise Refused(400, "PropertyValueOutOfRange", f"There is room for {free} bytes only.")
    taken = {link["@odata.id"] for link in machine.tree[path]["Members"]} | machine.coming
    place = next(name for n in range(1, 100) if (name := f"{path}/{n}") not in taken)
    machine.coming.add(place)
    wanted = {**wanted, "Links": {"Drives": [shapes.link(drive) for drive in places]}}
    volume = _volume(place, wanted, level, size if size is not None else free)
    effect = functools.partial(_add_volume, machine, place, volume)
    accepted = machine.work("create", "Create Volume", effect, on_reset=later)
    return accepted or Reply(201, machine.linked(volume), {"Location": place})


def put(machine: Machine, level: str, size: int, drives: list[Json]) -> str:
    """Let a volume be there; return its path."""
    place = _free_place(machine, machine.places.volumes)
    _add_volume(machine, place, _volume(place, {"Links": {"Drives": drives}}, level, size))
    return place


def _free_place(machine: Machine, path: str) -> str:
    taken = {link["@odata.id"].rpartition("/")[2] for link in machine.tree[path]["Members"]}
    return next(f"{path}/{n}" for n in range(1, 100) if str(n) not in taken)


def room(machine: Machine, level: str, places: list[str]) -> int:
    """Return the bytes a volume of this level may have on these drives."""
    least = min(machine.tree[place]["CapacityBytes"] - _used(machine, place) for place in places)
    return int(least * _shares(level, len(places)))


def _used(machine: Machine, place: str) -> int:
    """Return the bytes that volumes take of a drive."""
    used = 0
    for link in machine.tree[place]["Links"]["Volumes"]:
        volume = machine.tree[link["@odata.id"]]
        others = [drive["@odata.id"] for drive in volume["Links"]["Drives"]]
        used += volume["CapacityBytes"] // _shares(volume["RAIDType"], len(others))
    return used


def _shares(level: str, count: int) -> int:
    """Return how many of ``count`` drives hold data, the others being for redundancy."""
    data = {"RAID0": count, "RAID1": 1, "RAID5": count - 1, "RAID6": count - 2}
    data |= {"RAID10": count // 2, "RAID50": count - 2, "RAID60": count - 4}
    return data[level]


def _volume(place: str, wanted: Json, level: str, size: int) -> Json:
    name = wanted.get("Name") or f"Virtual Disk {place.rpartition('/')[2]}"
    return shapes.document(
        place,
        "Volume.v1_6_2",
        name,
        RAIDType=level,
        CapacityBytes=size,
        BlockSizeBytes=512,
        Encrypted=False,
        Status=dict(shapes.OK),
        Identifiers=[
            {
                "DurableName": f"6003FF000000000000{int(place.rpartition('/')[2]):014X}",
                "DurableNameFormat": "NAA",
            }
        ],
        Links={"Drives": wanted["Links"]["Drives"]},
        Actions={
            "#Volume.Initialize": {
                "target": f"{place}/Actions/Volume.Initialize",
                "InitializeType@Redfish.AllowableValues": ["Fast", "Slow"],
            }
        },
    )


def _add_volume(machine: Machine, place: str, volume: Json) -> None:
    machine.coming.discard(place)
    machine.add(place, volume)
    for entry in volume["Links"]["Drives"]:
        machine.tree[entry["@odata.id"]]["Links"]["Volumes"].append(shapes.link(place))


def _delete_volume(machine: Machine, request: Request, path: str) -> Reply:
    if path not in machine.tree:
        raise Refused(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
    later = _apply_time(machine, request)
    effect = functools.partial(_drop_volume, machine, path)
    return machine.work("delete", "Delete Volume", effect, on_reset=later) or Reply(204)


def _drop_volume(machine: Machine, path: str) -> None:
    name = path.rpartition("/")[2]
    for entry in machine.tree[path.partition("/Volumes/")[0]]["Drives"]:
        # A drive may know the volume by another path.
        links = machine.tree[entry["@odata.id"]]["Links"]
        others = [one for one in links["Volumes"] if name not in one["@odata.id"].split("/")]
        links["Volumes"] = others
    machine.remove(path)


def _initialize(machine: Machine, request: Request, path: str) -> Reply:
    if path.partition("/Actions/")[0] not in machine.tree:
        raise Refused(404, "ResourceMissingAtURI", f"There is nothing at {path}.")
    later = _apply_time(machine, request)
    return machine.work("initialize", "Initialize", lambda: None, on_reset=later) or Reply(204)


ACTS = (
    ("POST", r".*/Storage/[^/]+/Volumes", _create_volume),
    ("DELETE", r".*/Storage/[^/]+/Volumes/[^/]+", _delete_volume),
    ("POST", r".*/Actions/Volume\.Initialize", _initialize),
)
