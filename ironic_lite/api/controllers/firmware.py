"""Firmware components of a node and their versions, as last read from its BMC."""

from __future__ import annotations

from ironic_lite.api.resources import node_lookup, queries
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import firmware_components

_SINCE = 86
_ALWAYS = ("created_at", "updated_at")


class Firmware(expose.Controller):
    """The list /v1/nodes/{node}/firmware."""

    @expose.expose("GET", "/nodes/{ident}/firmware", types.word, since=_SINCE, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return the components of a node, sorted by name: two statements."""
        names = queries.whole(queries.FIRMWARE, request.query, version=request.version)
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        rows = self.service.database.read(lambda conn: firmware_components.of_node(conn, node))
        wanted = tuple(dict.fromkeys((*_ALWAYS, *names)))
        return {"firmware": [{name: row[name] for name in wanted} for row in rows]}
