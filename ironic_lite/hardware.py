"""Words that callers of the API and drivers share for what a machine's BMC can be told."""

from __future__ import annotations

from typing import Final

BOOT_MODES: Final = ("bios", "uefi")

COMPONENTS: Final = ("system", "chassis", "power", "disk", "nic")
"""Parts of a machine that have lamps."""

INDICATOR_STATES: Final = ("on", "off", "blinking")
"""What a lamp can be told to be; a BMC may also say that it is ``UNKNOWN``."""

UNKNOWN: Final = "unknown"

VIRTUAL_MEDIA: Final = ("disk", "cdrom", "floppy")
"""What a virtual drive can stand for."""

IMAGE_SCHEMES: Final = ("http", "https", "nfs", "cifs", "smb")
"""Where a BMC may read an image from; it reads it, not this service."""
