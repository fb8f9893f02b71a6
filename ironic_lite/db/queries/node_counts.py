"""Counts of nodes, for monitoring."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

_NODE = models.nodes.c
_NODES = (
    sa.select(_NODE.provision_state, _NODE.maintenance, sa.func.count())
    .group_by(_NODE.provision_state, _NODE.maintenance)
    .order_by(_NODE.provision_state, _NODE.maintenance)
)


def nodes(conn: Connection) -> list[tuple[str, bool, int]]:
    """Return (provision state, maintenance, number), by one statement that reads all nodes."""
    return [(state, bool(put), int(count)) for state, put, count in conn.execute(_NODES)]
