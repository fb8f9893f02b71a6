"""The clean steps that the last agent of a node has listed (S1.25, C29).

They are a few kilobytes that one request reads, so they are no column of the node: lists of nodes
and sweeps would carry them along.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ironic_lite.db import models
from ironic_lite.db.session import Connection

_TABLE = models.agent_steps
_MINE = _TABLE.c.node_uuid == sa.bindparam("k_node")
_GET = sa.select(_TABLE.c.steps).where(_MINE)
_DELETE = _TABLE.delete().where(_MINE)
_INSERT = _TABLE.insert().inline()


def get(conn: Connection, node_uuid: str) -> dict[str, list[dict[str, Any]]] | None:
    """Return the steps by interface; None if no agent has listed any yet."""
    found: dict[str, list[dict[str, Any]]] | None = conn.execute(
        _GET, {"k_node": node_uuid}
    ).scalar()
    return found


def put(
    conn: Connection, node_uuid: str, steps: Mapping[str, Any], *, at: datetime.datetime
) -> None:
    """Replace the steps of a node; its lock's holder alone does this."""
    conn.execute(_DELETE, {"k_node": node_uuid})
    conn.execute(_INSERT, {"node_uuid": node_uuid, "steps": dict(steps), "refreshed_at": at})
