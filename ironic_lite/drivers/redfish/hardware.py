"""The hardware type ``redfish``: machines whose BMC speaks DMTF Redfish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ironic_lite.drivers import base


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
