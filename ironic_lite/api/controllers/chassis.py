"""Chassis: enclosures of groups of nodes."""

from __future__ import annotations

from ironic_lite.api.controllers import nodes
from ironic_lite.api.resources import crud, queries, views
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import chassis


class Chassis(crud.ResourceController, since=1, detail=True):
    """The chassis.

    Inherited: GET, POST /v1/chassis, GET /v1/chassis/detail;
    GET, PATCH, DELETE /v1/chassis/{ident}.
    """

    family = chassis.FAMILY
    word = "chassis"
    shown = views.CHASSIS
    asked = queries.CHASSIS
    roots_first = True
    found_first = ("uuid",)

    def outline(self, request: Request, body: object) -> Json:
        """Return the column values of a POST; all are optional, so the body is, too."""
        return super().outline(request, body if request.size else {})

    def complete(self, _request: Request, documents: list[Json]) -> None:
        """Nest the links to the nodes."""
        for one in documents:
            _nest_node_links(one)

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Return the document of a row, which has all columns."""
        return _nest_node_links(super().document(request, row, chosen))


class Members(nodes.Nodes):
    """The nodes of a chassis, listed like /v1/nodes."""

    @expose.expose(
        "GET", "/chassis/{ident}/nodes", types.word, raw_query=True, form=nodes.form_of_list
    )
    def index_of_chassis(self, request: Request, ident: str) -> Json:
        """Return a page of one chassis' nodes."""
        return self._page(request, detail=False, chassis_uuid=self._chassis_uuid(ident))

    @expose.expose(
        "GET",
        "/chassis/{ident}/nodes/detail",
        types.word,
        raw_query=True,
        form=nodes.form_of_detail,
    )
    def index_detail_of_chassis(self, request: Request, ident: str) -> Json:
        """Return a page of one chassis' nodes with all fields."""
        return self._page(request, detail=True, chassis_uuid=self._chassis_uuid(ident))

    def _chassis_uuid(self, ident: str) -> str:
        known = rules.uuid(ident, "chassis")
        self.service.database.read(lambda conn: chassis.get(conn, known))
        return known


def _nest_node_links(document: Json) -> Json:
    """Put the links to the nodes into a nested list, as Ironic's clients expect."""
    if "nodes" in document:
        document["nodes"] = [document["nodes"]]
    return document
