"""Queries on ports: the network cards of nodes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from ironic_lite import clock, errors, records
from ironic_lite.db import faults, models, paging
from ironic_lite.db.session import Connection

Row = dict[str, Any]

COLUMNS: tuple[str, ...] = models.columns(models.ports)
OBJECTS = ("extra", "internal_info", "local_link_connection")
"""JSON columns that drivers and flows read without looking: NULL reads as {}."""

_PORT = models.ports.c
_NODE = models.nodes.c
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5,19}")

# -- statements ------------------------------------------------------------------------------

_THIS = _PORT.uuid == sa.bindparam("k_uuid")
_OF_NODE = (
    sa.select(models.ports).where(_PORT.node_uuid == sa.bindparam("k_node")).order_by(_PORT.id)
)
_OWNERS = (
    sa.select(_PORT.node_uuid)
    .where(_PORT.address.in_(sa.bindparam("k_addresses", expanding=True)))
    .distinct()
    .order_by(_PORT.node_uuid)
)
_TAKEN = sa.select(_PORT.address, _PORT.node_uuid).where(
    _PORT.address.in_(sa.bindparam("k_addresses", expanding=True))
)
_INSERT = models.ports.insert().inline()
_UPDATE = models.ports.update().where(_THIS)
_DELETE = models.ports.delete().where(_THIS)


@cache
def _one(key: str, hold: bool) -> sa.Select[Any]:
    found = sa.select(models.ports).where(_PORT[key] == sa.bindparam("k_ident"))
    return found.with_for_update() if hold else found


# -- reading ---------------------------------------------------------------------------------


def get(conn: Connection, ident: str, *, hold: bool = False) -> Row:
    """Return one port as column -> value.

    :param ident: UUID or MAC address in any case, or name.
    :param hold: nobody else changes the port before this transaction ends.
    :raises errors.PortNotFound:
    """
    key, value = "name", ident
    if _UUID.fullmatch(ident):
        key, value = "uuid", ident.lower()
    elif _MAC.fullmatch(ident):
        key, value = "address", ident.lower()
    found = conn.execute(_one(key, hold), {"k_ident": value}).first()
    if found is None:
        raise errors.PortNotFound(port=ident)
    return dict(zip(COLUMNS, found, strict=True))


def of_node(conn: Connection, node_uuid: str) -> list[records.Port]:
    """Return a node's ports in the order they were added; NULL of the ``OBJECTS`` reads as {}."""
    found = []
    for row in conn.execute(_OF_NODE, {"k_node": node_uuid}):
        values = dict(zip(COLUMNS, row, strict=True))
        for name in OBJECTS:
            if values[name] is None:
                values[name] = {}
        found.append(records.Port(values))
    return found


def _by_node(column: sa.Column[Any], name: str) -> paging.Bound:
    """Return a filter for ports whose node has one of the values."""
    chosen = paging.any_of(column, name)
    owners = sa.select(_NODE.uuid).where(chosen.clause)
    return paging.Bound(_PORT.node_uuid.in_(owners), chosen.adapt)


LISTING = paging.Listing(
    models.ports,
    {
        "shard": _by_node(_NODE.shard, "shard"),
        "project": paging.Bound(
            _PORT.node_uuid.in_(
                sa.select(_NODE.uuid).where(
                    sa.or_(
                        _NODE.owner == sa.bindparam("project", type_=sa.String),
                        _NODE.lessee == sa.bindparam("project", type_=sa.String),
                    )
                )
            )
        ),
        "conductor_groups": _by_node(_NODE.conductor_group, "conductor_groups"),
        "description_contains": paging.contains(_PORT.description, "description_contains"),
    },
)
page = LISTING.page
"""Return a page of ports; besides columns, ``where`` takes ``shard`` and ``conductor_groups``
(lists) of the port's node, ``project`` (that owns or leases it), and ``description_contains``
(text)."""


def by_addresses(conn: Connection, macs: Collection[str]) -> list[str]:
    """Return the UUIDs of the nodes that have a port with one of these MAC addresses."""
    if not macs:
        return []
    wanted = {"k_addresses": [mac.lower() for mac in macs]}
    return [row.node_uuid for row in conn.execute(_OWNERS, wanted)]


def owners(conn: Connection, macs: Collection[str]) -> dict[str, str]:
    """Return whose these MAC addresses, in lower case, are: ``{address of a port: its node}``."""
    if not macs:
        return {}
    found = conn.execute(_TAKEN, {"k_addresses": list(macs)})
    return {row.address: row.node_uuid for row in found}


# -- writing ---------------------------------------------------------------------------------


def insert(conn: Connection, values: Mapping[str, Any]) -> None:
    """Add a port; ``created_at`` is now unless given.

    :raises errors.Duplicate: its uuid, address or name is taken; the fact ``key`` says which.
    :raises errors.NodeNotFound:
    """
    row = {"created_at": clock.now(), **values}
    try:
        conn.execute(_INSERT, row)
    except sa.exc.IntegrityError as error:
        raise _refused(error, row) from error


def update(conn: Connection, uuid: str, values: Mapping[str, Any]) -> None:
    """Change a port; ``updated_at`` is now unless given.

    :raises errors.PortNotFound:
    :raises errors.Duplicate: its address or name is taken.
    :raises errors.NodeNotFound: it was to be given to a node that is not there.
    """
    row = {"updated_at": clock.now(), **values, "k_uuid": uuid}
    try:
        changed = conn.execute(_UPDATE, row).rowcount
    except sa.exc.IntegrityError as error:
        raise _refused(error, row) from error
    if not changed:
        raise errors.PortNotFound(port=uuid)


def delete(conn: Connection, uuid: str) -> None:
    """Remove a port.

    :raises errors.PortNotFound:
    """
    if not conn.execute(_DELETE, {"k_uuid": uuid}).rowcount:
        raise errors.PortNotFound(port=uuid)


def _refused(error: sa.exc.IntegrityError, values: Row) -> Exception:
    missing = errors.NodeNotFound(node=values.get("node_uuid"))
    return faults.refused(error, models.ports, "port", values, missing)
