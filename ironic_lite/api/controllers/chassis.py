"""Chassis: what groups of nodes are built into."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Any

from ironic_lite import clock
from ironic_lite.api import (
    documents,
    expose,
    members,
    pages,
    patches,
    queries,
    rules,
    schemas,
    types,
)
from ironic_lite.api.controllers import nodes
from ironic_lite.api.exchange import Request
from ironic_lite.db import chassis

Json = dict[str, Any]


class Chassis(members.Controller):
    """The collection /v1/chassis, and its members."""

    family = chassis
    word = "chassis"

    @expose.expose("GET", "/chassis", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of chassis."""
        return self._page(request)

    @expose.expose("GET", "/chassis/detail", raw_query=True)
    def index_detail(self, request: Request) -> Json:
        """Return a page of chassis with all fields."""
        return self._page(request, detail=True)

    @expose.expose("GET", "/chassis/{ident}", types.word, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one chassis, whole or the fields asked for."""
        chosen = queries.one(queries.CHASSIS, request.query, version=request.version)
        known = rules.uuid(ident, "chassis")
        row = self.service.database.read(lambda conn: chassis.get(conn, known))
        return _document(request, row, chosen)

    @expose.expose("POST", "/chassis", status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Add a chassis."""
        given = schemas.chassis(
            {} if request.json is None else request.json, version=request.version
        )
        row = {
            "uuid": str(uuid.uuid4()),
            "description": None,
            "extra": {},
            "updated_at": None,
            **given,
            "created_at": clock.now(),
        }
        self.service.database.write(lambda conn: chassis.insert(conn, row))
        self.tell(request, "created", row)
        location = f"{request.base}/v1/chassis/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return _document(request, row)

    @expose.expose("PATCH", "/chassis/{ident}", types.word, body=expose.WHOLE)
    def update(self, request: Request, ident: str) -> Json:
        """Change a chassis by a JSON PATCH."""
        known, patch = rules.uuid(ident, "chassis"), request.json

        def judge(before: Json) -> Json:
            return patches.chassis(before, patch, version=request.version)

        return _document(request, self.change(request, known, judge))

    @expose.expose("DELETE", "/chassis/{ident}", types.word, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Remove a chassis that has no nodes."""
        self.remove(request, rules.uuid(ident, "chassis"))

    # -- lists -------------------------------------------------------------------------------

    def _page(self, request: Request, *, detail: bool = False) -> Json:
        query = pages.query(self.service, request, queries.CHASSIS, detail=detail)
        answer = pages.read(self.service, request, query, documents.CHASSIS, chassis.page)
        for row in answer["chassis"]:
            _nest(row)
        return answer


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


def _document(request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
    """Show a row with all columns."""
    return _nest(pages.member(request, documents.CHASSIS, row, chosen))


def _nest(document: Json) -> Json:
    """Put the links to the nodes into one more list, where Ironic's clients find them."""
    if "nodes" in document:
        document["nodes"] = [document["nodes"]]
    return document
