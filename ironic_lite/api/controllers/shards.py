"""Shards: parts of a fleet that clients divide among themselves."""

from __future__ import annotations

from typing import Any

from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import shards

_SINCE = 82


class Shards(expose.Controller):
    """How many nodes each shard has."""

    @expose.expose("GET", "/shards", since=_SINCE)
    def index(self, _request: Request) -> dict[str, Any]:
        """List the shards, the largest first; nodes without one count as those of ``None``."""
        found = self.service.database.read(shards.counts)
        return {"shards": [{**shard, "name": str(shard["name"])} for shard in found]}
