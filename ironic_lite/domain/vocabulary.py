"""Words and forms that requests, drivers and fields of nodes share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

# Forms of names and traits, for requests and inspection rules.

UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.I)
NAME = re.compile(r"[A-Za-z0-9._~-]{1,255}")
# The name spaces of the standard traits, and CUSTOM_ for all others.
TRAIT = re.compile(r"(?=.{1,255}\Z)(CUSTOM|COMPUTE|HW|MISC|OWNER|STORAGE)_[A-Z0-9_]+")

RESERVED = frozenset(
    {
        # Ironic's
        *("maintenance", "management", "states", "vendor_passthru", "detail", "validate"),
        # other paths below a node
        *("allocation", "bios", "children", "cleaning", "console", "events", "firmware"),
        *("history", "inventory", "portgroups", "ports", "runs", "traits", "vifs", "vmedia"),
        "volume",
    }
)
"""Names that a node cannot have, because they are paths below nodes."""


def is_node_name(text: str) -> bool:
    """Return whether a node can be found by this name."""
    return (
        NAME.fullmatch(text) is not None and UUID.fullmatch(text) is None and text not in RESERVED
    )


HEALTH = ("OK", "Warning", "Critical")
"""Health of a machine in the words of Redfish and Ironic, the best first."""

# Capabilities in ``properties.capabilities``: ``"a:x,b:y"``, ``{"a": "x"}``, or its JSON text.

DEPLOYED_MODE = "deploy_boot_mode"
"""Key of driver_internal_info with the boot mode of the instance, for the agent."""
REGISTRY_IMAGE = "oci_image"
"""Key of driver_internal_info with the image that a deployment has found in a registry."""
RAMDISK_BOOT = "ramdisk_boot"
"""Driver's key of the first boot of a ramdisk over the network, see ``waiting.RamdiskBoot``."""


def get_capability(known: object, name: str) -> str | None:
    """Return a capability as text, None if missing."""
    if isinstance(known, str) and known.lstrip().startswith("{"):
        try:
            known = json.loads(known)
        except (ValueError, RecursionError):
            return None
    elif isinstance(known, str):
        pairs = (item.partition(":") for item in known.split(","))
        known = {key.strip(): value.strip() for key, _, value in pairs}
    value = known.get(name) if isinstance(known, Mapping) else None
    return None if value is None else str(value)


def put_capability(known: object, name: str, value: str) -> Any:
    """Return capabilities in their own form, with one of them set."""
    if isinstance(known, Mapping):
        return {**known, name: value}
    words = known.split(",") if isinstance(known, str) else []
    kept = [word for word in words if word.strip() and word.split(":")[0].strip() != name]
    return ",".join([*kept, f"{name}:{value}"])


# Vocabulary of BMC operations, shared by API and drivers.

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

DOWNLOAD_SOURCES: Final = ("http", "local")
"""Sides that fetch an image: the machine or its BMC, and the conductor, which serves it then."""
