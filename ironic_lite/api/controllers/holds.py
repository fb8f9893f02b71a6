"""Holds: typed reasons to leave nodes alone, each with its own end.

Ironic does not have holds: every version of this API has them.
"""

from __future__ import annotations

from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import (
    changes,
    node_holds,
    node_lookup,
    pages,
    queries,
)
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock, text_masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, holds, nodes
from ironic_lite.domain import event_rows, history
from ironic_lite.domain import holds as core

_CREATE = "baremetal:node:hold:create"
_NODE = ("uuid", *history.STANDING, *text_masking.FIELDS)
_LONGEST = 255


class Holds(expose.Controller):
    """The holds of a node, and those of all nodes."""

    @expose.expose("GET", "/nodes/{ident}/holds", types.word, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's holds in force, the oldest first: two statements.

        With ``ended``, those that have ended are in the list, too.
        """
        query = pages.query(self.service, request, queries.NODES_HOLDS)
        node, own = node_lookup.fetch_beside(
            self.service, request, ident, ("uuid",), node_holds.READ
        )
        return self._page(request, query, {**query.where, **own, "node_uuid": node["uuid"]})

    @expose.expose("GET", "/holds", raw_query=True)
    def fleet(self, request: Request) -> Json:
        """Return a page of the holds of all nodes: one statement, and one for ``node``."""
        query = pages.query(self.service, request, queries.HOLDS)
        where = node_lookup.where_visible(self.service, request, query.where)
        return self._page(request, query, where)

    def _page(self, request: Request, query: queries.Query, where: Json) -> Json:
        where.setdefault("ended", False)
        columns = (*query.fields, *(name for name in _NEEDED if name not in query.fields))
        rows = self.service.database.read(
            lambda conn: holds.page(
                conn,
                columns=columns,
                where=where,
                marker_id=query.marker,
                direction=query.direction,
                limit=query.limit,
            )
        )
        now = clock.now()
        for row in rows:
            if not node_holds.reads_reason(request, row):
                row["reason"] = None
        documents = [core.document(row, now) for row in rows]
        shown = [{name: each[name] for name in query.fields} for each in documents]
        return pages.body(request, query, "holds", shown, [row["uuid"] for row in rows])

    @expose.expose(
        "POST",
        "/nodes/{ident}/holds",
        types.word,
        status=HTTPStatus.CREATED,
        body=expose.WHOLE,
        first=node_lookup.present,
    )
    def create(self, request: Request, ident: str) -> Json:
        """Hold a node; work that is under way goes on."""
        given = node_holds.read_body(request.json)
        named = (_CREATE, *request.access.written([f"{_CREATE}:{given['kind']}"]))
        node = node_lookup.fetch(self.service, request, ident, ("uuid",), rules=named)
        row: Json = {
            **dict.fromkeys(holds.COLUMNS[1:]),
            **given,
            "uuid": changes.subject(request),
            "node_uuid": node["uuid"],
            "created_at": clock.now(),
            "created_by": request.who.user,
            "project": request.who.project,
        }

        def write(conn: Connection) -> None:
            # The row of the node is locked, so that the number of holds stays below the limit, and
            # a conductor takes the node's lock before the hold or sees it.
            standing = nodes.get(conn, node["uuid"], _NODE, hold=True)
            row["reason"] = text_masking.of_node(standing, prose=True)(row["reason"])
            holds.add(conn, row)
            events.add(conn, [_event(request, "hold_added", row, standing)])

        changes.write(self.service, request, write)
        shown = {name: value for name, value in row.items() if name not in OWNERS}
        return core.document(shown, clock.now())

    @expose.expose(
        "DELETE",
        "/nodes/{ident}/holds/{hold}",
        types.word,
        types.word,
        types.word,
        status=HTTPStatus.NO_CONTENT,
    )
    def end(self, request: Request, ident: str, hold: str, reason: str | None = None) -> None:
        """End a hold; one that has ended stays as it is."""
        node = node_lookup.fetch(self.service, request, ident, ("uuid",))
        if not rules.uuid_like(hold):
            raise errors.NotFound(what="Hold", ident=hold)
        known = rules.uuid(hold, "hold")
        if reason is not None:
            rules.text(reason, "reason", length=_LONGEST)
        at = clock.now()
        ended: Json = {"ended_at": at, "ended_by": request.who.user, "end_reason": None}

        def write(conn: Connection) -> None:
            standing = nodes.get(conn, node["uuid"], _NODE, hold=True)
            if reason:
                ended["end_reason"] = text_masking.of_node(standing, prose=True)(reason)
            row = holds.get(conn, node["uuid"], known)
            if core.document(row, at)["ended_at"] is None and holds.end(conn, known, ended):
                why = {**row, "reason": ended["end_reason"]}
                events.add(conn, [_event(request, "hold_ended", why, standing)])

        changes.write(self.service, request, write)


_NEEDED = ("uuid", "blocks", "until", "ended_at", *core.PROJECTS)


def _event(request: Request, what: str, row: Json, node: Json) -> Json:
    """Return the event of a hold's begin or end, an entry of the node's history."""
    data = core.event_data(row, history.standing_of(node), request.who.project)
    return {**event_rows.of(request.who, node["uuid"], what, data), "event": row["kind"]}
