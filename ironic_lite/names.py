"""What names and traits look like, for all who take some: requests, and rules of inspections."""

from __future__ import annotations

import re

UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.I)
NAME = re.compile(r"[A-Za-z0-9._~-]{1,255}")
# The name spaces of the standard traits, and CUSTOM_ for everybody's own.
TRAIT = re.compile(r"(?=.{1,255}\Z)(CUSTOM|COMPUTE|HW|MISC|OWNER|STORAGE)_[A-Z0-9_]+")

RESERVED = frozenset(
    {
        # Ironic's
        *("maintenance", "management", "states", "vendor_passthru", "detail", "validate"),
        # what else hangs below a node
        *("allocation", "bios", "children", "cleaning", "console", "events", "firmware"),
        *("history", "inventory", "portgroups", "ports", "runs", "traits", "vifs", "vmedia"),
        "volume",
    }
)
"""Names that a node cannot have: they stand in paths below nodes."""


def of_node(text: str) -> bool:
    """Tell whether a node can be found by this name."""
    return (
        NAME.fullmatch(text) is not None and UUID.fullmatch(text) is None and text not in RESERVED
    )
