"""The configuration drive of an instance in memory: a second medium beside the one it boots from.

The machine sees it as a USB stick, by whose label its system finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import medium
from ironic_lite.drivers.redfish import media
from ironic_lite.images import configdrive, published

DEVICE = "disk"
"""What the drive is for the machine."""
BOTH = ("cdrom", DEVICE)
"""What is emptied before two media are inserted: one drive may be either."""


def check(drives: Sequence[media.Drive]) -> None:
    """Refuse a machine that cannot be shown both media at once.

    :raises errors.InvalidParameter: naming ``instance_info/configdrive``.
    """
    discs = {_name(drive) for drive in drives if "cdrom" in drive.devices}
    sticks = {_name(drive) for drive in drives if DEVICE in drive.devices}
    if any(sticks - {disc} for disc in discs):
        return
    has = ", ".join(f"{_name(drive)} ({'/'.join(drive.types)})" for drive in drives)
    reason = (
        "needs a virtual USB stick beside the virtual CD that the machine boots from; its BMC has "
        f"{has}: leave the drive out, and say what the instance must know in "
        "instance_info/ramdisk_kernel_arguments"
    )
    raise errors.InvalidParameter(path=configdrive.PATH, reason=reason)


def publish(task: base.Task, name: str) -> dict[str, Any] | None:
    """Put the drive where the BMC finds it; return what is to be noted of it, None without one.

    :param name: from `medium.new_name`.
    :raises errors.Error: it cannot be had, or cannot be written.
    """
    content = medium.drive(task)
    if content is None:
        return None
    published.write(published.root() / name, content)
    return {"name": name, "url": published.url(name, task.node.driver_info)}


def by_choice(drives: Sequence[media.Drive]) -> list[media.Drive]:
    """Return the drives in another order: those that can be no stick are to hold the disc."""
    return sorted(drives, key=lambda drive: DEVICE in drive.devices)


def insert(task: base.Task, url: str, disc: media.Drive) -> None:
    """Put the drive into an empty stick.

    :param disc: what holds the other medium: not all BMCs show it.
    :raises errors.InvalidParameter, errors.HardwareError: as `media.attach`, and where no stick is
        empty.
    """
    sticks = [drive for drive in media.drives(task) if DEVICE in drive.devices]
    left = [drive for drive in sticks if not drive.full and _name(drive) != _name(disc)]
    if not left:
        reason = "The BMC shows no empty virtual USB stick for the configuration drive. Look at it."
        raise errors.HardwareError(reason=reason)
    media.fill(task, left, url)


def _name(drive: media.Drive) -> str:
    """Return what a drive is called in the system's list and in the manager's: both may have it."""
    return drive.path.rstrip("/").rpartition("/")[2]
