"""The hardware type ``redfish``: machines whose BMC speaks DMTF Redfish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ironic_lite.core import config
from ironic_lite.core.json_types import JsonView
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.redfish.bmc import connection, info

# Base of all interfaces named ``redfish``: the keys of driver_info and their checks.

CLOSE_SECONDS = 5.0
"""Time limit in seconds for logging out of all BMCs together."""


class RedfishInterface(base.Interface):
    """An interface that uses the BMC named in driver_info."""

    def property_groups(self) -> settings.GroupedFields:
        """Return the keys about the BMC."""
        return {settings.BMC: info.FIELDS}

    def close(self) -> None:
        """Log out of all BMCs, which allow few sessions and keep them for half an hour."""
        connection.LINKS.close(CLOSE_SECONDS)

    def validate(self, task: base.Task) -> None:
        """Check driver_info; raises the errors of `info.parse`."""
        connection.settings(task)

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values in driver_info; see `info.check`."""
        super().check_driver_info(driver_info)
        info.check(driver_info, ca_folder=config.CONF.redfish.ca_folder)


class RedfishHardware(base.HardwareType):
    """The interfaces that work with Redfish, in order of preference; only enabled names count.

    ``fake`` comes last everywhere. It rehearses, on real power, operations that have no real
    implementation or must not happen yet.
    """

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "bios": ("redfish", "no-bios", "fake"),
        "boot": (
            "ipxe",
            "pxe",
            "http-ipxe",
            "http",
            "redfish-virtual-media",
            "redfish-https",
            "fake",
        ),
        "console": ("redfish-graphical", "no-console", "fake"),
        "deploy": (
            "autodetect",
            "direct",
            "ansible",
            "ramdisk",
            "anaconda",
            "bootc",
            "custom-agent",
            "fake",
        ),
        "firmware": ("redfish", "no-firmware", "fake"),
        "inspect": ("redfish", "agent", "no-inspect", "fake"),
        "management": ("redfish", "noop"),
        "network": ("flat", "neutron", "noop"),
        "power": ("redfish",),
        "raid": ("redfish", "no-raid", "agent", "fake"),
        "rescue": ("no-rescue", "agent", "fake"),
        "storage": ("noop",),
        "vendor": ("redfish", "no-vendor", "fake"),
    }
