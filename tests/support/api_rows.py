"""Rows for tests of the API: a living conductor, and nodes in any state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import conductors
from ironic_lite.db.tables import models

HOST = "conductor-1"
DRIVERS = ("fake-hardware", "redfish")

AddNode = Callable[..., dict[str, Any]]


def add_conductor(database: session.Database, host: str, group: str = "") -> None:
    """Put a living conductor on the list, with every fake interface."""

    def write(conn: session.Connection) -> None:
        known = conductors.register(conn, host=host, group=group, version="1", now=clock.now())
        rows = [
            {
                "hardware_type": driver,
                "interface_type": kind,
                "interface_name": "fake",
                "is_default": True,
            }
            for driver in DRIVERS
            for kind in ("power", "management", "deploy")
        ]
        conductors.set_interfaces(conn, known, rows)

    database.write(write)


def set_node(database: session.Database, node: Mapping[str, Any], **values: Any) -> None:
    """Give columns of a node other values, whatever its state says of that."""
    mine = models.nodes.c.uuid == node["uuid"]
    database.write(lambda conn: conn.execute(models.nodes.update().where(mine).values(**values)))
