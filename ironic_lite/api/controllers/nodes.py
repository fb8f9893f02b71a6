"""Nodes themselves: list, show, create, change, delete. What hangs below a node has own modules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Any

from ironic_lite import errors, fields
from ironic_lite.api.resources import documents, enrolment, idents, pages, queries, rosters
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose, render
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import chassis
from ironic_lite.db.session import Connection

Json = dict[str, Any]

_FORGET = ("baremetal:node:delete", "baremetal:node:delete:self_owned_node")


class Nodes(expose.Controller):
    """The collection /v1/nodes and its members."""

    @expose.expose("GET", "/nodes", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of nodes."""
        return self._page(request, detail=False)

    @expose.expose("GET", "/nodes/detail", raw_query=True)
    def index_detail(self, request: Request) -> Json:
        """Return a page of nodes with all fields."""
        return self._page(request, detail=True)

    @expose.expose("GET", "/nodes/{ident}", types.word, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one node, whole or the fields asked for: one SQL statement."""
        chosen = None
        if request.query:
            chosen = queries.one(queries.NODES, request.query, version=request.version)
        names = chosen or _visible(request.version)
        plan = documents.plan(documents.NODES, names, request.version, full=chosen is None)
        traits = "traits" in plan.computed
        columns = (*plan.columns, "generation")
        row = idents.fetch(self.service, request, ident, columns, with_traits=traits)
        _tag(request, row)
        del row["generation"]
        return self.document(request, plan, row)

    @expose.expose("POST", "/nodes", status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Enroll a node."""
        row = enrolment.create(self.service, request, request.json)
        location = f"{request.base}/v1/nodes/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return self.whole(request, row)

    @expose.expose("PATCH", "/nodes/{ident}", types.word, types.boolean, body=expose.WHOLE)
    def update(self, request: Request, ident: str, reset_interfaces: bool | None = None) -> Json:
        """Change a node by a JSON PATCH.

        Three SQL statements, and some more where it leads to other rows: an owner, a parent.
        """
        row = enrolment.update(self.service, request, ident, reset_interfaces=reset_interfaces)
        return self.whole(request, row)

    @expose.expose("DELETE", "/nodes/{ident}", types.word, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Forget a node; its conductor checks that nothing goes on with it."""
        own = self.service.conf.api.project_admin_can_manage_own_nodes
        rules = _FORGET if own else _FORGET[:1]
        columns = ("uuid", "driver", "conductor_group")
        row = idents.fetch(self.service, request, ident, columns, rules=rules, enough=any)
        conductor = self.service.conductor_of(row)
        conductor.destroy_node(request.who, node_uuid=row["uuid"])

    # -- lists -------------------------------------------------------------------------------

    def _page(self, request: Request, *, detail: bool, **among: Any) -> Json:
        """Return a page of the nodes that also match the filters ``among``."""
        query = pages.query(self.service, request, queries.NODES, detail=detail)
        for name, value in among.items():
            if query.where.get(name, value) != value:
                raise errors.InvalidParameter(path=name, reason="is another one than the path's")
        where = pages.narrowed(request, {**query.where, **among}, "node")
        query = dataclasses.replace(query, where=where)
        shown = pages.plan(documents.NODES, request, query)
        linker = documents.linker(shown, request.base)
        compute = self._computer(request, shown)

        def read(conn: Connection) -> tuple[list[bytes], int, str]:
            done, count, last = [], 0, ""
            for rows in rosters.read(conn, self.service, query, shown):
                count, last = count + len(rows), rows[-1]["uuid"]
                done.append(render.items(shown.show_texts(rows, linker, compute)))
            return done, count, last

        done, count, last = self.service.database.read(read)
        asked = "chassis_uuid" in query.where
        if not count and asked and request.access.allows("baremetal:chassis:get"):
            # An empty list would hide a mistyped UUID; only then is it worth a statement.
            self.service.database.read(lambda conn: chassis.get(conn, query.where["chassis_uuid"]))
        body: Json = {shown.collection: render.joined(done)}
        link = queries.next_link(f"{request.base}/v1{request.path}", query, count, last)
        return {**body, "next": link} if link else body

    # -- showing -----------------------------------------------------------------------------

    def whole(self, request: Request, row: Json) -> Json:
        """Return the document of a node that was written, from all its columns and traits."""
        _tag(request, row)
        plan = documents.plan(
            documents.NODES, _visible(request.version), request.version, full=True
        )
        kept = {column: row[column] for column in plan.columns}
        if "traits" in plan.computed:
            kept["traits"] = row.get("traits", [])
        return self.document(request, plan, kept)

    def document(self, request: Request, plan: documents.Plan, row: Json) -> Json:
        """Return the document of a node from the plan's columns and traits."""
        linker = documents.linker(plan, request.base)
        return plan.show_all([row], linker, self._computer(request, plan))[0]

    def _computer(self, request: Request, plan: documents.Plan) -> Callable[[Json], None] | None:
        """Return what puts into a row what neither column nor trait holds, and hides what its
        reader may not see."""
        redact = request.access.redactor()
        if "conductor" not in plan.computed:
            return redact
        owner = self.service.fleet.owners()

        def compute(row: Json) -> None:
            row["conductor"] = owner(row)
            if redact is not None:
                redact(row)

        return compute


def _tag(request: Request, row: Json) -> None:
    request.answer.headers.append(("ETag", idents.tag(row)))


@cache
def _visible(version: int) -> tuple[str, ...]:
    return tuple(field.name for field in fields.visible(fields.NODE, version))
