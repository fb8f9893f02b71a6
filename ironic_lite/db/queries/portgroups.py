"""Queries on portgroups: ports of a node that work together."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite import errors, records
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries.resource_table import NodeOwnedTable
from ironic_lite.db.tables import models

_MEMBER = models.ports.c

FAMILY = NodeOwnedTable(
    models.portgroups,
    "portgroup",
    lambda ident: errors.PortgroupNotFound(portgroup=ident),
    taken={
        "address": lambda row: errors.Duplicate(
            what="portgroup", key="MAC address", value=row.get("address")
        )
    },
)

_MEMBERS = (
    sa.select(_MEMBER.uuid, _MEMBER.physical_network)
    .where(_MEMBER.portgroup_uuid == sa.bindparam("k_portgroup"))
    .order_by(_MEMBER.id)
)
_SPREAD = models.ports.update().where(_MEMBER.portgroup_uuid == sa.bindparam("k_portgroup"))


def of_node(conn: Connection, node_uuid: str) -> list[records.Portgroup]:
    """Return a node's portgroups in the order they were added."""
    return [records.Portgroup.of(row) for row in FAMILY.of_node(conn, node_uuid)]


def members(conn: Connection, uuid: str) -> dict[str, str | None]:
    """Return the ports of a portgroup: UUID -> physical network."""
    found = conn.execute(_MEMBERS, {"k_portgroup": uuid})
    return {row.uuid: row.physical_network for row in found}


def spread(conn: Connection, uuid: str, values: Row) -> None:
    """Set these column values on all ports of a portgroup."""
    conn.execute(_SPREAD, {**values, "k_portgroup": uuid})
