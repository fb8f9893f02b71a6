"""The inventory of a node: what its last inspection has found."""

from __future__ import annotations

from typing import Any

from ironic_lite import masking
from ironic_lite.api.resources import idents
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import inventories

_SINCE = 81


class Inventory(expose.Controller):
    """The object /v1/nodes/{node}/inventory."""

    @expose.expose("GET", "/nodes/{ident}/inventory", types.word, since=_SINCE)
    def show(self, request: Request, ident: str) -> dict[str, Any]:
        """Return ``inventory`` and ``plugin_data``: two statements."""
        node = str(idents.fetch(self.service, request, ident, ("uuid",))["uuid"])
        found = self.service.database.read(lambda conn: inventories.get(conn, node))
        # Agents and drivers of others put anything there.
        return {name: masking.mask(value) for name, value in found.items()}
