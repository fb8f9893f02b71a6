"""Children of a node: nodes that are parts of the same machine."""

from __future__ import annotations

import sys

from ironic_lite.api.resources import node_lookup, pages
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import nodes

_SINCE = 83


class Children(expose.Controller):
    """The nodes that name a node as their parent."""

    @expose.expose("GET", "/nodes/{ident}/children", types.word, since=_SINCE)
    def index(self, request: Request, ident: str) -> Json:
        """List the UUIDs of all children, and the link to their list."""
        parent = node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"]
        where = pages.narrowed(request, {"parent_node": parent}, "node")
        rows = self.service.database.read(
            lambda conn: nodes.page(conn, columns=("uuid",), where=where, limit=sys.maxsize)
        )
        link = {"href": f"{request.base}/v1/nodes?parent_node={parent}", "rel": "children"}
        return {"children": [row["uuid"] for row in rows], "links": link}
