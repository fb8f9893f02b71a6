"""BIOS settings of a node, as last read from its BMC."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence

from ironic_lite.api.resources import node_lookup, queries
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose, links
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import bios_settings
from ironic_lite.domain import fields

_SINCE = 40
_ALWAYS = ("created_at", "updated_at")


class Bios(expose.Controller):
    """The list /v1/nodes/{node}/bios and its members."""

    @expose.expose("GET", "/nodes/{ident}/bios", types.word, since=_SINCE, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return all settings of a node, sorted by name: two statements."""
        names = queries.whole(queries.BIOS_SETTINGS, request.query, version=request.version)
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        rows = self.service.database.read(lambda conn: bios_settings.of_node(conn, node))
        return {"bios": [_setting_document(request, node, row, names) for row in rows]}

    @expose.expose("GET", "/nodes/{ident}/bios/{setting}", types.word, types.word, since=_SINCE)
    def show(self, request: Request, ident: str, setting: str) -> Json:
        """Return one setting under its own name, since 1.74 with all its fields."""
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        row = self.service.database.read(lambda conn: bios_settings.get(conn, node, setting))
        names = [field.name for field in fields.visible(fields.BIOS_SETTING, request.version)]
        return {setting: _setting_document(request, node, row, names)}


def _setting_document(request: Request, node: str, row: Json, names: Sequence[str]) -> Json:
    """Return the document of a setting; times and links are always included."""
    wanted = dict.fromkeys((*_ALWAYS, *names))
    shown = {name: row[name] for name in wanted if name != "links"}
    if "allowable_values" in shown:
        shown["allowable_values"] = row["allowable_values"] or []
    path = f"nodes/{node}/bios/{urllib.parse.quote(row['name'], safe='')}"
    return {**shown, "links": links.pair(request.base, path)}
