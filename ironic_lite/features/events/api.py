"""The feed of events, which Ironic does not have."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Mapping
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
from ironic_lite.features.events import rows
from ironic_lite.feed import Filter

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

# Read the query of GET /v1/events.

NOW = "now"
ARGUMENTS = ("since", "before", "node", "run", "kind", "requester", "limit", "wait", "follow")
MOST = 1000
"""Largest page."""
_PAGE = 100
_CURSOR = re.compile(r"[0-9]{1,18}")
_LONGEST_LIST = 50


class FeedQuery(NamedTuple):
    """The arguments of a request for events.

    :ivar since: a cursor or a time; None for the newest events, -1 for `NOW`.
    :ivar before: the cursor of the last event or the time after it, None without this limit.
    :ivar nodes: UUIDs and names as given; None without this filter, as for the next three.
    :ivar limit: events of a page; for a stream, None means no limit.
    :ivar wait: seconds to wait for the first event, None not to wait.
    """

    since: int | datetime.datetime | None
    before: int | datetime.datetime | None
    nodes: tuple[str, ...] | None
    runs: frozenset[str] | None
    kinds: frozenset[str] | None
    requesters: frozenset[str] | None
    limit: int | None
    wait: int | None
    follow: bool


def read_query(given: Mapping[str, str], conf: Configuration) -> FeedQuery:
    """Return the parsed arguments.

    :raises errors.InvalidParameter: an unknown argument, or a value that cannot be read.
    """
    queries.refuse_unknown(given, ARGUMENTS)
    follow = rules.boolean(given["follow"], "follow") if "follow" in given else False
    if follow and "wait" in given:
        raise errors.InvalidParameter(path="wait", reason="cannot be used together with follow")
    if "before" in given and (follow or "wait" in given):
        reason = "cannot be used together with wait or follow"
        raise errors.InvalidParameter(path="before", reason=reason)
    runs, kinds = _listed(given, "run"), _listed(given, "kind", len(notifications.KINDS))
    for kind in kinds or ():
        if kind not in notifications.KINDS:
            known = ", ".join(notifications.KINDS)
            reason = f"{kind[:32]!r} is not a kind of events. Valid are: {known}"
            raise errors.InvalidParameter(path="kind", reason=reason)
    return FeedQuery(
        since=-1 if given.get("since") == NOW else _place(given, "since"),
        before=_place(given, "before"),
        nodes=_listed(given, "node"),
        runs=None if runs is None else frozenset(rules.uuid(run, "run") for run in runs),
        kinds=None if kinds is None else frozenset(kinds),
        requesters=_requesters(given),
        limit=_limit(given.get("limit"), None if follow else _PAGE),
        wait=waits.seconds(given["wait"], conf) if "wait" in given else None,
        follow=follow,
    )


def _place(given: Mapping[str, str], name: str) -> int | datetime.datetime | None:
    if name not in given:
        return None
    text = given[name]
    if _CURSOR.fullmatch(text):
        return int(text)
    try:
        return queries.read_moment(text, name)
    except errors.InvalidParameter as why:
        others = "a cursor of an earlier answer" + (", 0 or now" if name == "since" else "")
        reason = f"{why.facts['reason']}, nor {others}"
        raise errors.InvalidParameter(path=name, reason=reason) from None


def _time(given: int | datetime.datetime | None) -> datetime.datetime | None:
    return given if isinstance(given, datetime.datetime) else None


def _listed(
    given: Mapping[str, str], name: str, most: int = _LONGEST_LIST
) -> tuple[str, ...] | None:
    if name not in given:
        return None
    found = tuple(word.strip() for word in given[name].split(",") if word.strip())
    if not 1 <= len(found) <= most:
        reason = f"has {len(found)} entries, not 1 to {most}"
        raise errors.InvalidParameter(path=name, reason=reason)
    return found


def _requesters(given: Mapping[str, str]) -> frozenset[str] | None:
    """Return the one name that is asked for: it may have a comma."""
    if "requester" not in given:
        return None
    return frozenset((queries.read_text(given["requester"], "requester"),))


def _limit(text: str | None, default: int | None) -> int | None:
    if text is None:
        return default
    if not _CURSOR.fullmatch(text) or not 1 <= int(text) <= MOST:
        reason = f"{text[:32]!r} is not a number from 1 to {MOST}"
        raise errors.InvalidParameter(path="limit", reason=reason)
    return int(text)


_SINCE = 54
_CLOCKS_DIFFER = datetime.timedelta(days=1)
"""Most by which the clocks of two conductors may differ."""


class Events(expose.Controller):
    """/v1/events: every change of every node, in the order of its cursors."""

    @expose.expose("GET", "/events", since=_SINCE, raw_query=True)
    def index(self, request: Request) -> Json | None:
        """Return a page of events; with ``wait`` the next ones, with ``follow`` a stream.

        Three statements: new events, the page, and the largest removed cursor. A time needs some
        more, once, because events are stored in the order of their cursors.
        """
        query = read_query(request.query, self.service.conf)
        tail = self.service.tail
        notes = request.call.notes
        tail.look()
        if "choice" not in notes:
            notes["choice"] = self._choice(request, query)
        choice: Filter = notes["choice"]
        since, removed = self._start(query, notes), tail.removed()
        trimmed = self._is_trimmed(query.since, removed)
        if query.follow:
            login, skipped = request.access.login_seconds, notes["skipped"]
            request.call.later = Stream(
                since, choice, query.limit, skipped, removed, login, complete=not trimmed
            )
            return None
        limit = query.limit or MOST
        newest = query.since is None
        after = 0 if newest else since
        upto = max(after, self._end(query))
        page = tail.page(choice, after=after, upto=upto, limit=limit, newest=newest)
        # A full page of events that the client skips is followed by others.
        cursor = page[-1].id if len(page) == limit and not newest else upto
        if choice.before is not None:  # events after it are between the last ones before it
            cursor = page[-1].id if page else after
        found = [event for event in page if event.id not in notes["skipped"]]
        if query.wait is not None and not found:
            left = query.wait - request.call.watch.seconds
            notes["since"] = cursor
            if left > 0:
                request.call.later = Suspension(left, choice=choice)
        return {
            "events": [event.document for event in found],
            "cursor": str(cursor),
            "trimmed": trimmed,
        }

    def _choice(self, request: Request, query: FeedQuery) -> Filter:
        owner, since = request.access.only(), _time(query.since)
        return Filter(
            self._nodes(request, query),
            query.runs,
            query.kinds,
            query.requesters,
            owner,
            request.access.hidden(owner),
            since=since,
            before=_time(query.before),
            begun=0 if since is None else self.service.tail.head,
        )

    def _cursor(self, at: datetime.datetime, margin: datetime.timedelta) -> int:
        """Return about the cursor of a time; a later event may still get a number above it."""
        with contextlib.suppress(OverflowError):  # the first or the last day of all
            at += margin
        found = self.service.database.read(lambda conn: rows.id_before(conn, at))
        return min(found, self.service.tail.settled)

    def _end(self, query: FeedQuery) -> int:
        """Return the cursor of the last event that the answer may have."""
        if isinstance(query.before, datetime.datetime):
            return self._cursor(query.before, _CLOCKS_DIFFER)
        settled = self.service.tail.settled
        return settled if query.before is None else min(settled, query.before)

    def _is_trimmed(self, since: int | datetime.datetime | None, removed: int) -> bool:
        """Return whether events since a cursor or a time may have been removed."""
        if not isinstance(since, datetime.datetime):
            return since is not None and 0 <= since < removed
        if not removed:
            return False
        following = self.service.database.read(lambda conn: rows.time_after(conn, removed))
        return following is None or following >= since

    def _start(self, query: FeedQuery, notes: Json) -> int:
        """Return the cursor to read after; a request that waits keeps its place."""
        tail = self.service.tail
        if "since" not in notes:
            self._check_cursor(query)
            if isinstance(query.since, datetime.datetime):
                notes["since"] = self._cursor(query.since, -_CLOCKS_DIFFER)
            else:
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
        since = query.since if isinstance(query.since, int) else 0
        if since > self.service.tail.head:
            head = self.service.database.read(events.head)
            if since > head:
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
            "requester": TEXT,
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
