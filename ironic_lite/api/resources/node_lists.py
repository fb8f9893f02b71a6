"""Nodes that a request lists by UUID or name, read together."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes

COLUMNS = tuple(dict.fromkeys(("uuid", "name", "provision_state", *OWNERS)))
"""Columns of the nodes that are returned."""
_PART = 500


def named(
    service: Service, request: Request, given: Sequence[object], *, with_traits: bool = False
) -> list[Json]:
    """Return the nodes of a list, which is the key ``nodes`` of the body, in its order.

    At most two statements read 500 nodes. A node that is listed twice is returned twice.

    :param given: UUIDs and names; the caller bounds their number.
    :raises errors.InvalidParameter: an entry is no UUID or name of a node.
    :raises errors.NodeNotFound: a node does not exist, or the caller may not see it.
    """
    names: list[str] = []
    for index, ident in enumerate(given):
        if not isinstance(ident, str):
            reason = "is not the UUID or the name of a node"
            raise errors.InvalidParameter(path=f"nodes/{index}", reason=reason)
        names.append(node_lookup.node(request, ident))
    by_name: dict[str, Json] = {}
    for column in ("uuid", "name"):
        wanted = [name for name in names if rules.uuid_like(name) is (column == "uuid")]
        for row in read(service, column, wanted, with_traits=with_traits):
            by_name[row[column]] = row
    return [visible(request, by_name, name) for name in names]


def read(
    service: Service, column: str, values: Sequence[str], *, with_traits: bool = False
) -> list[Json]:
    """Return nodes by the values of a column, a few hundred with each statement."""

    def work(conn: Connection) -> list[Json]:
        found: list[Json] = []
        for first in range(0, len(values), _PART):
            found += nodes.page(
                conn,
                columns=COLUMNS,
                where={column: values[first : first + _PART], "include_children": True},
                limit=_PART,
                with_traits=with_traits,
            )
        return found

    return service.database.read(work)


def visible(request: Request, found: JsonView, name: str) -> Json:
    """Return one of the nodes that were found.

    :raises errors.NodeNotFound: it is not among them, or the caller may not see it.
    """
    row: Json | None = found.get(name) or found.get(name.lower())
    missing = errors.NodeNotFound(node=name)
    if row is None:
        raise missing
    request.access.node(row, missing, "baremetal:node:get")
    return row
