"""Check of a configuration for the agent's software RAID. Pure.

The rules are those of ironic-python-agent, which would report a fault only minutes later, after the
machine has lost its volumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import raid

SOFTWARE = "software"
"""The ``controller`` of software RAID volumes."""
FIRST = "1"
"""The level of the first volume, from which the machine boots."""
SECOND = ("0", "1", "5", "6", "1+0")
MOST = 2
"""Limit of the number of volumes."""
_UNREAD = ("number_of_physical_disks", "disk_type", "interface_type")
"""Keys that the agent ignores: without ``physical_disks`` it takes every disk it finds."""


def check(config: object, root: str = "") -> list[Json]:
    """Return the logical disks of a configuration that an agent may build.

    :param root: the path of the configuration itself, such as ``target_raid_config``.
    :raises errors.InvalidParameter: naming the path.
    """
    disks = raid.check(config, root)
    for fault in faults(disks):
        path = "/".join(filter(None, (root, fault.path)))
        raise errors.InvalidParameter(path=path, reason=fault.reason)
    return disks


def faults(disks: Sequence[JsonView]) -> Iterator[raid.Fault]:
    """Yield faults of software RAID; volumes of hardware controllers have none."""
    if not any(disk.get("controller") == SOFTWARE for disk in disks):
        return
    for place, disk in enumerate(disks):
        yield from _of_disk(f"logical_disks/{place}", disk)
    if len(disks) > MOST:
        path, reason = f"logical_disks/{MOST}", f"software RAID has at most {MOST} volumes"
        yield raid.Fault(path, reason)
    if disks[0]["raid_level"] != FIRST:
        reason = f"the first volume of software RAID must be of level {FIRST}"
        yield raid.Fault("logical_disks/0/raid_level", reason)
    for place, disk in enumerate(disks[1:], 1):
        yield from _of_further(f"logical_disks/{place}", disk, disks[:place])


def _of_disk(path: str, disk: JsonView) -> Iterator[raid.Fault]:
    if disk.get("controller") != SOFTWARE:
        reason = f'must be "{SOFTWARE}" for all volumes or for none'
        yield raid.Fault(f"{path}/controller", reason)
    if disk["size_gb"] == 0:
        yield raid.Fault(f"{path}/size_gb", "a volume has at least 1 GiB")
    if any(isinstance(one, str) for one in disk.get("physical_disks", ())):
        reason = 'must be objects with hints, such as {"size": ">= 100"}, for software RAID'
        yield raid.Fault(f"{path}/physical_disks", reason)
    for name in _UNREAD:
        if name in disk:
            reason = (
                "is ignored by software RAID, which would take all disks: choose disks by "
                'hints in physical_disks, such as {"rotational": false}'
            )
            yield raid.Fault(f"{path}/{name}", reason)


def _of_further(path: str, disk: JsonView, before: Sequence[JsonView]) -> Iterator[raid.Fault]:
    if disk["raid_level"] not in SECOND:
        reason = f"{disk['raid_level']} is not one of {', '.join(SECOND)}, for software RAID"
        yield raid.Fault(f"{path}/raid_level", reason)
    if disk["size_gb"] == raid.MAX and any(one["size_gb"] == raid.MAX for one in before):
        yield raid.Fault(f"{path}/size_gb", f'only one volume can have "{raid.MAX}"')
    name = disk.get("volume_name")
    if name is not None and any(one.get("volume_name") == name for one in before):
        yield raid.Fault(f"{path}/volume_name", f"{name!r} is the name of another volume")
