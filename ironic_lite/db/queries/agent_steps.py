"""Queries on the clean steps that a node's last agent has listed.

They are a few kilobytes that one request reads. A column of the node would burden lists of nodes
and sweeps.

Source: S1.25, C29.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models
from ironic_lite.records import StepsByInterface

_TABLE = models.agent_steps
_MINE = _TABLE.c.node_uuid == sa.bindparam("k_node")
_GET = sa.select(_TABLE.c.steps).where(_MINE)
_GET_DATED = sa.select(_TABLE.c.steps, _TABLE.c.refreshed_at).where(_MINE)
_DELETE = _TABLE.delete().where(_MINE)
_INSERT = _TABLE.insert().inline()


def get(conn: Connection, node_uuid: str) -> StepsByInterface | None:
    """Return the steps by interface; None if no agent has listed any yet."""
    found: StepsByInterface | None = conn.execute(_GET, {"k_node": node_uuid}).scalar()
    return found


def get_dated(
    conn: Connection, node_uuid: str
) -> tuple[StepsByInterface, datetime.datetime] | None:
    """Return the steps by interface, and when the agent has listed them; None as for `get`."""
    found = conn.execute(_GET_DATED, {"k_node": node_uuid}).first()
    return None if found is None else (found.steps, found.refreshed_at)


def put(
    conn: Connection, node_uuid: str, steps: StepsByInterface, *, at: datetime.datetime
) -> None:
    """Replace the steps of a node; only the holder of its lock may call this."""
    conn.execute(_DELETE, {"k_node": node_uuid})
    conn.execute(_INSERT, {"node_uuid": node_uuid, "steps": dict(steps), "refreshed_at": at})
