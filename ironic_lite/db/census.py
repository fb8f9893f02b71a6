"""How many nodes there are, by what operators watch."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db import models
from ironic_lite.db.session import Connection

_NODE = models.nodes.c
_NODES = (
    sa.select(_NODE.provision_state, _NODE.maintenance, sa.func.count())
    .group_by(_NODE.provision_state, _NODE.maintenance)
    .order_by(_NODE.provision_state, _NODE.maintenance)
)


def nodes(conn: Connection) -> list[tuple[str, bool, int]]:
    """Return (provision state, maintenance, number), by one statement that reads all nodes."""
    return [(state, bool(put), int(count)) for state, put, count in conn.execute(_NODES)]
