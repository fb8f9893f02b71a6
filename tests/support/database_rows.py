"""Functions that insert and read rows of nodes."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any

from ironic_lite.core import clock
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import holds, nodes, paging
from ironic_lite.db.tables import models
from ironic_lite.domain.holds import KINDS

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 123456)


def new_uuid() -> str:
    """Return a random UUID."""
    return str(uuid.uuid4())


def add_node(database: Database, **values: Any) -> str:
    """Insert a node and return its UUID."""
    row = {
        "uuid": new_uuid(),
        "driver": "fake-hardware",
        "provision_state": "manageable",
        **values,
    }
    database.write(lambda conn: nodes.insert(conn, row))
    return str(row["uuid"])


_INSERT_RUN = prepared.Write(models.runs.insert().inline(), computed=paging.OWNERS_OF_NODE)


def insert_run(conn: Connection, values: Mapping[str, Any]) -> None:
    """Insert a run of the node's owner and lessee, also if its request has one on the node."""
    _INSERT_RUN.insert_all(conn, [{"owner": None, "lessee": None, **values}])


def get_node(database: Database, ident: str) -> dict[str, Any]:
    """Return a node's columns."""
    return database.read(lambda conn: nodes.get(conn, ident))


def lock_node(
    database: Database, node: str, token: str, host: str = "host-1", seconds: float = 60
) -> bool:
    """Try to take a node's lock."""
    expires = clock.after(seconds)
    return database.write(
        lambda conn: nodes.lock(conn, node, host=host, token=token, expires=expires)
    )


def add_import(database: Database, **values: Any) -> str:
    """Insert an import from Ironic without findings, and return its UUID."""
    row = {
        **{name: {} for name in ("selection", "maps", "marks", "counts")},
        **{"uuid": new_uuid(), "at": clock.now(), "trial": False, "left_out": [], "findings": []},
        "release": "35 (2026.1)",
        "head": "2a3b4c5d6e7f",
        "source": "mysql://ironic@db/ironic",
        **values,
    }
    database.write(lambda conn: conn.execute(models.imports.insert(), row))
    return str(row["uuid"])


def add_hold(database: Database, node: str, kind: str, **values: Any) -> str:
    """Insert a hold of a kind that brings its blocks, and return its UUID."""
    row = {
        "uuid": new_uuid(),
        "node_uuid": node,
        "kind": kind,
        "reason": "imported",
        "blocks": ",".join(KINDS[kind]),
        "created_at": clock.now(),
        **values,
    }
    database.write(lambda conn: holds.add(conn, row))
    return str(row["uuid"])
