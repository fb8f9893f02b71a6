"""History of a node: errors, and the start and end of flows of steps.

The entries are recorded events in the words of ``ironic_lite.domain.history``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.api.resources import node_lookup, pages, queries
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import events
from ironic_lite.domain import fields, history
from ironic_lite.records import Event

_SINCE = 78
_RULE = "baremetal:node:history:get"
_CUT = 255  # largest number of characters of an event's text in a list without details


class History(expose.Controller):
    """The list /v1/nodes/{node}/history and its members."""

    @expose.expose("GET", "/nodes/{ident}/history", types.word, since=_SINCE, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return a page of a node's history, the oldest first: two statements."""
        query = pages.query(self.service, request, queries.HISTORY)
        marker = None if query.marker is None else _event_id(query.marker, "Marker")
        node = self._node_uuid_of(request, ident)
        rows = self.service.database.read(
            lambda conn: events.entries(
                conn,
                node,
                marker=marker,
                direction=query.direction,
                limit=query.limit,
                own=node_lookup.own_filters(request, _RULE),
            )
        )
        entries = [_entry_document(request, node, row, query.fields) for row in rows]
        if not query.detail and not query.chosen:
            for entry in entries:
                entry["event"] = _shortened_text(entry["event"])
        keys = [history.ident(row["id"]) for row in rows]
        return pages.body(request, query, "history", entries, keys)

    @expose.expose("GET", "/nodes/{ident}/history/{entry}", types.word, types.word, since=_SINCE)
    def show(self, request: Request, ident: str, entry: str) -> Json:
        """Return one entry with all its fields: two statements, each by a key."""
        node = self._node_uuid_of(request, ident)
        known = _event_id(entry, _WHAT)
        row = self.service.database.read(lambda conn: events.entry(conn, node, known))
        if row is None or not request.access.reads(_RULE, row):
            raise errors.NotFound(what=_WHAT, ident=entry)
        names = [field.name for field in fields.visible(fields.HISTORY, request.version)]
        return _entry_document(request, node, row, names)

    def _node_uuid_of(self, request: Request, ident: str) -> str:
        return str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])


_WHAT = "Node history record"


def _event_id(ident: str, what: str) -> int:
    """Return the ID of an entry's event.

    :raises errors.NotFound: not a UUID of an entry.
    """
    found = history.event_id(rules.uuid(ident, "uuid")) if rules.uuid_like(ident) else None
    if found is None:
        raise errors.NotFound(what=what, ident=ident)
    return found


def _entry_document(request: Request, node: str, row: Event, names: Sequence[str]) -> Json:
    entry = history.entry(row)
    shown = {name: entry[name] for name in names if name != "links"}
    href = f"{request.base}/v1/nodes/{node}/history/{entry['uuid']}"
    return {**shown, "links": [{"href": href, "rel": "self"}]}


def _shortened_text(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[: _CUT - 3]}..."
