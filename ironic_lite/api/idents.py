"""What stands for a node in a path: its UUID, or since 1.5 its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.api import rules
from ironic_lite.api.exchange import Request
from ironic_lite.api.service import Service
from ironic_lite.db import nodes

NAMES_SINCE = 5
_LONGEST = 255


def node(request: Request, ident: str) -> str:
    """Return ``ident`` as the database knows it.

    :raises errors.NodeNotFound: nothing a node could be called, or a name before 1.5.
    """
    if rules.uuid_like(ident):
        return rules.uuid(ident, "node")
    if request.version < NAMES_SINCE or not ident.isascii() or len(ident) > _LONGEST:
        raise errors.NodeNotFound(node=ident[:_LONGEST])
    return ident


def fetch(
    service: Service,
    request: Request,
    ident: str,
    columns: Sequence[str] | None = None,
    *,
    with_traits: bool = False,
) -> dict[str, Any]:
    """Return a node's columns (None for all), in one statement.

    :param with_traits: adds the key ``traits``, a sorted list.
    :raises errors.NodeNotFound: there is no such node.
    """
    known = node(request, ident)
    return service.database.read(
        lambda conn: nodes.get(conn, known, columns, with_traits=with_traits)
    )
