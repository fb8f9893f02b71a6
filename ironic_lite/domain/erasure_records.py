"""The state of a node's data, after erasing steps and the ramdisk's reports. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import step_lists
from ironic_lite.domain.erasure_results import LEVELS, Disk, Reported
from ironic_lite.domain.root_device import bare_number
from ironic_lite.records import StoredStep

RESULTS = ("complete", "partial", "failed", "unknown")
DECLARED = "declared"
"""The value of data_state_by for a state that an operator has set."""
_INTERFACE = "deploy"
_ERASING = frozenset({"erase_devices", "erase_devices_express"})
_METADATA = "erase_devices_metadata"


class DataState(enum.StrEnum):
    """State of the last user's data on a node's disks."""

    CLEAN = "clean"
    DIRTY = "dirty"
    UNKNOWN = "unknown"


class ErasureVerdict(NamedTuple):
    """The result of an erasing step: ``after`` is the node's data_state, None if it stays."""

    result: str
    level: str
    after: DataState | None


def erases(step: StoredStep) -> bool:
    """Return whether a clean step erases disks or their metadata."""
    return step["interface"] == _INTERFACE and step["step"] in (*_ERASING, _METADATA)


def erases_data(step: StoredStep) -> bool:
    """Return whether a clean step erases disks, not their metadata alone."""
    return erases(step) and not of_metadata(step)


def of_metadata(step: StoredStep) -> bool:
    """Return whether an erasing step removes metadata alone, so data stay."""
    return step["step"] == _METADATA


def judge(
    reported: Reported, *, before: str | None, failed: bool, wanted: str, metadata: bool = False
) -> ErasureVerdict:
    """Return the result of an erasing step from the ramdisk's report.

    :param before: the node's data_state.
    :param failed: the step has failed.
    :param wanted: ``[conductor]clean_level``.
    :param metadata: the step erases metadata alone.
    """
    fallen = DataState.DIRTY if before == DataState.CLEAN else None
    others = [one["result"] for one in reported.disks if one["result"] != "erased"]
    if others and set(others) == {"missing"}:
        fallen = DataState.UNKNOWN  # such a disk may have been taken out
    if not reported.disks:
        doubt = DataState.UNKNOWN if before == DataState.CLEAN or not failed else None
        result = "failed" if failed else "unknown"
        return ErasureVerdict(result, "none", None if metadata else doubt)
    erased = [one for one in reported.disks if one["result"] == "erased"]
    level = min((one["level"] for one in erased), key=LEVELS.index, default="none")
    if failed or len(erased) < len(reported.disks):
        partial = erased and len(erased) < len(reported.disks)
        after = None if metadata or len(erased) == len(reported.disks) else fallen
        return ErasureVerdict(
            "partial" if partial else "failed", level if partial else "none", after
        )
    enough = LEVELS.index(level) >= LEVELS.index("purge" if wanted == "purge" else "clear")
    return ErasureVerdict("complete", level, DataState.CLEAN if enough and not metadata else None)


def after_waiver(before: str | None, step: StoredStep) -> DataState | None:
    """Return data_state after a step was waived, None if it stays.

    A step on child nodes erases no disk of its own node.
    """
    mine = erases_data(step) and not step_lists.for_children(step)
    return DataState.DIRTY if mine and before == DataState.CLEAN else None


def missing_disks(inventory: JsonView, disks: Sequence[Disk]) -> list[Disk]:
    """Return the disks of an inventory that a report does not have, as a record shows them."""
    return [
        cast(Disk, {**_shown(one), "name": title(one), **_LOST})
        for one in unreported(inventory, cast(Sequence[JsonView], disks))
    ]


_WHY = (
    "the inventory of the node has it, and the ramdisk did not report it. If it was taken out, "
    "inspect the node again; otherwise find out why the ramdisk does not see it. Then erase again"
)
_LOST = {"result": "missing", "level": "none", "why": _WHY}
_Same = Callable[[JsonView, JsonView], bool]


def unreported(inventory: JsonView, reported: Sequence[JsonView]) -> list[JsonView]:
    """Return the disks of an inventory that a report does not have.

    Each disk of the report stands for one of the inventory, because namespaces of one drive, and
    disks behind cheap bridges, may share a serial number. A drive that its controller shows as a
    member of volumes counts by these, if the report has all of them. Spares and unassigned drives
    do not.
    """
    left = list(reported)
    disks = _objects(inventory.get("disks"))
    # Controllers with two paths to a drive list it twice.
    named = {
        str([one.get(name) for name in _FACTS] if _is_numbered(one) else at): one
        for at, one in enumerate(disks)
    }
    missing = list(named.values())
    by_number: tuple[_Same, ...] = (_same_wwn, _same_serial, _same_unnamed)
    for same in by_number:
        missing = _unmatched(missing, left, same)
    if not missing:
        return []
    controllers = _objects(inventory.get("storage_controllers"))
    volumes = [one for each in controllers for one in _objects(each.get("volumes"))]
    lost = volumes
    by_volume: tuple[_Same, ...] = (_same_volume, _same_size)
    for same in by_volume:
        lost = _unmatched(lost, left, same)
    return [one for one in missing if not _counts_by_volumes(one, volumes, lost)]


_FACTS = ("name", "serial", "wwn", "size")
_PREFIXES = ("0x", "naa.", "eui.", "nguid.", "uuid.")
_SHORT_WWN = 16
"""Digits of a WWN without its extension, which some ramdisks leave out."""


def _unmatched(
    wanted: list[JsonView],
    left: list[JsonView],
    same: _Same,
) -> list[JsonView]:
    """Return what has no counterpart in ``left``, from which counterparts are removed."""
    missing = []
    for one in wanted:
        place = next((at for at, each in enumerate(left) if same(one, each)), None)
        if place is None:
            missing.append(one)
        else:
            del left[place]
    return missing


def _counts_by_volumes(
    drive: JsonView, volumes: Sequence[JsonView], lost: Sequence[JsonView]
) -> bool:
    """Return whether a drive is a member of volumes that are all reported."""
    mine = [
        each
        for each in volumes
        for member in _objects(each.get("members"))
        if _same_wwn(drive, member) or _same_serial(drive, member)
    ]
    return bool(mine) and not any(each is one for each in mine for one in lost)


def _same_wwn(one: JsonView, other: JsonView) -> bool:
    return bool(mine := _wwn(one)) and mine == _wwn(other)


def _same_serial(one: JsonView, other: JsonView) -> bool:
    return bool(mine := bare_number(one.get("serial"))) and mine == bare_number(other.get("serial"))


def _same_unnamed(one: JsonView, other: JsonView) -> bool:
    """Compare a disk without serial number and WWN by its name and size."""
    if _is_numbered(one):
        return False
    named = bool(bare_number(one.get("name"))) and one.get("name") == other.get("name")
    return named or _same_size(one, other)


def _is_numbered(disk: JsonView) -> bool:
    return bool(_wwn(disk) or bare_number(disk.get("serial")))


def _same_size(one: JsonView, other: JsonView) -> bool:
    size = one.get("size")
    return isinstance(size, int) and size > 0 and size == other.get("size")


def _same_volume(volume: JsonView, disk: JsonView) -> bool:
    short, long = sorted((_wwn(volume), _wwn(disk)), key=len)
    return short == long != "" or (len(short) >= _SHORT_WWN and long.startswith(short))


def _wwn(disk: JsonView) -> str:
    text = disk.get("wwn")
    if not isinstance(text, str):
        return ""
    text = text.strip().casefold()
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return bare_number(text)


def title(disk: JsonView) -> str:
    """Return the text that identifies a disk best; a placeholder if there is nothing else."""
    names = [disk.get(name) for name in ("serial", "wwn", "name")]
    texts = [text for text in names if isinstance(text, str) and text]
    return next(filter(bare_number, texts), next(iter(texts), "disk"))


def _shown(disk: JsonView) -> Json:
    kept = ("vendor", "model", "serial", "wwn", "size")
    return {name: disk[name] for name in kept if disk.get(name) is not None}


def _objects(value: object) -> list[JsonView]:
    found = value if isinstance(value, list) else []
    return [one for one in found if isinstance(one, dict)]
