"""The names of a node's interfaces."""

from __future__ import annotations

import operator

from ironic_lite.domain import fields
from ironic_lite.records import Node

_COLUMNS = operator.itemgetter(*(f"{kind}_interface" for kind in fields.INTERFACE_KINDS))


def names(node: Node) -> dict[str, str | None]:
    """Return the interface names of a node by kind."""
    return dict(zip(fields.INTERFACE_KINDS, _COLUMNS(node.as_dict()), strict=True))
