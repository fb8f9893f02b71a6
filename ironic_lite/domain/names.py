"""Forms of names and traits, for requests and inspection rules."""

from __future__ import annotations

import re

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


def of_node(text: str) -> bool:
    """Return whether a node can be found by this name."""
    return (
        NAME.fullmatch(text) is not None and UUID.fullmatch(text) is None and text not in RESERVED
    )
