"""Boot device, sensors, and the reset of the BMC itself, by IPMI."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base, bmc_reset
from ironic_lite.drivers.ipmi import bootdevice, flags, interface, reset, sensors, tool, vendors

SENSOR_SECONDS = 300.0
"""Time limit for reading all sensors, as each is a command and a machine has hundreds."""


class IpmiManagement(interface.IpmiInterface, bmc_reset.RestartingManagement):
    """The management interface ``ipmitool``.

    IPMI has no separate boot mode. The mode is a bit sent with the boot device, taken from the
    node's capabilities (see `modes.wanted`).
    """

    # -- boot device ----------------------------------------------------------------------

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return IPMI's devices; a BMC does not report which of them its machine supports."""
        return list(flags.DEVICES)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Set the device of the next boot, or of all boots.

        :raises errors.InvalidParameter: IPMI does not have that device, or the boot mode in the
            node's capabilities is invalid.
        """
        if device not in flags.DEVICES:
            reason = f"{device!r} is not one of {', '.join(flags.DEVICES)}"
            raise errors.InvalidParameter(path="boot_device", reason=reason)
        bootdevice.choose(task, device, persistent=persistent)

    def get_boot_device(self, task: base.Task) -> Json:
        """Return the last chosen device; for a forgetful BMC, the stored one."""
        return bootdevice.read(task)

    # -- reports of the machine -----------------------------------------------------------

    def get_sensors_data(self, task: base.Task) -> dict[str, dict[str, Json]]:
        """Return the sensors by type, in ipmitool's words."""
        return sensors.parse(tool.run(task, ("sdr",), seconds=SENSOR_SECONDS))

    def detect_vendor(self, task: base.Task) -> str | None:
        """Return the vendor's name in lower case, None if the BMC reports none."""
        return vendors.detect(task)

    def inject_nmi(self, task: base.Task) -> None:
        """Send the machine a diagnostic interrupt."""
        tool.run(task, ("power", "diag"), once=True)

    # -- the BMC itself -------------------------------------------------------------------

    def restart_bmc(self, task: base.Task) -> None:
        """Tell the BMC to restart; `bmc_reset` waits for it."""
        reset.reset(task)

    def ask_bmc(self, task: base.Task, seconds: float) -> None:
        """Read the BMC's own description."""
        tool.run(task, ("mc", "info"), seconds=seconds)
