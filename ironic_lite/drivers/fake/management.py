"""Boot device, boot mode and BMC of a machine that is not there."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

DEVICE = "fake_boot_device"
MODE = "fake_boot_mode"
DEVICES = ("pxe", "disk", "cdrom", "bios", "safe", "wanboot", "iscsiboot", "floppy", "uefihttp")
MODES = ("bios", "uefi")


class FakeManagement(stage.Staged, base.Management):
    """Remembers on the node what it was told. A new machine boots from the network."""

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return all devices there are."""
        return list(DEVICES)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Remember the device.

        :raises errors.InvalidParameter: naming ``boot_device``.
        """
        if device not in DEVICES:
            raise errors.InvalidParameter(
                path="boot_device", reason=f"{device!r} is not one of {', '.join(DEVICES)}"
            )
        task.keep(DEVICE, {"boot_device": device, "persistent": persistent})

    def get_boot_device(self, task: base.Task) -> dict[str, Any]:
        """Return what was set last."""
        return dict(task.recall(DEVICE) or {"boot_device": "pxe", "persistent": False})

    def get_supported_boot_modes(self, task: base.Task) -> list[str]:
        """Return both."""
        return list(MODES)

    def set_boot_mode(self, task: base.Task, mode: str) -> None:
        """Remember the mode.

        :raises errors.InvalidParameter: naming ``boot_mode``.
        """
        if mode not in MODES:
            raise errors.InvalidParameter(
                path="boot_mode", reason=f"{mode!r} is not one of {', '.join(MODES)}"
            )
        task.keep(MODE, mode)

    def get_boot_mode(self, task: base.Task) -> str | None:
        """Return what was set last, None if nothing was."""
        mode: str | None = task.recall(MODE)
        return mode

    @base.clean_step(priority=0, requires_ramdisk=False)
    def reset_bmc(self, task: base.Task) -> None:
        """Start the BMC anew; what it remembers about the machine stays."""

    @base.verify_step(priority=10)
    def verify_access(self, task: base.Task) -> None:
        """Show that the BMC can be spoken to.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``verify``.
        """
        stage.fail_verb(task, "verify")
