"""The hardware types ``ipmi`` and, for machines without a BMC, ``manual-management``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ironic_lite.core.json_types import JsonView
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.ipmi import info, tool

# Base of all interfaces named ``ipmitool``: the keys of driver_info and their checks.


class IpmiInterface(base.Interface):
    """An interface that uses the BMC named in driver_info."""

    def property_groups(self) -> settings.GroupedFields:
        """Return the keys about the BMC."""
        return {settings.BMC: info.FIELDS}

    def validate(self, task: base.Task) -> None:
        """Check driver_info; raises the errors of `info.parse`."""
        tool.settings(task)

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values in driver_info; see `info.check`."""
        info.check(driver_info)


_COMMON: Mapping[str, tuple[str, ...]] = {
    "bios": ("no-bios", "fake"),
    "boot": ("ipxe", "pxe", "http-ipxe", "http", "fake"),
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
    "firmware": ("no-firmware", "fake"),
    "inspect": ("agent", "no-inspect", "fake"),
    "network": ("flat", "neutron", "noop"),
    "raid": ("no-raid", "agent", "fake"),
    "rescue": ("no-rescue", "agent", "fake"),
    "storage": ("noop",),
}


class IpmiHardware(base.HardwareType):
    """The interfaces that work with IPMI, in order of preference; only enabled names count.

    ``fake`` comes last. It rehearses, on real power, operations that have no real implementation or
    must not happen yet.
    """

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_COMMON,
        "console": ("ipmitool-socat", "no-console", "fake"),
        "management": ("ipmitool", "noop"),
        "power": ("ipmitool",),
        "vendor": ("ipmitool", "no-vendor", "fake"),
    }

    def __init__(self) -> None:
        tool.warn_if_missing()


class ManualManagementHardware(base.HardwareType):
    """Machines whose power and boot order an operator controls by hand.

    Their power interface is ``agent``, which uses the running ramdisk, or ``fake``, which assumes
    that requests are carried out.
    """

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_COMMON,
        "console": ("no-console", "fake"),
        "deploy": (*_COMMON["deploy"][:-1], "noop", "fake"),
        "management": ("noop",),
        "power": ("agent", "fake"),
        "vendor": ("no-vendor", "fake"),
    }
