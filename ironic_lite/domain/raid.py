"""RAID configurations: the content of ``target_raid_config``, and its result.

Pure. ``PROPERTIES`` is the table of a logical disk's keys; `faults` reads it. The API checks the
outline (`outline`), the node's raid interface all of it (`check`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import vocabulary
from ironic_lite.domain.steps import Arg

LEVELS = ("JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0")
DISK_TYPES = ("hdd", "ssd")
INTERFACE_TYPES = ("sata", "scsi", "sas")
MAX = "MAX"
_DISKS = "logical_disks"
_HINT = "root_device_hint"
_MOST_FAULTS = 10
_MOST_GB = 2**53  # a number of bytes must stay exact in every JSON parser

_RAID_CONFIG = Arg('{"logical_disks": [...]}, the volumes to build', required=True)
_SWITCHES = {
    "create_root_volume": Arg(
        "true or false: whether the volume with is_root_volume is built. Default: true."
    ),
    "create_nonroot_volumes": Arg(
        "true or false: whether all other volumes are built. Default: true."
    ),
    "delete_existing": Arg(
        "true or false: whether all volumes that are there are deleted first. Default: false."
    ),
}
CREATE_ARGS: Mapping[str, Arg] = _SWITCHES
"""The arguments of the step ``create_configuration``."""
APPLY_ARGS: Mapping[str, Arg] = {"raid_config": _RAID_CONFIG, **_SWITCHES}
"""The arguments of the step ``apply_configuration``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """A fault and its path: ``logical_disks/0/size_gb``."""

    path: str
    reason: str


Reason = Callable[[Any], str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Property:
    """One key of a logical disk.

    ``check`` returns the fault of a value, or None.
    """

    name: str
    description: str
    check: Reason
    required: bool = False


# -- values ----------------------------------------------------------------------------------


def _is_size_integer(value: object, least: int) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and least <= value <= _MOST_GB  # type: ignore[operator]  # whole


def _one_of(*words: str) -> Reason:
    def reason(value: object) -> str | None:
        if isinstance(value, str) and value in words:
            return None
        return f"{errors.shown(value)} is not one of {', '.join(words)}"

    return reason


def _size_fault(value: object) -> str | None:
    if value == MAX or _is_size_integer(value, 0):
        return None
    return f'{errors.shown(value)} is neither an integer of 0 or more (GiB) nor "{MAX}"'


def _count_fault(value: object) -> str | None:
    return (
        None
        if _is_size_integer(value, 1)
        else f"{errors.shown(value)} is not an integer of 1 or more"
    )


def _boolean_fault(value: object) -> str | None:
    return None if isinstance(value, bool) else f"{errors.shown(value)} is not true or false"


def _text_fault(value: object) -> str | None:
    fits = isinstance(value, str) and value.strip()
    return None if fits else f"{errors.shown(value)} is not a text that says something"


def _physical_disks_fault(value: object) -> str | None:
    """Check names of disks, or the hints of a software RAID: at least two sets."""
    if not isinstance(value, list) or not value:
        return f"{errors.shown(value)} is not a list of disks, one at least"
    if all(isinstance(each, str) and each for each in value):
        twice = next((each for at, each in enumerate(value) if each in value[:at]), None)
        return None if twice is None else f"{errors.shown(twice)} is named twice"
    if all(isinstance(each, dict) and each for each in value):
        return None if len(value) > 1 else "hints must be given for two disks at least"
    return "must be all names of disks or all objects with hints"


PROPERTIES: tuple[Property, ...] = (
    Property(
        "raid_level",
        f"RAID level, one of {', '.join(LEVELS)}. Required.",
        _one_of(*LEVELS),
        required=True,
    ),
    Property(
        "size_gb",
        f'Size in GiB, an integer, or "{MAX}" for all that the disks have. Required.',
        _size_fault,
        required=True,
    ),
    Property(
        "volume_name", "Name of the volume. By default the controller finds one.", _text_fault
    ),
    Property(
        "is_root_volume",
        "true if the instance is written to this volume; one volume at most. Default: false.",
        _boolean_fault,
    ),
    Property(
        "share_physical_disks",
        "true if other volumes that say the same may lie on the same disks. Default: false.",
        _boolean_fault,
    ),
    Property(
        "disk_type", f"Only disks of this kind: {', '.join(DISK_TYPES)}.", _one_of(*DISK_TYPES)
    ),
    Property(
        "interface_type",
        f"Only disks with this interface: {', '.join(INTERFACE_TYPES)}.",
        _one_of(*INTERFACE_TYPES),
    ),
    Property(
        "number_of_physical_disks",
        "How many disks to use. By default as few as the level and the size need.",
        _count_fault,
    ),
    Property(
        "controller", "Name of the controller. By default any that has the disks.", _text_fault
    ),
    Property(
        "physical_disks",
        "List of the disks to use, by name; needs controller. By default they are chosen.",
        _physical_disks_fault,
    ),
)
_BY_NAME = {each.name: each for each in PROPERTIES}


def properties() -> dict[str, str]:
    """Return ``{key of a logical disk: description}``."""
    return {each.name: each.description for each in PROPERTIES}


# -- the whole -------------------------------------------------------------------------------


def outline(config: Any) -> Json:
    """Return a body that is ``{}`` or has a list of logical disks, unchecked.

    :raises errors.InvalidParameter: it is neither; naming the path.
    """
    found = config == {} and isinstance(config, dict)
    _refuse_faults([] if found else list(_outline_faults(config)), "")
    return dict(config)


def check(config: Any, root: str = "") -> list[Json]:
    """Return the logical disks of a valid configuration.

    :param root: the path of the configuration itself, ``target_raid_config`` for one.
    :raises errors.InvalidParameter: ``path`` is that of the first fault; the sentence has all.
    """
    _refuse_faults(faults(config), root)
    return [dict(disk) for disk in config[_DISKS]]


def faults(config: Any) -> list[Fault]:
    """Return all faults, in the order of the configuration."""
    found = list(_outline_faults(config))
    if found:
        return found
    for place, disk in enumerate(config[_DISKS]):
        found += _of_disk(f"{_DISKS}/{place}", disk)
    roots = [place for place, disk in enumerate(config[_DISKS]) if is_root(disk)]
    for place in roots[1:]:
        reason = f"there is a root volume already, {_DISKS}/{roots[0]}"
        found.append(Fault(f"{_DISKS}/{place}/is_root_volume", reason))
    return found


def _refuse_faults(found: Sequence[Fault], root: str) -> None:
    if not found:
        return
    placed = [Fault("/".join(filter(None, (root, each.path))), each.reason) for each in found]
    shown = [f"{each.path}: {each.reason}" if each.path else each.reason for each in placed]
    more = [f"and {len(shown) - _MOST_FAULTS} more"] if len(shown) > _MOST_FAULTS else []
    text = "; ".join([*shown[:_MOST_FAULTS], *more])
    raise errors.InvalidParameter(text, path=placed[0].path, reason=placed[0].reason)


def _outline_faults(config: object) -> Iterator[Fault]:
    if not isinstance(config, dict):
        yield Fault("", f'must be an object with a list "{_DISKS}", or {{}} for none')
        return
    for key in sorted(set(config) - {_DISKS}):
        yield Fault(key[:80], f"unknown key; there is only {_DISKS}")
    disks = config.get(_DISKS)
    if _DISKS not in config:
        yield Fault(_DISKS, "is required")
    elif not isinstance(disks, list) or not disks:
        yield Fault(_DISKS, "must be a list of logical disks, one at least")


def _of_disk(path: str, disk: object) -> Iterator[Fault]:
    if not isinstance(disk, dict):
        yield Fault(path, "must be an object")
        return
    for key in sorted(set(disk) - set(_BY_NAME)):
        yield Fault(f"{path}/{key[:80]}", f"unknown key; known are {', '.join(_BY_NAME)}")
    for each in PROPERTIES:
        if each.name in disk:
            reason = each.check(disk[each.name])
            if reason is not None:
                yield Fault(f"{path}/{each.name}", reason)
        elif each.required:
            yield Fault(f"{path}/{each.name}", "is required")
    if "physical_disks" in disk and "controller" not in disk:
        yield Fault(f"{path}/controller", "is required with physical_disks")


# -- what is to be built, and what was -------------------------------------------------------


def is_root(disk: object) -> bool:
    """Return whether a logical disk is the root volume."""
    return isinstance(disk, dict) and disk.get("is_root_volume") is True


def flag(name: str, value: object) -> bool:
    """Return the argument ``name`` of a step.

    :raises errors.InvalidParameter: it is not a boolean.
    """
    reason = _boolean_fault(value)
    if reason is not None:
        raise errors.InvalidParameter(path=name, reason=reason)
    return bool(value)


def wanted(
    disks: Sequence[Json], create_root_volume: object, create_nonroot_volumes: object
) -> list[Json]:
    """Return the logical disks selected by the arguments of a step.

    :raises errors.InvalidParameter: an argument is not a boolean, or no disk is left.
    """
    root = flag("create_root_volume", create_root_volume)
    other = flag("create_nonroot_volumes", create_nonroot_volumes)
    found = [disk for disk in disks if (root if is_root(disk) else other)]
    if not found:
        raise errors.InvalidParameter(
            path="create_root_volume, create_nonroot_volumes",
            reason="they leave no volume to build",
        )
    return found


def built(disks: Sequence[Json]) -> Json:
    """Return the ``raid_config`` of a node with these logical disks; {} without any."""
    if not disks:
        return {}
    return {
        _DISKS: [dict(disk) for disk in disks],
        "last_updated": f"{clock.now():%Y-%m-%dT%H:%M:%S}+00:00",
    }


def described(known: JsonView, disks: Sequence[Json], before: Sequence[Json] = ()) -> Json:
    """Return a node's properties with these logical disks.

    The root volume gives ``local_gb``, the capability ``raid_level`` and, from its
    ``root_device_hint``, ``root_device``. Without volumes ``root_device`` is removed, and so is the
    value of a root volume that no longer exists, because an instance could not be written there.

    :param before: the logical disks it had.
    """
    found = dict(known)
    hints = [one[_HINT] for one in before if is_root(one) and _HINT in one]
    if not disks or found.get("root_device") in hints:
        found.pop("root_device", None)
    root = next(filter(is_root, disks), None)
    if root is None:
        return found
    if root["size_gb"] != MAX:
        found["local_gb"] = root["size_gb"]
    if _HINT in root:
        found["root_device"] = root[_HINT]
    level = root["raid_level"]
    found["capabilities"] = vocabulary.put_capability(
        found.get("capabilities"), "raid_level", level
    )
    return found
