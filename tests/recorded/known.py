"""Known failures of recorded machines; an entry goes when its cause is fixed."""

from __future__ import annotations

from collections.abc import Mapping

EVERY = "*"
"""Stands for all machines."""

KNOWN: Mapping[tuple[str, str], int] = {}
"""Row of the list of causes by machine and operation."""


def row(machine: str, operation: str) -> int | None:
    """Return the row of a known failure, None if the operation must succeed."""
    return KNOWN.get((machine, operation), KNOWN.get((EVERY, operation)))
