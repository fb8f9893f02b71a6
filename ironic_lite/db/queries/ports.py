"""Queries on ports, the network cards of nodes, and on portgroups, which join some of them."""

from __future__ import annotations

import re
from collections.abc import Collection

import sqlalchemy as sa

from ironic_lite import errors, records
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import paging
from ironic_lite.db.queries.resources import NodeOwnedTable
from ironic_lite.db.tables import models

_PORT = models.ports.c
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5,19}")


class _Ports(NodeOwnedTable):
    """Queries on ports, which can be found by their addresses, too."""

    def key(self, ident: str) -> tuple[str, str]:
        return ("address", ident.lower()) if _MAC.fullmatch(ident) else super().key(ident)


FAMILY = _Ports(
    models.ports,
    "port",
    lambda ident: errors.PortNotFound(port=ident),
    filters={
        "description_contains": paging.contains(_PORT.description, "description_contains"),
        "nodes": paging.any_of(_PORT.node_uuid, "nodes"),
    },
    taken={
        # Clients search this message for its words.
        "address": lambda row: errors.Duplicate(
            what="port", key="MAC address", value=row.get("address")
        )
    },
)
get, insert, update, delete = FAMILY.get, FAMILY.insert, FAMILY.update, FAMILY.delete
page = FAMILY.page
"""Return a page of ports.

Besides columns, ``where`` takes ``shard`` and ``conductor_groups`` (lists) of the port's node,
``project`` (that owns or leases it), ``nodes`` (UUIDs), and ``description_contains`` (text).
"""

_OWNERS = (
    sa.select(_PORT.node_uuid)
    .where(_PORT.address.in_(sa.bindparam("k_addresses", expanding=True)))
    .distinct()
    .order_by(_PORT.node_uuid)
)
_TAKEN = sa.select(_PORT.address, _PORT.node_uuid).where(
    _PORT.address.in_(sa.bindparam("k_addresses", expanding=True))
)


def of_node(conn: Connection, node_uuid: str) -> list[records.Port]:
    """Return a node's ports in the order they were added."""
    return [records.Port.of(row) for row in FAMILY.of_node(conn, node_uuid)]


def by_addresses(conn: Connection, macs: Collection[str]) -> list[str]:
    """Return the UUIDs of the nodes that have a port with one of these MAC addresses."""
    if not macs:
        return []
    wanted = {"k_addresses": [mac.lower() for mac in macs]}
    return [row.node_uuid for row in conn.execute(_OWNERS, wanted)]


def owners(conn: Connection, macs: Collection[str]) -> dict[str, str]:
    """Return ``{address of a port: its node}`` for these MAC addresses, in lower case."""
    if not macs:
        return {}
    found = conn.execute(_TAKEN, {"k_addresses": list(macs)})
    return {row.address: row.node_uuid for row in found}


_MEMBER = models.ports.c

PORTGROUPS = NodeOwnedTable(
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


def portgroups_of_node(conn: Connection, node_uuid: str) -> list[records.Portgroup]:
    """Return a node's portgroups in the order they were added."""
    return [records.Portgroup.of(row) for row in PORTGROUPS.of_node(conn, node_uuid)]


def portgroup_members(conn: Connection, uuid: str) -> dict[str, str | None]:
    """Return the ports of a portgroup: UUID -> physical network."""
    found = conn.execute(_MEMBERS, {"k_portgroup": uuid})
    return {row.uuid: row.physical_network for row in found}


def update_members(conn: Connection, uuid: str, values: Row) -> None:
    """Set these column values on all ports of a portgroup."""
    conn.execute(_SPREAD, {**values, "updated_at": clock.now(), "k_portgroup": uuid})
