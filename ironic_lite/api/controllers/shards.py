"""Shards: parts of the nodes, which clients divide among themselves."""

from __future__ import annotations

from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import shards

_SINCE = 82


class Shards(expose.Controller):
    """The number of nodes in each shard."""

    @expose.expose("GET", "/shards", since=_SINCE)
    def index(self, _request: Request) -> Json:
        """List the shards, the largest first; nodes without a shard count under ``None``."""
        found = self.service.database.read(shards.counts)
        return {"shards": [{**shard, "name": str(shard["name"])} for shard in found]}
