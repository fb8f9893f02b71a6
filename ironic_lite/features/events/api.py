"""The feed of events, which Ironic does not have."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request, Stream, Suspension
from ironic_lite.api.policy import Rule
from ironic_lite.api.policy.node_rules import ANY_READER, READER
from ironic_lite.api.resources import node_lookup, queries, waits
from ironic_lite.api.service import Extension
from ironic_lite.api.validation import rules
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import Configuration
from ironic_lite.db.queries import events
from ironic_lite.domain import notifications
from ironic_lite.feed import Filter

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

# Read the query of GET /v1/events.

NOW = "now"
ARGUMENTS = ("since", "before", "node", "run", "kind", "limit", "wait", "follow")
MOST = 1000
"""Largest page."""
_PAGE = 100
_CURSOR = re.compile(r"[0-9]{1,18}")
_LONGEST_LIST = 50


class FeedQuery(NamedTuple):
    """The arguments of a request for events.

    :ivar since: a cursor; None for the newest events, -1 for `NOW`.
    :ivar before: the cursor of the last event, None without this limit.
    :ivar nodes: UUIDs and names as given; None without this filter, as for the next two.
    :ivar limit: events of a page; for a stream, None means no limit.
    :ivar wait: seconds to wait for the first event, None not to wait.
    """

    since: int | None
    before: int | None
    nodes: tuple[str, ...] | None
    runs: frozenset[str] | None
    kinds: frozenset[str] | None
    limit: int | None
    wait: int | None
    follow: bool


def read_query(
    given: Mapping[str, str], conf: Configuration, cursor: Callable[[datetime.datetime], int]
) -> FeedQuery:
    """Return the parsed arguments.

    :param cursor: returns the cursor of a time.
    :raises errors.InvalidParameter: an unknown argument, or a value that cannot be read.
    """
    queries.refuse_unknown(given, ARGUMENTS)
    follow = rules.boolean(given["follow"], "follow") if "follow" in given else False
    if follow and "wait" in given:
        raise errors.InvalidParameter(path="wait", reason="cannot be used together with follow")
    if "before" in given and (follow or "wait" in given):
        reason = "cannot be used together with wait or follow"
        raise errors.InvalidParameter(path="before", reason=reason)
    runs, kinds = _listed(given, "run"), _listed(given, "kind")
    for kind in kinds or ():
        if kind not in notifications.KINDS:
            known = ", ".join(notifications.KINDS)
            reason = f"{kind[:32]!r} is not a kind of events. Valid are: {known}"
            raise errors.InvalidParameter(path="kind", reason=reason)
    return FeedQuery(
        since=-1 if given.get("since") == NOW else _place(given, "since", cursor),
        before=_place(given, "before", cursor),
        nodes=_listed(given, "node"),
        runs=None if runs is None else frozenset(rules.uuid(run, "run") for run in runs),
        kinds=None if kinds is None else frozenset(kinds),
        limit=_limit(given.get("limit"), None if follow else _PAGE),
        wait=waits.seconds(given["wait"], conf) if "wait" in given else None,
        follow=follow,
    )


def _place(
    given: Mapping[str, str], name: str, cursor: Callable[[datetime.datetime], int]
) -> int | None:
    if name not in given:
        return None
    text = given[name]
    return int(text) if _CURSOR.fullmatch(text) else cursor(queries.read_moment(text, name))


def _listed(given: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    if name not in given:
        return None
    found = tuple(word.strip() for word in given[name].split(",") if word.strip())
    if not 1 <= len(found) <= _LONGEST_LIST:
        reason = f"has {len(found)} entries, not 1 to {_LONGEST_LIST}"
        raise errors.InvalidParameter(path=name, reason=reason)
    return found


def _limit(text: str | None, default: int | None) -> int | None:
    if text is None:
        return default
    if not _CURSOR.fullmatch(text) or not 1 <= int(text) <= MOST:
        reason = f"{text[:32]!r} is not a number from 1 to {MOST}"
        raise errors.InvalidParameter(path="limit", reason=reason)
    return int(text)


_SINCE = 54


class Events(expose.Controller):
    """/v1/events: every change of every node, in the order of its cursors."""

    @expose.expose("GET", "/events", since=_SINCE, raw_query=True)
    def index(self, request: Request) -> Json | None:
        """Return a page of events; with ``wait`` the next ones, with ``follow`` a stream.

        Three statements: new events, the page, and the largest removed cursor.
        """
        query = read_query(request.query, self.service.conf, self._cursor)
        tail = self.service.tail
        notes, owner = request.call.notes, request.access.only()
        if "choice" not in notes:
            nodes = self._nodes(request, query)
            hidden = request.access.hidden(owner)
            notes["choice"] = Filter(nodes, query.runs, query.kinds, owner, hidden)
        choice: Filter = notes["choice"]
        tail.look()
        since = self._start(query, notes)
        if query.follow:
            skipped, removed = notes["skipped"], tail.removed()
            request.call.later = Stream(
                since, choice, query.limit, skipped, removed, request.access.login_seconds
            )
            return None
        limit = query.limit or MOST
        newest = query.since is None
        after = 0 if newest else since
        upto = max(tail.settled, since) if query.before is None else min(tail.settled, query.before)
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

    def _cursor(self, at: datetime.datetime) -> int:
        """Return the cursor of a time; a later event may still get a number above the settled."""
        self.service.tail.look()
        found = self.service.database.read(lambda conn: events.id_before(conn, at))
        return min(found, self.service.tail.settled)

    def _start(self, query: FeedQuery, notes: Json) -> int:
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

    def _check_cursor(self, query: FeedQuery) -> None:
        """Refuse a cursor that this database has not given out, such as after a restore.

        :raises errors.InvalidParameter: it is above the newest event.
        """
        if (query.since or 0) > self.service.tail.head:
            head = self.service.database.read(events.head)
            if (query.since or 0) > head:
                reason = f"is above the newest event, {head}: start again with now or 0"
                raise errors.InvalidParameter(path="since", reason=reason)

    def _nodes(self, request: Request, query: FeedQuery) -> frozenset[str] | None:
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


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.answers import FLAG, OBJECT, TEXT, TEXT_OR_NULL  # noqa: PLC0415
    from ironic_lite.api.openapi.parts import Schemas, object_with_all  # noqa: PLC0415

    event = object_with_all(
        cursor=TEXT,
        at={"type": "string", "format": "date-time"},
        node=TEXT_OR_NULL,
        name=TEXT_OR_NULL,
        kind={"enum": list(notifications.KINDS)},
        event=TEXT_OR_NULL,
        before=TEXT_OR_NULL,
        after=TEXT_OR_NULL,
        run=TEXT_OR_NULL,
        requester=TEXT_OR_NULL,
        project=TEXT_OR_NULL,
        request_id=TEXT_OR_NULL,
        conductor=TEXT_OR_NULL,
        data=OBJECT,
    )
    events = Schemas(
        object_with_all(events={"type": "array", "items": event}, cursor=TEXT, trimmed=FLAG),
        query={
            "since": TEXT,
            "before": TEXT,
            "node": TEXT,
            "run": TEXT,
            "kind": TEXT,
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
            "wait": {"type": "integer", "minimum": 1},
            "follow": FLAG,
        },
        other_type="application/x-ndjson",
    )
    return {"GET /events": events}


EXTENSION = Extension(
    (Events,),
    (
        Rule(
            "baremetal:event:list",
            ANY_READER,
            "Follow the events of the own project's nodes.",
            ("GET /events",),
        ),
        Rule("baremetal:event:list_all", READER, "Follow the events of all nodes."),
    ),
    _answers,
)
