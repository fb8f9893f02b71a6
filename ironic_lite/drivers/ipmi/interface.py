"""Base of all interfaces named ``ipmitool``: the keys of driver_info and their checks."""

from __future__ import annotations

from ironic_lite.core.json_types import JsonView
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import info, tool


class IpmiInterface(base.Interface):
    """An interface that uses the BMC named in driver_info."""

    def get_properties(self) -> dict[str, str]:
        """Return ``{driver_info key: description}``."""
        return info.properties()

    def validate(self, task: base.Task) -> None:
        """Check driver_info; raises the errors of `info.parse`."""
        tool.settings(task)

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values in driver_info; see `info.check`."""
        info.check(driver_info)
