"""Health of machines, in the words of Redfish and Ironic. Pure."""

from __future__ import annotations

WORDS = ("OK", "Warning", "Critical")
"""The words, best first."""


def worst(*found: object) -> str | None:
    """Return the worst of the known words among values that a BMC reports, None without one."""
    known = [word for word in WORDS if word in found]
    return known[-1] if known else None
