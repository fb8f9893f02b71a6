"""Boot device, boot mode and the reset of the BMC itself, by Redfish."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import sushy

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import connection, interface, override

RESET_NOTE = "redfish_bmc_reset_until"
"""Where the time (seconds since the epoch) is kept at which a BMC must be back."""

RESET_SECONDS = 900.0
"""A BMC that starts takes one to five minutes; after this long it will not come."""

RESET_PAUSE = 15.0
"""Seconds before the first and between further looks whether it is back; it takes some to go."""

_RESETS = (sushy.ResetType.GRACEFUL_RESTART, sushy.ResetType.FORCE_RESTART)


class RedfishManagement(interface.RedfishInterface, base.Management):
    """The management interface ``redfish``."""

    # -- boot device and mode -------------------------------------------------------------

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return those of pxe, disk, cdrom, bios and uefihttp that the machine offers."""
        return connection.call(task, override.devices)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Set the device of the next boot, or of each one; a BMC that refuses the latter is helped.

        :raises errors.InvalidParameter: the machine does not offer that device.
        """
        if device not in override.TARGETS:
            reason = f"{device!r} is not one of {', '.join(override.TARGETS)}"
            raise errors.InvalidParameter(path="boot_device", reason=reason)
        override.choose(task, device, persistent=persistent)

    def get_boot_device(self, task: base.Task) -> dict[str, Any]:
        """Return device and persistence; a device that is set anew for each boot is persistent."""
        found = connection.call(task, override.read)
        kept = task.recall(override.NOTE)
        # The BMC of such a node only knows Once; another device there is meant for one boot.
        if kept is not None and found["boot_device"] in {None, kept}:
            return {"boot_device": kept, "persistent": True}
        return found

    def get_supported_boot_modes(self, task: base.Task) -> list[str]:
        """Return those of bios and uefi that the machine offers."""
        return connection.call(task, override.modes)

    def set_boot_mode(self, task: base.Task, mode: str) -> None:
        """Set bios or uefi; most machines take it up at their next boot.

        :raises errors.InvalidParameter: no such mode.
        """
        if mode not in override.MODES:
            reason = f"{mode!r} is not one of {', '.join(override.MODES)}"
            raise errors.InvalidParameter(path="boot_mode", reason=reason)
        connection.call(task, lambda link: override.set_mode(link, mode), read=False)

    def get_boot_mode(self, task: base.Task) -> str | None:
        """Return bios, uefi, or None when the machine does not say."""
        return connection.call(task, override.mode_of)

    # -- the BMC itself -------------------------------------------------------------------

    @base.clean_step(priority=0, requires_ramdisk=False)
    @base.service_step(requires_ramdisk=False, rerunnable=True)
    def reset_bmc(self, task: base.Task) -> base.Outcome:
        """Restart the BMC and wait until it answers again; the machine itself keeps running.

        :raises errors.UnsupportedDriverExtension: the BMC cannot be told to.
        """
        done = connection.call(task, _reset_bmc, read=False)
        if not done:
            raise self.unsupported(task, "reset_bmc on this BMC: it offers no Manager.Reset")
        task.keep(RESET_NOTE, time.time() + RESET_SECONDS)
        task.wake_after(RESET_PAUSE)
        return base.WAIT

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome:
        """Say whether the BMC is back.

        :raises errors.StepFailed: it is not, and had time enough.
        """
        try:
            connection.call(task, connection.Link.power_word)
        except errors.HardwareError as why:
            if time.time() > float(task.recall(RESET_NOTE, 0)):
                reason = f"the BMC did not come back within {RESET_SECONDS:g} s: {why}"
                raise errors.StepFailed(step="management.reset_bmc", reason=reason) from None
            task.wake_after(RESET_PAUSE)
            return base.WAIT
        task.keep(RESET_NOTE, None)
        return base.DONE


def _reset_bmc(link: connection.Link) -> bool:
    """Restart the managers of the system; False if none can be."""
    done = False
    for manager in link.system().managers:
        if "#Manager.Reset" not in (manager.json.get("Actions") or {}):
            continue
        known = manager.get_allowed_reset_manager_values()
        best = next((reset for reset in _RESETS if reset in known), None)
        if best is not None:
            manager.reset_manager(best)
            done = True
    if done:
        # Its sessions do not outlive it.
        link.forget()
    return done
