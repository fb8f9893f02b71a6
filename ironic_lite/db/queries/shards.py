"""Counts of nodes by shard."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

_SHARD = models.nodes.c.shard
_LIST = sa.select(_SHARD, sa.func.count()).group_by(_SHARD)


def counts(conn: Connection) -> list[Row]:
    """Return ``{"name": str | None, "count": int}``, largest first; None: no shard."""
    found = [{"name": name, "count": count} for name, count in conn.execute(_LIST)]
    return sorted(found, key=lambda shard: (-shard["count"], shard["name"] or ""))
