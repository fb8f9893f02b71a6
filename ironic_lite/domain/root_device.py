"""Root device hints, ``properties/root_device``, and the disks they match. Pure.

Hints are words of Ironic, compared as ironic-python-agent compares them: by the operators of
oslo.utils, such as ``">= 100"`` or ``"s!= nvme0"``; without an operator, a hint must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable

from ironic_lite.core.json_types import Json, JsonView

GIB = 1024**3

HINTS = (
    *("model", "vendor", "serial", "size", "wwn", "wwn_with_extension", "wwn_vendor_extension"),
    *("name", "by_path", "hctl", "rotational"),
)
_OPERATORS = (
    *("=", "==", "!=", "<=", ">=", "s==", "s!=", "s>=", "s>", "s<=", "s<"),
    *("<in>", "<or>", "<all-in>", "<range-in>"),
)
_TRUE = frozenset({"true", "1", "yes", "on"})


def matching(disks: object, hints: JsonView) -> Json | None:
    """Return the first disk that matches all hints, None without one.

    :param disks: of an inventory, sizes in bytes; ``size`` in hints is in GiB.
    :raises ValueError: a hint is invalid, naming it.
    """
    unknown = sorted(set(hints) - set(HINTS))
    if unknown:
        raise ValueError(unknown[0])
    for disk in _disk_objects(disks):
        if all(_disk_fits(disk, name, wanted) for name, wanted in hints.items()):
            return disk
    return None


def serials(disks: object) -> list[str]:
    """Return the serial numbers of disks, in their order, without missing ones."""
    return [disk["serial"] for disk in _disk_objects(disks) if isinstance(disk.get("serial"), str)]


def _disk_objects(disks: object) -> Iterable[Json]:
    return (one for one in disks if isinstance(one, dict)) if isinstance(disks, list) else ()


def _disk_fits(disk: Json, name: str, wanted: object) -> bool:
    told = disk.get(name)
    if told is None:
        return False
    if name == "rotational":
        return bool(told) == (str(wanted).strip().lower() in _TRUE)
    if name == "size":
        whole = isinstance(told, int | float)
        return whole and _values_match(str(int(told // GIB)), str(wanted), numeric=True)
    return _values_match(str(told).strip().lower(), str(wanted).strip().lower())


def _values_match(told: str, wanted: str, *, numeric: bool = False) -> bool:
    first = wanted.split(maxsplit=1)[0] if wanted.split() else ""
    if first in _OPERATORS:
        from oslo_utils import specs_matcher  # noqa: PLC0415  # a parser, for hints that few write

        return bool(specs_matcher.match(told, wanted))
    return float(told) == float(wanted) if numeric else told == wanted
