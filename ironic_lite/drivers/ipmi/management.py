"""Boot device, sensors, and the reset of the BMC itself, by IPMI."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import bootdevice, flags, interface, sensors, tool, vendors

RESET_NOTE = "ipmi_bmc_reset_until"
"""Where the time (seconds since the epoch) is kept at which a BMC must be back."""

RESET_SECONDS = 900.0
"""A BMC that starts takes one to five minutes; after this long it will not come."""

RESET_PAUSE = 15.0
"""Seconds before the first and between further looks whether it is back; it takes some to go."""

SENSOR_SECONDS = 300.0
"""What reading all sensors may take: each is a command of its own, and a machine has hundreds."""


class IpmiManagement(interface.IpmiInterface, base.Management):
    """The management interface ``ipmitool``.

    IPMI has no boot mode of its own: it is a bit that comes with the boot device, taken from the
    node's capabilities (see `bootdevice.mode`).
    """

    # -- boot device ----------------------------------------------------------------------

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return what IPMI has; a BMC does not say which of them its machine has."""
        return list(flags.DEVICES)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Set the device of the next boot, or of each one.

        :raises errors.InvalidParameter: IPMI does not know that device, or the boot mode in the
            node's capabilities is none.
        """
        if device not in flags.DEVICES:
            reason = f"{device!r} is not one of {', '.join(flags.DEVICES)}"
            raise errors.InvalidParameter(path="boot_device", reason=reason)
        bootdevice.choose(task, device, persistent=persistent)

    def get_boot_device(self, task: base.Task) -> dict[str, Any]:
        """Return the device that was last chosen; of a BMC that forgets it, the one kept here."""
        return bootdevice.read(task)

    # -- what the machine tells -----------------------------------------------------------

    def get_sensors_data(self, task: base.Task) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the sensors by type, in ipmitool's words."""
        return sensors.parse(tool.run(task, ("sdr",), seconds=SENSOR_SECONDS))

    def detect_vendor(self, task: base.Task) -> str | None:
        """Return the maker's name in lower case, None if the BMC gives none."""
        return vendors.detect(task)

    def inject_nmi(self, task: base.Task) -> None:
        """Give the machine a diagnostic interrupt."""
        tool.run(task, ("power", "diag"), once=True)

    # -- the BMC itself -------------------------------------------------------------------

    @base.clean_step(priority=0, requires_ramdisk=False)
    @base.service_step(requires_ramdisk=False, rerunnable=True)
    def reset_bmc(self, task: base.Task) -> base.Outcome:
        """Restart the BMC and wait until it answers again; the machine itself keeps running."""
        tool.run(task, ("mc", "reset", "cold"), once=True)
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
            tool.run(task, ("mc", "info"), seconds=RESET_PAUSE)
        except errors.HardwareError as why:
            if time.time() > float(task.recall(RESET_NOTE, 0)):
                reason = f"the BMC did not come back within {RESET_SECONDS:g} s: {why}"
                raise errors.StepFailed(step="management.reset_bmc", reason=reason) from None
            task.wake_after(RESET_PAUSE)
            return base.WAIT
        task.keep(RESET_NOTE, None)
        return base.DONE
