"""Choice of the disks for RAID volumes: a pure function of configuration and inventory.

Guarantees: the same machine gives the same answer; a disk is in two volumes only if both share; a
volume is never smaller than requested; disks of two kinds are never mixed unless they were named.
Named disks are assigned first, then volumes with a size in their order, then those of ``MAX``.
Among possible disks, the fewest and then the smallest are taken.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import raid

GIB = 1024**3
_SHOWN = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Level:
    """A RAID level: its least number of disks, whether it must be even, and the data disks."""

    least: int
    data: Callable[[int], int]
    even: bool = False
    grows: bool = True
    """More disks give more capacity."""


LEVELS: Mapping[str, Level] = {
    "0": Level(1, lambda n: n),
    "1": Level(2, lambda n: 1, grows=False),
    "5": Level(3, lambda n: n - 1),
    "6": Level(4, lambda n: n - 2),
    "1+0": Level(4, lambda n: n // 2, even=True),
    "5+0": Level(6, lambda n: n - 2, even=True),
    "6+0": Level(8, lambda n: n - 4, even=True),
}
"""Levels of Redfish controllers. Levels 5+0 and 6+0 are calculated with two spans."""


@dataclasses.dataclass(frozen=True, slots=True)
class RaidDisk:
    """A physical disk. ``path`` is unique, ``name`` is the operators' name for it.

    ``size`` is in bytes. ``kind`` is hdd or ssd and ``interface`` is sata, sas, scsi or nvme; None
    if the BMC does not report them. ``trouble`` is the reason why it cannot be used, such as a
    volume on it.
    """

    path: str
    name: str
    size: int
    kind: str | None = None
    interface: str | None = None
    label: str = ""
    trouble: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ControllerDisks:
    """A controller with its disks; ``levels`` is None if it does not report its RAID levels."""

    name: str
    disks: tuple[RaidDisk, ...]
    levels: frozenset[str] | None = None
    label: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class DiskChoice:
    """A volume to build: ``size`` in bytes, None for all of ``room``, the bytes available.

    ``last``: it takes the rest of disks that it shares, so the other volumes are built before it.
    """

    wanted: JsonView
    controller: ControllerDisks
    disks: tuple[RaidDisk, ...]
    size: int | None
    room: int

    @property
    def last(self) -> bool:
        """Return whether the volumes with a size must be built before it."""
        return self.size is None and self.wanted.get("share_physical_disks") is True


@dataclasses.dataclass(slots=True)
class _DiskGroup:
    """Disks that volumes of one level share, and the free bytes on each of them."""

    level: str
    controller: ControllerDisks
    disks: tuple[RaidDisk, ...]
    left: int


def choose_disks(
    wanted: Sequence[tuple[str, JsonView]], controllers: Sequence[ControllerDisks]
) -> list[DiskChoice]:
    """Return the place of each volume, in the order given.

    :param wanted: (path for errors, logical disk) pairs; the disks have passed ``raid.check``.
    :raises errors.InvalidParameter: with the path and reason of the first impossible volume.
    """
    plan = _SelectionPlan(controllers)
    order = sorted(range(len(wanted)), key=lambda at: (_placement_order(wanted[at][1]), at))
    found = {at: plan.place(*wanted[at]) for at in order}
    return [found[at] for at in range(len(wanted))]


def volume_capacity(level: str, count: int, least: int) -> int:
    """Return the bytes of a volume on ``count`` disks, of which the smallest has ``least``."""
    return LEVELS[level].data(count) * least


def _placement_order(disk: JsonView) -> tuple[bool, bool]:
    return ("physical_disks" not in disk, disk["size_gb"] == raid.MAX)


class _SelectionPlan:
    """Assignment of disks to one volume after another."""

    def __init__(self, controllers: Sequence[ControllerDisks]) -> None:
        self._controllers = sorted(controllers, key=lambda one: _natural_key(one.name))
        self._taken: set[str] = set()
        self._groups: list[_DiskGroup] = []

    def place(self, path: str, disk: JsonView) -> DiskChoice:
        """Return the place of a volume and reserve it.

        :raises errors.InvalidParameter: there is no place.
        """
        if disk["raid_level"] not in LEVELS:
            raise _no_place(f"{path}/raid_level", _unknown_level(disk["raid_level"], LEVELS))
        controllers = self._able_controllers(path, disk)
        if disk.get("share_physical_disks"):
            group = next(
                (each for each in self._groups if _can_join(disk, each, controllers)), None
            )
            if group is not None:
                return self._take_group(disk, group)
        if "physical_disks" in disk:
            disks = self._named_disks(path, disk, controllers[0])
            return self._take_group(disk, self._disk_group(disk, controllers[0], disks))
        pools = [pool for one in controllers for pool in self._disk_pools(one, disk)]
        offers = [offer for pool in pools for offer in _group_offers(disk, *pool)]
        if not offers:
            raise _no_place(path, _reason_without_place(disk, controllers, pools))
        best = min(enumerate(offers), key=lambda each: (_offer_rank(disk, each[1]), each[0]))[1]
        return self._take_group(disk, best)

    def _able_controllers(self, path: str, disk: JsonView) -> list[ControllerDisks]:
        """Return the requested controllers that support the level, preferably those reporting
        it."""
        level, name = disk["raid_level"], disk.get("controller")
        meant = [one for one in self._controllers if name in {None, one.name}]
        meant = meant or [one for one in self._controllers if name == one.label]
        if "physical_disks" in disk and len(meant) > 1:
            names = ", ".join(one.name for one in meant)
            raise _no_place(
                f"{path}/controller", f"{name!r} may be any of {names}; use one of them"
            )
        if not meant:
            known = ", ".join(one.name for one in self._controllers) or "none"
            where = path if name is None else f"{path}/controller"
            said = "" if name is None else f"there is no {name!r}; "
            raise _no_place(where, f"{said}the RAID controllers of the machine are: {known}")
        sure = [one for one in meant if one.levels is not None and level in one.levels]
        able = sure or [one for one in meant if one.levels is None]
        if not able:
            told = "; ".join(
                f"controller {one.name} makes {', '.join(sorted(one.levels or ())) or 'none'}"
                for one in meant
            )
            raise _no_place(f"{path}/raid_level", f"{level} is not possible: {told}")
        return able

    def _named_disks(
        self, path: str, disk: JsonView, controller: ControllerDisks
    ) -> tuple[RaidDisk, ...]:
        """Return the disks that an operator named.

        :raises errors.InvalidParameter: a disk is missing or not free, or there are too few.
        """
        found = []
        for place, name in enumerate(disk["physical_disks"]):
            here = f"{path}/physical_disks/{place}"
            known = [one for one in controller.disks if name in {one.name, one.path}]
            known = known or [one for one in controller.disks if name == one.label]
            if len(known) != 1:
                names = ", ".join(one.name for one in controller.disks) or "none"
                there = "exists more than once" if known else "does not exist"
                raise _no_place(
                    here, f"{name!r} {there}; controller {controller.name} has: {names}"
                )
            reason = known[0].trouble
            if reason is None and (known[0].path in self._taken or known[0] in found):
                reason = "another volume of this configuration uses it"
            if reason is not None:
                raise _no_place(here, f"disk {name} cannot be used: {reason}")
            found.append(known[0])
        _check_count(path, disk, len(found))
        group = self._disk_group(disk, controller, tuple(found))
        if _needed_bytes(disk, len(found)) > group.left:
            room = volume_capacity(disk["raid_level"], len(found), group.left) // GIB
            raise _no_place(f"{path}/size_gb", f"these disks have room for {room} GiB only")
        return group.disks

    def _disk_pools(
        self, controller: ControllerDisks, disk: JsonView
    ) -> Iterator[tuple[ControllerDisks, list[RaidDisk]]]:
        """Yield the usable free disks of a controller, each kind separately."""
        pools: dict[tuple[str, str], list[RaidDisk]] = {}
        for one in controller.disks:
            if one.trouble is None and one.path not in self._taken and _disk_fits(disk, one):
                pools.setdefault((one.kind or "", one.interface or ""), []).append(one)
        for _, pool in sorted(pools.items()):
            yield (
                controller,
                sorted(pool, key=lambda one: (one.size, _natural_key(one.name), one.path)),
            )

    @staticmethod
    def _disk_group(
        disk: JsonView, controller: ControllerDisks, disks: tuple[RaidDisk, ...]
    ) -> _DiskGroup:
        return _DiskGroup(disk["raid_level"], controller, disks, min(one.size for one in disks))

    def _take_group(self, disk: JsonView, group: _DiskGroup) -> DiskChoice:
        room = volume_capacity(group.level, len(group.disks), group.left)
        size = None if disk["size_gb"] == raid.MAX else disk["size_gb"] * GIB
        group.left -= group.left if size is None else _needed_bytes(disk, len(group.disks))
        self._taken.update(one.path for one in group.disks)
        if disk.get("share_physical_disks") and group not in self._groups:
            self._groups.append(group)
        return DiskChoice(disk, group.controller, group.disks, size, room)


def _group_offers(
    disk: JsonView, controller: ControllerDisks, pool: Sequence[RaidDisk]
) -> Iterator[_DiskGroup]:
    """Yield the best place for each sufficient number of disks, from a pool sorted by size."""
    level = disk["raid_level"]
    for count in _disk_counts(disk, len(pool)):
        windows = [tuple(pool[at : at + count]) for at in range(len(pool) - count + 1)]
        if disk["size_gb"] == raid.MAX:
            windows.reverse()
        for window in windows:
            if window[0].size >= max(1, _needed_bytes(disk, count)):
                yield _DiskGroup(level, controller, window, window[0].size)
                break


def _disk_counts(disk: JsonView, available: int) -> Iterable[int]:
    """Return the numbers of disks to try, fewest first."""
    level, asked = LEVELS[disk["raid_level"]], disk.get("number_of_physical_disks")
    if asked is not None:
        return [asked] if _count_allowed(level, asked) and asked <= available else []
    most = available if level.grows and disk["size_gb"] != raid.MAX else level.least
    return (n for n in range(level.least, min(most, available) + 1) if _count_allowed(level, n))


def _count_allowed(level: Level, count: int) -> bool:
    return count >= level.least and not (level.even and count % 2)


def _offer_rank(disk: JsonView, group: _DiskGroup) -> tuple[int, int]:
    """Return the sort key of offers: fewest disks, least space used; for MAX, most space first."""
    if disk["size_gb"] == raid.MAX:
        return (-volume_capacity(group.level, len(group.disks), group.left), len(group.disks))
    return (len(group.disks), sum(one.size for one in group.disks))


def _needed_bytes(disk: JsonView, count: int) -> int:
    """Return the bytes that a volume takes on each of its disks; 1 for MAX."""
    if disk["size_gb"] == raid.MAX:
        return 1
    size: int = disk["size_gb"] * GIB
    return -(-size // LEVELS[disk["raid_level"]].data(count))


def _disk_fits(wanted: JsonView, disk: RaidDisk) -> bool:
    kind, interface = wanted.get("disk_type"), wanted.get("interface_type")
    return kind in {None, disk.kind} and interface in {None, disk.interface}


def _can_join(wanted: JsonView, group: _DiskGroup, controllers: Sequence[ControllerDisks]) -> bool:
    """Return whether a volume that shares disks fits beside the volumes already placed."""
    count = len(group.disks)
    names = wanted.get("physical_disks")
    return (
        group.level == wanted["raid_level"]
        and group.controller in controllers
        and all(_disk_fits(wanted, one) for one in group.disks)
        and wanted.get("number_of_physical_disks", count) == count
        and (names is None or sorted(names) == sorted(one.name for one in group.disks))
        and 0 < _needed_bytes(wanted, count) <= group.left
    )


# -- reasons for refusals --------------------------------------------------------------------


def _no_place(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)


def _unknown_level(level: str, known: Iterable[str]) -> str:
    return f"{level} is not possible by Redfish; possible are {', '.join(known)}"


def _check_count(path: str, disk: JsonView, count: int) -> None:
    level, asked = LEVELS[disk["raid_level"]], disk.get("number_of_physical_disks", count)
    if asked != count:
        raise _no_place(f"{path}/number_of_physical_disks", f"{asked}, but {count} disks are named")
    if not _count_allowed(level, count):
        raise _no_place(
            f"{path}/physical_disks", f"{_least_disks_text(disk['raid_level'])}, not {count}"
        )


def _least_disks_text(name: str) -> str:
    level = LEVELS[name]
    return f"RAID {name} needs {level.least} disks or more{', an even number' * level.even}"


def _reason_without_place(
    disk: JsonView,
    controllers: Sequence[ControllerDisks],
    pools: Sequence[tuple[ControllerDisks, list[RaidDisk]]],
) -> str:
    """Return why no place was found (number or size of disks), and the disks that are not free."""
    name, asked = disk["raid_level"], disk.get("number_of_physical_disks")
    if asked is not None and not _count_allowed(LEVELS[name], asked):
        return f"{_least_disks_text(name)}, not {asked}"
    number = asked or LEVELS[name].least
    like = [disk[key] for key in ("disk_type", "interface_type") if key in disk]
    kinds = f" ({', '.join(like)})" if like else ""
    most = max((len(pool) for _, pool in pools), default=0)
    if most >= number:
        room = max(
            volume_capacity(name, number if asked else _most_disks(name, len(pool)), pool[0].size)
            for _, pool in pools
            if len(pool) >= number
        )
        said = f"{disk['size_gb']} GiB do not fit: the free disks{kinds} give {room // GIB} GiB"
    else:
        said = f"RAID {name} needs {number} free disks of one kind{kinds}, there are {most}"
    return said + _not_free(controllers)


def _most_disks(name: str, available: int) -> int:
    level = LEVELS[name]
    if not level.grows:
        return level.least
    return max(n for n in range(level.least, available + 1) if _count_allowed(level, n))


def _not_free(controllers: Sequence[ControllerDisks]) -> str:
    disks = (one for each in controllers for one in each.disks)
    told = [f"{one.name}: {one.trouble}" for one in disks if one.trouble is not None]
    more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    return f". Not free: {'; '.join([*told[:_SHOWN], *more])}" if told else ""


def _natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a key that puts disk 2 before disk 10."""
    parts = enumerate(re.split(r"([0-9]+)", name))
    return tuple((0, int(part)) if at % 2 else (1, part) for at, part in parts if part)
