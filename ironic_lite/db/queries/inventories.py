"""Queries on inventories: the result of each node's last inspection.

An inventory has some ten kilobytes that one request reads. A column of the node would burden lists
of nodes and sweeps.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

_TABLE = models.inventories
_MINE = _TABLE.c.node_uuid == sa.bindparam("k_node")
_GET = sa.select(_TABLE.c.inventory, _TABLE.c.plugin_data).where(_MINE)
_INSERT = _TABLE.insert().inline()
_UPDATE = _TABLE.update().where(_MINE)


def get(conn: Connection, node_uuid: str) -> Row:
    """Return ``{"inventory": object, "plugin_data": object}`` of a node.

    :raises errors.NotFound: no inspection of it has succeeded.
    """
    found = conn.execute(_GET, {"k_node": node_uuid}).first()
    if found is None:
        raise errors.NotFound(what="Node inventory record for node", ident=node_uuid)
    return {"inventory": found.inventory, "plugin_data": found.plugin_data}


def put(
    conn: Connection,
    node_uuid: str,
    inventory: RowView,
    plugin_data: RowView,
    *,
    at: datetime.datetime,
) -> None:
    """Replace the inventory of a node; only the holder of its lock may call this."""
    values = {"inventory": dict(inventory), "plugin_data": dict(plugin_data)}
    if not conn.execute(_UPDATE, {**values, "updated_at": at, "k_node": node_uuid}).rowcount:
        made = {"node_uuid": node_uuid, "created_at": at, "updated_at": None}
        conn.execute(_INSERT, {**values, **made})
