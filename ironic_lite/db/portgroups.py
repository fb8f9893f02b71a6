"""Queries on portgroups: ports of a node that work as one."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ironic_lite import errors, records
from ironic_lite.db import models
from ironic_lite.db.families import Family, of_nodes
from ironic_lite.db.session import Connection

_TABLE = models.portgroups
_MEMBER = models.ports.c

FAMILY = Family(
    _TABLE,
    "portgroup",
    lambda ident: errors.PortgroupNotFound(portgroup=ident),
    filters=of_nodes(_TABLE),
    missing=lambda row: errors.NodeNotFound(node=row.get("node_uuid")),
    taken={
        "address": lambda row: errors.Duplicate(
            what="portgroup", key="MAC address", value=row.get("address")
        )
    },
)
OBJECTS = ("extra", "internal_info", "properties")
"""JSON columns that drivers read without looking: NULL reads as {}."""

_OF_NODE = (
    sa.select(_TABLE).where(_TABLE.c.node_uuid == sa.bindparam("k_node")).order_by(_TABLE.c.id)
)
_MEMBERS = (
    sa.select(_MEMBER.uuid, _MEMBER.physical_network)
    .where(_MEMBER.portgroup_uuid == sa.bindparam("k_portgroup"))
    .order_by(_MEMBER.id)
)
_SPREAD = models.ports.update().where(_MEMBER.portgroup_uuid == sa.bindparam("k_portgroup"))


def of_node(conn: Connection, node_uuid: str) -> list[records.Portgroup]:
    """Return a node's portgroups in the order they were added."""
    found = []
    for row in conn.execute(_OF_NODE, {"k_node": node_uuid}).mappings():
        values: dict[str, Any] = dict(row)
        values.update((name, {}) for name in OBJECTS if values[name] is None)
        found.append(records.Portgroup(values))
    return found


def members(conn: Connection, uuid: str) -> dict[str, str | None]:
    """Return the ports of a portgroup: UUID -> physical network."""
    found = conn.execute(_MEMBERS, {"k_portgroup": uuid})
    return {row.uuid: row.physical_network for row in found}


def spread(conn: Connection, uuid: str, values: dict[str, Any]) -> None:
    """Give all ports of a portgroup these column values."""
    conn.execute(_SPREAD, {**values, "k_portgroup": uuid})
