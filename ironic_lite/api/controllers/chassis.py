"""Chassis: what groups of nodes are built into."""

from __future__ import annotations

from typing import Any

from ironic_lite.api.controllers import nodes
from ironic_lite.api.resources import documents, families, queries
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import chassis

Json = dict[str, Any]


class Chassis(families.Controller, since=1, detail=True):
    """The collection /v1/chassis, and its members."""

    family = chassis.FAMILY
    word = "chassis"
    shown = documents.CHASSIS
    asked = queries.CHASSIS

    def page(self, request: Request, *, detail: bool = False) -> Json:
        """Return a page of chassis."""
        answer = super().page(request, detail=detail)
        for row in answer["chassis"]:
            _nest(row)
        return answer

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Show a row with all columns."""
        return _nest(super().document(request, row, chosen))


class Members(nodes.Nodes):
    """The nodes of a chassis, listed like all nodes."""

    @expose.expose("GET", "/chassis/{ident}/nodes", types.word, raw_query=True)
    def index_of_chassis(self, request: Request, ident: str) -> Json:
        """Return a page of one chassis' nodes."""
        return self._page(request, detail=False, chassis_uuid=self._known(ident))

    @expose.expose("GET", "/chassis/{ident}/nodes/detail", types.word, raw_query=True)
    def index_detail_of_chassis(self, request: Request, ident: str) -> Json:
        """Return a page of one chassis' nodes with all fields."""
        return self._page(request, detail=True, chassis_uuid=self._known(ident))

    def _known(self, ident: str) -> str:
        known = rules.uuid(ident, "chassis")
        self.service.database.read(lambda conn: chassis.get(conn, known))
        return known


def _nest(document: Json) -> Json:
    """Put the links to the nodes into one more list, where Ironic's clients find them."""
    if "nodes" in document:
        document["nodes"] = [document["nodes"]]
    return document
