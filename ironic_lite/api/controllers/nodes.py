"""Nodes: list, show, create, change, delete; sub-resources of nodes have their own modules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import (
    bmc_orders,
    enrolment,
    node_holds,
    node_lookup,
    node_pages,
    node_waits,
    pages,
    queries,
    views,
)
from ironic_lite.api.validation import schemas, types
from ironic_lite.api.watching import waits
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import chassis
from ironic_lite.domain import fields, holds


def form_of_list(_self: Nodes, request: Request) -> None:
    """Check the query of a list of nodes, as `expose.expose`."""
    queries.check_form(queries.NODES, request.query)


def form_of_detail(_self: Nodes, request: Request) -> None:
    """Check the query of a list of nodes with all fields, as `expose.expose`."""
    queries.check_form(queries.NODES, request.query, detail=True)


def _form_of_post(_self: Nodes, request: Request) -> None:
    schemas.node(request.json, version=request.version)


class Nodes(expose.Controller):
    """The collection /v1/nodes and its members."""

    @expose.expose("GET", "/nodes", raw_query=True, form=form_of_list)
    def index(self, request: Request) -> Json:
        """Return a page of nodes."""
        return self._page(request, detail=False)

    @expose.expose("GET", "/nodes/detail", raw_query=True, form=form_of_detail)
    def index_detail(self, request: Request) -> Json:
        """Return a page of nodes with all fields."""
        return self._page(request, detail=True)

    @expose.expose("GET", "/nodes/{ident}", types.word, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one node, all fields or the requested ones: one SQL statement.

        With ``wait``, answer when the node is in a state that ``until`` names.
        """
        chosen = wait = None
        if request.query:
            given, wait = waits.split(request.query, self.service.conf, waits.of_node)
            chosen = queries.one(queries.NODES, given, version=request.version)
        names = chosen or _visible_fields(request.version)
        plan = views.plan(views.NODES, names, request.version, full=chosen is None)
        traits = "traits" in plan.computed
        columns = (*plan.columns, "generation")
        row = node_waits.fetch(self.service, request, ident, columns, wait, with_traits=traits)
        node_lookup.add_tag(request, row)
        del row["generation"]
        return self.document(request, plan, row)

    @expose.expose(
        "POST", "/nodes", status=HTTPStatus.CREATED, body=expose.WHOLE, form=_form_of_post
    )
    def create(self, request: Request) -> Json:
        """Enroll a node."""
        row = enrolment.create(self.service, request, request.json)
        location = f"{request.base}/v1/nodes/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return self.whole(request, row)

    @expose.expose(
        "PATCH", "/nodes/{ident}", types.word, types.boolean, body=expose.WHOLE, waits=True
    )
    def update(self, request: Request, ident: str, reset_interfaces: bool | None = None) -> Json:
        """Change a node by a JSON PATCH.

        Three SQL statements, and more for changes that involve other rows, such as a parent.
        """
        row = enrolment.update(self.service, request, ident, reset_interfaces=reset_interfaces)
        return self.whole(request, row)

    @expose.expose("DELETE", "/nodes/{ident}", types.word, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Delete a node; its conductor checks that no operation is running."""
        rules = bmc_orders.removal_rules(self.service)
        columns = ("uuid", "driver", "conductor_group", "held")
        row = node_lookup.fetch(self.service, request, ident, columns, rules=rules, enough=any)
        node_holds.refuse(self.service, request, row, holds.REMOVAL, holds.REMOVAL)
        conductor = self.service.conductor_of(row)
        conductor.destroy_node(request.who, node_uuid=row["uuid"])

    # -- lists -------------------------------------------------------------------------------

    def _page(self, request: Request, *, detail: bool, **among: object) -> Json:
        """Return a page of the nodes that also match the filters ``among``."""
        query = pages.query(self.service, request, queries.NODES, detail=detail)
        for name, value in among.items():
            if query.where.get(name, value) != value:
                raise errors.InvalidParameter(path=name, reason="contradicts the path")
        where = pages.narrowed(request, {**query.where, **among}, "node")
        query = dataclasses.replace(query, where=where)
        shown = pages.plan(views.NODES, request, query)
        linker = views.linker(shown, request.base)
        compute = self._field_computer(request, shown)

        def read(conn: Connection) -> pages.Page:
            parts = node_pages.read(conn, self.service, query, shown)
            return pages.fill(parts, "uuid", lambda rows: shown.show_texts(rows, linker, compute))

        page = self.service.database.read(read)
        asked = "chassis_uuid" in query.where
        if not page.count and asked and request.access.allows("baremetal:chassis:get"):
            # An empty list would hide a mistyped UUID, which is worth a statement in this case.
            self.service.database.read(lambda conn: chassis.get(conn, query.where["chassis_uuid"]))
        return pages.filled(request, query, shown.collection, page)

    # -- showing -----------------------------------------------------------------------------

    def whole(self, request: Request, row: Json) -> Json:
        """Return the document of a written node from all its columns and traits."""
        node_lookup.add_tag(request, row)
        plan = views.plan(views.NODES, _visible_fields(request.version), request.version, full=True)
        kept = {column: row[column] for column in plan.columns}
        if "traits" in plan.computed:
            kept["traits"] = row.get("traits", [])
        return self.document(request, plan, kept)

    def document(self, request: Request, plan: views.Plan, row: Json) -> Json:
        """Return the document of a node from the plan's columns and traits."""
        linker = views.linker(plan, request.base)
        return plan.show_all([row], linker, self._field_computer(request, plan))[0]

    def _field_computer(self, request: Request, plan: views.Plan) -> Callable[[Json], None] | None:
        """Return a function that adds computed fields to a row and hides protected ones."""
        redact = request.access.redactor()
        if "conductor" not in plan.computed:
            return redact
        owner = self.service.fleet.owners()

        def compute(row: Json) -> None:
            row["conductor"] = owner(row)
            if redact is not None:
                redact(row)

        return compute


@cache
def _visible_fields(version: int) -> tuple[str, ...]:
    return tuple(field.name for field in fields.visible(fields.NODE, version))
