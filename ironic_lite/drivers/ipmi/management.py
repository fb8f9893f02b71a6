"""Boot device, sensors, and the reset of the BMC itself, by IPMI."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base, restart
from ironic_lite.drivers.ipmi import bootdevice, flags, interface, reset, sensors, tool, vendors

SENSOR_SECONDS = 300.0
"""What reading all sensors may take: each is a command of its own, and a machine has hundreds."""


class IpmiManagement(interface.IpmiInterface, restart.RestartingManagement):
    """The management interface ``ipmitool``.

    IPMI has no boot mode of its own: it is a bit that comes with the boot device, taken from the
    node's capabilities (see `modes.wanted`).
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

    def restart_bmc(self, task: base.Task) -> None:
        """Tell the BMC to restart; `restart` waits for it."""
        reset.reset(task)

    def ask_bmc(self, task: base.Task, seconds: float) -> None:
        """Ask the BMC for its own description."""
        tool.run(task, ("mc", "info"), seconds=seconds)
