"""What all interfaces named ``redfish`` share: the keys of driver_info and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import connection, info

CLOSE_SECONDS = 5.0
"""All BMCs together have so long to let us log out."""


class RedfishInterface(base.Interface):
    """An interface that speaks to the BMC that driver_info names."""

    def get_properties(self) -> dict[str, str]:
        """Return what driver_info may hold."""
        return info.properties()

    def close(self) -> None:
        """Log out of all BMCs: they have room for few sessions, and keep them for half an hour."""
        connection.LINKS.close(CLOSE_SECONDS)

    def validate(self, task: base.Task) -> None:
        """Check driver_info; see `info.parse` for what is raised."""
        connection.settings(task)

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse nonsense in driver_info; see `info.check`."""
        info.check(driver_info)
