"""Queries on traits; changing them changes the node, under the rules of ``nodes.edit``."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models

LIMIT = 50
"""Limit of a node's traits."""

_TRAIT = models.traits.c
_OF_NODE = _TRAIT.node_uuid == sa.bindparam("k_node")
_GET = sa.select(_TRAIT.trait).where(_OF_NODE)
_INSERT = models.traits.insert().inline()
_CLEAR = models.traits.delete().where(_OF_NODE)
_REMOVE = models.traits.delete().where(_OF_NODE, _TRAIT.trait == sa.bindparam("k_trait"))


def get(conn: Connection, node_uuid: str) -> list[str]:
    """Return a node's traits, sorted; empty for a missing node."""
    return sorted(conn.execute(_GET, {"k_node": node_uuid}).scalars())


def replace(conn: Connection, node_uuid: str, traits: Collection[str], *, generation: int) -> None:
    """Set all traits of a node; a trait given twice counts once.

    :param generation: the node's, as read; one more afterwards.
    :raises errors.InvalidParameter: more than fifty.
    :raises errors.NodeNotFound:
    :raises errors.NodeLocked: naming the holder.
    :raises errors.Conflict: another change came first.
    """
    wanted = sorted(set(traits))
    _refuse_more(len(wanted))
    nodes.edit(conn, node_uuid, {}, generation=generation)
    conn.execute(_CLEAR, {"k_node": node_uuid})
    if wanted:
        conn.execute(_INSERT, [{"node_uuid": node_uuid, "trait": trait} for trait in wanted])


def add(conn: Connection, node_uuid: str, trait: str, *, generation: int) -> None:
    """Add a trait to a node; an existing one stays. Errors as `replace`."""
    nodes.edit(conn, node_uuid, {}, generation=generation)
    present = get(conn, node_uuid)
    if trait in present:
        return
    _refuse_more(len(present) + 1)
    conn.execute(_INSERT, {"node_uuid": node_uuid, "trait": trait})


def remove(conn: Connection, node_uuid: str, trait: str, *, generation: int) -> None:
    """Remove a trait from a node. Errors as `replace`, and one more.

    :raises errors.NotFound: the node has no such trait.
    """
    nodes.edit(conn, node_uuid, {}, generation=generation)
    if not conn.execute(_REMOVE, {"k_node": node_uuid, "k_trait": trait}).rowcount:
        raise errors.NotFound(
            f"Node {node_uuid} doesn't have a trait '{trait}'.", what="Trait", ident=trait
        )


def settle(
    conn: Connection, node_uuid: str, *, added: Collection[str], removed: Collection[str]
) -> None:
    """Change traits of a node locked by the caller, who writes the node's row.

    :raises errors.InvalidParameter: it would have more than fifty.
    """
    for trait in removed:
        conn.execute(_REMOVE, {"k_node": node_uuid, "k_trait": trait})
    if added:
        _refuse_more(len({*get(conn, node_uuid), *added}))
        conn.execute(_INSERT, [{"node_uuid": node_uuid, "trait": trait} for trait in added])


def _refuse_more(count: int) -> None:
    if count > LIMIT:
        raise errors.InvalidParameter(
            path="traits", reason=f"a node has {LIMIT} traits at most, this would make {count}"
        )
