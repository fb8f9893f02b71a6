"""Vocabulary of BMC operations, shared by API and drivers."""

from __future__ import annotations

from typing import Final

BOOT_MODES: Final = ("bios", "uefi")

POWER_TARGETS: Final = {
    "power on": 1,
    "power off": 1,
    "rebooting": 1,
    "soft rebooting": 27,
    "soft power off": 27,
}
"""Targets of power requests, and the minor versions that have them."""

COMPONENTS: Final = ("system", "chassis", "power", "disk", "nic")
"""Parts of a machine that have indicators."""

INDICATOR_STATES: Final = ("on", "off", "blinking")
"""States that an indicator can be set to; a BMC may also report ``UNKNOWN``."""

UNKNOWN: Final = "unknown"

VIRTUAL_MEDIA: Final = ("disk", "cdrom", "floppy")
"""Devices that a virtual drive can emulate."""

IMAGE_SCHEMES: Final = ("http", "https", "nfs", "cifs", "smb")
"""Schemes of images that a BMC reads itself."""
