"""Configuration drive of a ramdisk instance, as a second virtual medium beside the boot medium.

The machine sees a USB stick, which the instance finds by its label.
"""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import medium
from ironic_lite.drivers.redfish.media import virtual_drives
from ironic_lite.images import configdrive, published

DEVICE = "disk"
"""The device type of the drive."""
BOTH = ("cdrom", DEVICE)
"""Device types to empty before two media are inserted, because one drive may support both."""


def check(drives: Sequence[virtual_drives.Drive]) -> None:
    """Reject a machine whose BMC cannot present both media at once.

    :raises errors.InvalidParameter: naming ``instance_info/configdrive``.
    """
    discs = {_drive_name(drive) for drive in drives if "cdrom" in drive.devices}
    sticks = {_drive_name(drive) for drive in drives if DEVICE in drive.devices}
    if any(sticks - {disc} for disc in discs):
        return
    has = ", ".join(f"{_drive_name(drive)} ({'/'.join(drive.types)})" for drive in drives)
    reason = (
        "needs a virtual USB stick beside the virtual CD that the machine boots from; its BMC has "
        f"{has}: leave the drive out, and give the instance its parameters in "
        "instance_info/ramdisk_kernel_arguments"
    )
    raise errors.InvalidParameter(path=configdrive.PATH, reason=reason)


def publish(task: base.Task, name: str) -> Json | None:
    """Publish the drive for the BMC; return the note about it, None without a drive.

    :param name: from `medium.new_name`.
    :raises errors.Error: the drive is not available, or cannot be written.
    """
    content = medium.drive(task)
    if content is None:
        return None
    task.confirm_lock()
    published.write(published.root() / name, content)
    return {"name": name, "url": published.url(name, task.node.driver_info)}


def by_choice(drives: Sequence[virtual_drives.Drive]) -> list[virtual_drives.Drive]:
    """Sort the drives so that those which cannot be a stick come first for the disc."""
    return sorted(drives, key=lambda drive: DEVICE in drive.devices)


def insert(task: base.Task, url: str, disc: virtual_drives.Drive) -> None:
    """Insert the drive into an empty stick.

    :param disc: the drive with the boot medium, because not all BMCs show it as full.
    :raises errors.InvalidParameter, errors.HardwareError: as `virtual_drives.attach`, or no stick
        is empty.
    """
    sticks = [drive for drive in virtual_drives.drives(task) if DEVICE in drive.devices]
    left = [drive for drive in sticks if not drive.full and _drive_name(drive) != _drive_name(disc)]
    if not left:
        reason = "The BMC shows no empty virtual USB stick for the configuration drive. Check it."
        raise errors.HardwareError(reason=reason)
    virtual_drives.fill(task, left, url)


def _drive_name(drive: virtual_drives.Drive) -> str:
    """Return a drive's name, which is equal in the system's list and in the manager's list."""
    return drive.path.rstrip("/").rpartition("/")[2]
