"""What all interfaces named ``ipmitool`` share: the keys of driver_info and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import info, tool


class IpmiInterface(base.Interface):
    """An interface that speaks to the BMC that driver_info names."""

    def get_properties(self) -> dict[str, str]:
        """Return what driver_info may hold."""
        return info.properties()

    def validate(self, task: base.Task) -> None:
        """Check driver_info; see `info.parse` for what is raised."""
        tool.settings(task)

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse nonsense in driver_info; see `info.check`."""
        info.check(driver_info)
