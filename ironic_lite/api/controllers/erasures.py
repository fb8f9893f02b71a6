"""Erasure records, and the state of a node's data.

Ironic does not have them: every version of this API has.
"""

from __future__ import annotations

from http import HTTPStatus

import orjson

from ironic_lite import errors
from ironic_lite.api.resources import changes, node_lookup, pages, queries
from ironic_lite.api.validation import rules, shapes, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock, text_masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import erasures, events, nodes
from ironic_lite.domain import event_rows, states
from ironic_lite.domain.erasure_records import DECLARED, DataState

_LONGEST = 255
_NODE = (
    *("uuid", "generation", "data_state", "instance_uuid", "provision_state"),
    *text_masking.FIELDS,
)


class Erasures(expose.Controller):
    """The records of a node, those of all nodes, and the keys that verify them."""

    @expose.expose("GET", "/nodes/{ident}/erasures", types.word, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's records, the newest first: two statements."""
        query = pages.query(self.service, request, queries.NODES_ERASURES)
        node = node_lookup.fetch(self.service, request, ident, ("uuid",))
        own = node_lookup.own_filters(request, "baremetal:node:erasures:get")
        return self._page(request, query, {**query.where, **own, "node_uuid": node["uuid"]})

    @expose.expose("GET", "/erasures", raw_query=True)
    def fleet(self, request: Request) -> Json:
        """Return a page of all records: to a project those of its time, also of deleted nodes."""
        query = pages.query(self.service, request, queries.ERASURES)
        where = node_lookup.where_visible(self.service, request, query.where)
        return self._page(request, query, where)

    def _page(self, request: Request, query: queries.Query, where: Json) -> Json:
        columns = (*query.fields, *(("uuid",) if "uuid" not in query.fields else ()))
        known = tuple(name for name in columns if name != "links")
        rows = self.service.database.read(
            lambda conn: erasures.page(
                conn,
                columns=known,
                where=where,
                marker_id=query.marker,
                direction=query.direction,
                limit=query.limit,
            )
        )
        shown = [{name: each.get(name) for name in query.fields} for each in rows]
        return pages.body(request, query, "erasures", shown, [each["uuid"] for each in rows])

    @expose.expose("GET", "/erasures/{erasure}", types.word)
    def show(self, request: Request, erasure: str) -> orjson.Fragment:
        """Return a record: the exact bytes that were signed."""
        return orjson.Fragment(self._record(request, erasure)["statement"].encode())

    @expose.expose("GET", "/erasures/{erasure}/signature", types.word)
    def signature(self, request: Request, erasure: str) -> orjson.Fragment:
        """Return the 64 bytes of a record's signature."""
        found = self._record(request, erasure)["signature"]
        if found is None:
            raise errors.NotFound(what="Signature of the erasure record", ident=erasure)
        request.answer.headers.append(("Content-Type", "application/octet-stream"))
        return orjson.Fragment(bytes.fromhex(found))

    @expose.expose("GET", "/erasures/keys/{key}", types.word)
    def key(self, request: Request, key: str) -> orjson.Fragment:
        """Return a public key, PEM."""
        pem = self.service.database.read(lambda conn: erasures.public_key(conn, key))
        request.answer.headers.append(("Content-Type", "application/x-pem-file"))
        return orjson.Fragment(pem.encode())

    def _record(self, request: Request, erasure: str) -> Json:
        owner = request.access.only()
        if not rules.uuid_like(erasure):
            raise errors.NotFound(what="Erasure record", ident=erasure)
        known = rules.uuid(erasure, "erasure")
        found: Json = self.service.database.read(
            lambda conn: erasures.get(conn, known, owner=owner)
        )
        return found

    @expose.expose(
        "PUT",
        "/nodes/{ident}/data_state",
        types.word,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
        waits=True,
        first=node_lookup.present,
    )
    def declare(self, request: Request, ident: str) -> None:
        """Declare the state of a node's data; the reason is in the event.

        :raises errors.Conflict: the node has an instance, so its data are not gone.
        """
        shapes.check("data_state", request.json, "", "Schema error for data_state")
        reason = rules.text(request.json["reason"].strip(), "reason", least=1, length=_LONGEST)
        after = request.json["data_state"]
        node = node_lookup.fetch(self.service, request, ident, _NODE)
        if after == DataState.CLEAN and node["instance_uuid"] is not None:
            text = "its instance has data. Delete the instance, or remove instance_uuid, and repeat"
            raise errors.Conflict(node=node["uuid"], reason=f"{text} the request.")
        if after == DataState.CLEAN and node["provision_state"] in states.WITH_INSTANCE:
            text = f"in the state {node['provision_state']} it may have an instance with data"
            raise errors.Conflict(
                node=node["uuid"], reason=f"{text}. Undeploy or manage it, and repeat the request."
            )
        values = {"data_state": after, "data_state_at": clock.now(), "data_state_by": DECLARED}
        about = {"reason": text_masking.of_node(node, prose=True)(reason)}
        told = event_rows.of(request.who, node["uuid"], "data_state", about)
        told |= {"event": DECLARED, "before": node["data_state"] or "unknown", "after": after}

        def write(conn: Connection) -> None:
            nodes.edit(conn, node["uuid"], values, generation=node["generation"])
            events.add(conn, [told])

        changes.write(self.service, request, write)
