"""How many nodes each shard has."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ironic_lite.db import models
from ironic_lite.db.session import Connection

_SHARD = models.nodes.c.shard
_LIST = sa.select(_SHARD, sa.func.count()).group_by(_SHARD)


def counts(conn: Connection) -> list[dict[str, Any]]:
    """Return ``{"name": str | None, "count": int}``, the largest first; None: of no shard."""
    found = [{"name": name, "count": count} for name, count in conn.execute(_LIST)]
    return sorted(found, key=lambda shard: (-shard["count"], shard["name"] or ""))
