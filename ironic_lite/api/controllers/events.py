"""The feed of events, and events that the network service reports."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.resources import changes, feed_query, node_lookup
from ironic_lite.api.validation import rules, shapes
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.later import Stream, Suspension
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, feed, ports
from ironic_lite.domain import event_rows
from ironic_lite.feed.events import Filter

LOG = logging.getLogger(__name__)

_SINCE = 54
_KEPT = ("port_id", "mac_address", "status", "device_id")


def _form(_self: Events, request: Request) -> None:
    _read_events(request.json)


class Events(expose.Controller):
    """/v1/events: every change of every node, in the order of its cursors."""

    @expose.expose("GET", "/events", since=_SINCE, raw_query=True)
    def index(self, request: Request) -> Json | None:
        """Return a page of events; with ``wait`` the next ones, with ``follow`` a stream.

        Three statements: new events, the page, and the largest removed cursor.
        """
        query = feed_query.read(request.query, self.service.conf)
        tail = self.service.tail
        notes, owner = request.call.notes, request.access.only()
        if "choice" not in notes:
            nodes = self._nodes(request, query)
            notes["choice"] = Filter(nodes, query.runs, query.kinds, owner)
        choice: Filter = notes["choice"]
        tail.look()
        since = self._start(query, notes)
        if query.follow:
            skipped, removed = notes["skipped"], tail.removed()
            request.call.later = Stream(
                since, choice, query.limit, skipped, removed, request.access.login_seconds
            )
            return None
        limit = query.limit or feed_query.MOST
        newest = query.since is None
        after = 0 if newest else since
        upto = max(tail.settled, since)
        page = tail.page(choice, after=after, upto=upto, limit=limit, newest=newest)
        # A full page of events that the client skips is followed by others.
        cursor = page[-1].id if len(page) == limit and not newest else upto
        found = [event for event in page if event.id not in notes["skipped"]]
        if query.wait is not None and not found:
            left = query.wait - request.call.watch.seconds
            notes["since"] = cursor
            if left > 0:
                request.call.later = Suspension(left, choice=choice)
        return {
            "events": [event.document for event in found],
            "cursor": str(cursor),
            "trimmed": query.since is not None and 0 <= query.since < tail.removed(),
        }

    def _start(self, query: feed_query.FeedQuery, notes: Json) -> int:
        """Return the cursor to read after; a request that waits keeps its place."""
        tail = self.service.tail
        if "since" not in notes:
            self._check_cursor(query)
            at_end = query.since is None or query.since < 0
            notes["since"] = tail.settled if at_end else query.since
            # Events that were visible at the beginning are not new, even if they settle later.
            notes["skipped"] = tail.unsettled if query.since == -1 else frozenset()
        start: int = notes["since"]
        return start

    def _check_cursor(self, query: feed_query.FeedQuery) -> None:
        """Refuse a cursor that this database has not given out, such as after a restore.

        :raises errors.InvalidParameter: it is above the newest event.
        """
        if (query.since or 0) > self.service.tail.head:
            head = self.service.database.read(feed.head)
            if (query.since or 0) > head:
                reason = f"is above the newest event, {head}: start again with now or 0"
                raise errors.InvalidParameter(path="since", reason=reason)

    def _nodes(self, request: Request, query: feed_query.FeedQuery) -> frozenset[str] | None:
        """Return the UUIDs of the nodes that the query names, None for all.

        A UUID may be that of a node that was removed, or that another project owns now: the events
        themselves are chosen by the owner of their time.

        :raises errors.NodeNotFound: a name, which no node has that the caller may see.
        """
        if query.nodes is None:
            return None
        return frozenset(
            rules.uuid(ident, "node")
            if rules.uuid_like(ident)
            else node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"]
            for ident in query.nodes
        )

    @expose.expose(
        "POST",
        "/events",
        since=_SINCE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
        form=_form,
    )
    def tell(self, request: Request) -> None:
        """Record events with the nodes of their ports.

        Nothing waits for these events yet. Events of unknown ports are only logged.
        """
        reported = _read_events(request.json)
        macs = {one["mac_address"] for one in reported}

        def write(conn: Connection) -> dict[str, str]:
            owners = ports.owners(conn, macs)
            known = [one for one in reported if one["mac_address"] in owners]
            events.add(
                conn, [_event_row(request, owners[one["mac_address"]], one) for one in known]
            )
            return owners

        owners = changes.write(self.service, request, write)
        for one in reported:
            node = owners.get(one["mac_address"], "none")
            LOG.info("Event %s of port %s: node %s", one["event"], one["port_id"], node)


def _event_row(request: Request, node_uuid: str, one: Json) -> Json:
    data = {name: one[name] for name in _KEPT if one.get(name) is not None}
    row = event_rows.of(request.who, node_uuid, "network", data)
    return {**row, "event": one["event"].partition(".")[2]}


def _read_events(body: Any) -> list[Json]:
    """Return the events of a body, checked.

    :raises errors.InvalidParameter: with the path of the invalid value.
    """
    shapes.check("events", body, "", "Invalid events")
    reported: list[Json] = []
    for place, one in enumerate(body["events"]):
        path = f"events/{place}"
        read = {**one, "port_id": rules.uuid(one["port_id"], f"{path}/port_id")}
        read["mac_address"] = rules.mac(one["mac_address"], f"{path}/mac_address")
        if one.get("device_id") is not None:
            read["device_id"] = rules.uuid(one["device_id"], f"{path}/device_id")
        rules.text(one["status"], f"{path}/status")
        reported.append(read)
    return reported
