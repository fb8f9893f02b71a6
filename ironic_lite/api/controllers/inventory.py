"""Inventory of a node: the data of its last inspection."""

from __future__ import annotations

from ironic_lite.api.resources import node_lookup
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import inventories

_SINCE = 81


class Inventory(expose.Controller):
    """The object /v1/nodes/{node}/inventory."""

    @expose.expose("GET", "/nodes/{ident}/inventory", types.word, since=_SINCE)
    def show(self, request: Request, ident: str) -> Json:
        """Return ``inventory`` and ``plugin_data``: two statements."""
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        found = self.service.database.read(lambda conn: inventories.get(conn, node))
        # Agents and third-party drivers may store secrets here.
        return {name: masking.mask(value) for name, value in found.items()}
