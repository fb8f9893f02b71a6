"""The firmware of a node: which version of what, as its BMC told last."""

from __future__ import annotations

from typing import Any

from ironic_lite.api.resources import idents, queries
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import firmware_components

Json = dict[str, Any]

_SINCE = 86
_ALWAYS = ("created_at", "updated_at")


class Firmware(expose.Controller):
    """The list /v1/nodes/{node}/firmware."""

    @expose.expose("GET", "/nodes/{ident}/firmware", types.word, since=_SINCE, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return the components of a node, by name: two statements."""
        names = queries.whole(queries.FIRMWARE, request.query, version=request.version)
        node = str(idents.fetch(self.service, request, ident, ("uuid",))["uuid"])
        rows = self.service.database.read(lambda conn: firmware_components.of_node(conn, node))
        wanted = tuple(dict.fromkeys((*_ALWAYS, *names)))
        return {"firmware": [{name: row[name] for name in wanted} for row in rows]}
