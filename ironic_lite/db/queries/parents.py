"""Parents of nodes: rings are refused, and a deleted parent leaves its children."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models

MOST = 16
"""Nodes above a node; each of them is a statement that locks a row."""
_NODE = models.nodes.c
_CHILDREN = (
    sa.select(_NODE.uuid).where(_NODE.parent_node == sa.bindparam("k_uuid")).with_for_update()
)
_RELEASE = (
    models.nodes.update()
    .where(_NODE.parent_node == sa.bindparam("k_uuid"))
    .values(parent_node=None, generation=_NODE.generation + 1)
)


def check(conn: Connection, uuid: str, parent: str) -> None:
    """Refuse a parent that is missing, or below the node; no change is possible until the commit.

    Nodes further than `MOST` above it are not read, so a parent with as many above it is refused.

    :param uuid: of the node; it may be a new one.
    :raises errors.InvalidParameter:
    """
    seen = {uuid}
    above: str | None = parent
    while above is not None:
        if above in seen:
            if above != uuid:
                return  # an old ring of other nodes
            reason = f"node {parent} is node {uuid} itself or below it, which would form a ring"
            raise errors.InvalidParameter(path="parent_node", reason=reason)
        if len(seen) > MOST:
            reason = f"node {parent} has {MOST} nodes above it; choose one with fewer than {MOST}"
            raise errors.InvalidParameter(path="parent_node", reason=reason)
        seen.add(above)
        try:
            above = nodes.get(conn, above, ("parent_node",), hold=True)["parent_node"]
        except errors.NodeNotFound as why:
            if above != parent:
                return
            raise errors.InvalidParameter(path="parent_node", reason=why.message) from None


def release(conn: Connection, uuid: str) -> list[str]:
    """Remove a node, which has been deleted, from its children; their locks do not matter.

    No conductor writes this column, and by ``updated_at`` a conductor recognises its own writes.
    A request that makes the node a parent locks its row, so it comes before the deletion or fails.

    :return: the UUIDs of the children.
    """
    found = conn.execute(_CHILDREN, {"k_uuid": uuid}).scalars().all()
    if found:
        conn.execute(_RELEASE, {"k_uuid": uuid})
    return list(found)
