"""Size limit for values that agents, hooks, rules and drivers store with a node.

Every list, sweep and notification carries a node's columns. ``api/resources/patches`` limits the
fields that clients write; this module limits all other sources.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.db.engine import encoding

MOST_KIB = 2048
"""Limit of one value as JSON, in KiB: the same as for an inspection report."""


def check(**values: object) -> None:
    """Refuse a value that is too large; call it before changing the node.

    :raises errors.HardwareError: naming the value.
    """
    for name, value in values.items():
        size = len(encoding.to_json(value)) / 1024
        if size > MOST_KIB:
            raise errors.HardwareError(
                reason=f"{name} would take {size:.0f} KiB of JSON, but at most {MOST_KIB} KiB are "
                "kept with a node. Look at what the machine, its agent or an inspection rule "
                "reports"
            )
