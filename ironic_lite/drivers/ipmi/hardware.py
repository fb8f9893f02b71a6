"""The hardware types ``ipmi``, for BMCs that speak it, and ``manual-management``, without a BMC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ironic_lite.drivers import base

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
    """What may be combined with IPMI, preferred ones first; only enabled names count.

    ``fake`` comes last: it rehearses, on real power, what has no real implementation or must not
    happen yet.
    """

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_COMMON,
        "console": ("ipmitool-socat", "no-console", "fake"),
        "management": ("ipmitool", "noop"),
        "power": ("ipmitool",),
        "vendor": ("ipmitool", "no-vendor", "fake"),
    }


class ManualManagementHardware(base.HardwareType):
    """Machines that somebody switches and whose boot order somebody sets by hand.

    Their power is ``agent``, by what runs on the machine, or ``fake``: what is asked for is taken
    for done.
    """

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_COMMON,
        "console": ("no-console", "fake"),
        "management": ("noop",),
        "power": ("agent", "fake"),
        "vendor": ("no-vendor", "fake"),
    }
