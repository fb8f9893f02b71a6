"""Events as clients see them: filters, the horizon up to which all are complete, and their tail."""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import datetime
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import orjson

from ironic_lite.core import log_lines, metrics
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.queries import events as stored_events
from ironic_lite.db.queries.events import OpenWriters
from ironic_lite.domain import history, notifications

_OPTIONS = orjson.OPT_NAIVE_UTC
_FIELDS: Mapping[str, str] = {
    # key of the document: column
    "at": "at",
    "node": "node_uuid",
    "name": "name",
    "kind": "kind",
    "event": "event",
    "before": "before",
    "after": "after",
    "run": "run_uuid",
    "requester": "requester",
    "project": "project",
    "request_id": "request_id",
    "conductor": "conductor",
}


class Event:
    """One event; its line is made once for all streams."""

    def __init__(self, row: RowView) -> None:
        self.row = row
        self.id: int = row["id"]

    @property
    def document(self) -> Json:
        """The event as an object of the API."""
        shown = {key: self.row[column] for key, column in _FIELDS.items()}
        if self.row["kind"] in notifications.NODELESS:
            shown["node"] = None  # the column has a UUID made of that of the resource
        data = self.row["data"] or {}
        if history.UNMASKED in data:
            data = {name: value for name, value in data.items() if name != history.UNMASKED}
        return {"cursor": str(self.id), **shown, "data": data}

    @cached_property
    def line(self) -> bytes:
        """The event as a line of a stream."""
        return orjson.dumps(self.document, option=_OPTIONS) + b"\n"

    @cached_property
    def unnamed(self) -> Event:
        """The event without the name of its node, for projects that may not see the node now."""
        return Event({**self.row, "name": None})


class Filter(NamedTuple):
    """Chooses events; None accepts every value.

    :ivar nodes: UUIDs of nodes.
    :ivar runs: UUIDs of runs.
    :ivar requesters: users of the requests.
    :ivar owner: the only project whose events are shown: those of batches and nodes that it owned
        when they were written.
    :ivar hidden: fields of nodes whose old and new values are not shown; None for all.
    :ivar since: the earliest time of an event up to the id ``begun``; later ones are all new.
    :ivar before: the time before which an event was.
    """

    nodes: frozenset[str] | None = None
    runs: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    requesters: frozenset[str] | None = None
    owner: str | None = None
    hidden: frozenset[str] | None = None
    since: datetime.datetime | None = None
    before: datetime.datetime | None = None
    begun: int = 0

    def accepts(self, event: Event) -> bool:
        """Return whether an event passes."""
        row = event.row
        return (
            row["kind"] != history.OF_IRONIC
            and (self.nodes is None or row["node_uuid"] in self.nodes)
            and (self.runs is None or row["run_uuid"] in self.runs)
            and (self.kinds is None or row["kind"] in self.kinds)
            and (self.requesters is None or row["requester"] in self.requesters)
            and (self.owner is None or row["owner"] == self.owner)
            and (self.since is None or row["at"] >= self.since or event.id > self.begun)
            and (self.before is None or row["at"] < self.before)
        )

    def shown(self, event: Event) -> Event:
        """Return an accepted event as the reader may see it."""
        row = event.row
        visible = self.owner is None or self.owner in (row["node_owner"], row["node_lessee"])
        shown = event if visible or row["name"] is None else event.unnamed
        data = history.readable(row["data"], self.hidden, self.owner)
        return shown if data is row["data"] else Event({**shown.row, "data": data})

    @property
    def where(self) -> Row:
        """The filter for `db.queries.events.feed_page`."""
        given = {
            "node_uuid": self.nodes,
            "run_uuid": self.runs,
            "kind": self.kinds,
            "requester": self.requesters,
            "owner": None if self.owner is None else (self.owner,),
            "since": self.since,
            "begun": None if self.since is None else self.begun,
            "before": self.before,
        }
        return {column: values for column, values in given.items() if values is not None}


# The newest events, read once for all that wait or follow in this process.

# The settled part of the event table: the ids up to which no event can appear any more.
#
# An id is assigned when a row is inserted, and the row is visible from the commit of its
# transaction on. PostgreSQL and MariaDB may therefore show a larger id before a smaller one. A
# reader that passes the missing id would lose that event. `Horizon` holds cursors back until the
# missing id is visible, or until no transaction can fill it.
#
# Each look at the table that shows ids above a missing one leaves a *mark*: every id below the
# largest visible one was assigned by then. Before each later look, the server is asked which
# transactions may still fill a missing id (`db.queries.events.ask_writers`). The mark matures
# when its transactions have ended. After that, an id that the look does not show stays missing.
#
# - SQLite assigns ids inside its only write transaction, so marks mature at once.
# - PostgreSQL lists the transactions that have written to the table, whichever account they have.
# - MariaDB shows other accounts' statements to an administrator only, but a locking read of the
#   missing ids finds the rows of any open transaction. An id has no row for the moment between its
#   assignment and its insertion, so marks mature after 10 seconds at the earliest.
#
# A server that cannot be asked (MySQL, a Galera cluster, whose other members have transactions of
# their own) lets marks mature by age alone: `UNASKED_SECONDS`. A transaction that is open for an
# hour is passed, too, because followers must not wait for ever. Ids that are passed so are counted
# as forced.

SQLITE, POSTGRESQL, MYSQL = "sqlite", "postgresql", "mysql"
SETTLE_SECONDS = {SQLITE: 0.0, POSTGRESQL: 0.0, MYSQL: 10.0}
"""Seconds after which a mark may mature, by kind of database."""
UNASKED_SECONDS = 60.0
"""Seconds after which a mark matures if the server cannot be asked."""
FORCED_SECONDS = 3600.0
"""Seconds after which a mark matures although one of its transactions is open."""
_BETWEEN_MARKS = 1.0
"""Seconds between two marks, so that a long wait leaves few of them."""


@dataclasses.dataclass
class _Mark:
    upto: int
    at: float
    writers: frozenset[str] | None = None
    """Those of the first answer after the mark, which are open still; None before it."""


class Horizon:
    """Follows the settled part of the table.

    :param kind: of the database: ``sqlite``, ``postgresql`` or ``mysql``.
    :param settled: the id to start after.
    :param step: distance of the ids that the database assigns (auto_increment_increment). Ids whose
        remainder no id has had so far are not waited for.
    """

    def __init__(self, kind: str, settled: int, *, step: int = 1) -> None:
        self.settled = settled
        self.passed = 0
        """Missing ids that were passed because no transaction can fill them."""
        self.forced = 0
        """Missing ids that were passed by age alone."""
        self._kind = kind
        self._step = max(1, step)
        self._remainders: set[int] = set()
        self._marks: collections.deque[_Mark] = collections.deque()

    def skip(self, settled: int) -> None:
        """Begin again at a later id, after a pause with too many events to read.

        Marks stay, so that a reader that looks rarely passes missing ids at its next look.
        """
        self.settled = max(self.settled, settled)

    def question(self, now: float) -> int | None:
        """Return the id up to which the server must be asked before the next look, or None.

        :param now: seconds of a monotonic clock.
        """
        if not self._marks or self._kind == SQLITE:
            return None
        aged = [mark.upto for mark in self._marks if self._has_age(mark, now)]
        return max(aged, default=self.settled)

    def waited(self, now: float) -> float:
        """Return the seconds for which a missing id has held cursors back."""
        return now - self._marks[0].at if self._marks else 0.0

    def advance(
        self,
        ids: Sequence[int],
        now: float,
        answer: OpenWriters | None = None,
        *,
        upto: float = math.inf,
    ) -> int:
        """Take the result of a look at the table; return the new settled id.

        :param ids: all visible ids above `settled`, ascending, without omissions up to the last.
        :param now: seconds of a monotonic clock, the same as for `question`.
        :param answer: to `question`; None without a question, or if the server cannot be asked.
        :param upto: the id up to which the look has read missing ids after the answer.
        """
        if not ids:
            return self.settled
        dead, forced = self._matured(now, answer)
        dead = min(dead, upto)
        before = self.settled
        self._remainders.update(ident % self._step for ident in ids)
        for ident in ids:
            missing = self._missing(max(before, dead) + 1, ident)
            if missing:
                break
            self._count(before, ident, forced)
            before = self.settled = ident
        while self._marks and self._marks[0].upto <= before:
            self._marks.popleft()
        if before < ids[-1] and self._needs_mark(ids[-1], now):
            self._marks.append(_Mark(ids[-1], now))
        return self.settled

    def _needs_mark(self, upto: int, now: float) -> bool:
        newest = self._marks[-1] if self._marks else None
        return newest is None or (newest.upto < upto and now - newest.at >= _BETWEEN_MARKS)

    def _has_age(self, mark: _Mark, now: float) -> bool:
        return now - mark.at >= SETTLE_SECONDS[self._kind]

    def _matured(self, now: float, answer: OpenWriters | None) -> tuple[float, float]:
        """Return the ids up to which missing ids are dead, and from which this was forced."""
        if self._kind == SQLITE:
            return float("inf"), float("inf")
        dead = sure = float(self.settled)
        for mark in self._marks:
            if answer is not None:
                known = answer.writers if mark.writers is None else mark.writers
                mark.writers = known & answer.writers
                if not mark.writers and not answer.locked and self._has_age(mark, now):
                    dead = sure = mark.upto
                    continue
            if now - mark.at >= (UNASKED_SECONDS if answer is None else FORCED_SECONDS):
                dead = mark.upto
        return dead, sure

    def _missing(self, first: float, following: int) -> bool:
        """Return whether an id from ``first`` to before ``following`` may still appear."""
        if first >= following:
            return False
        candidates = range(int(first), min(following, int(first) + self._step))
        return any(ident % self._step in self._remainders for ident in candidates)

    def _count(self, before: int, ident: int, sure: float) -> None:
        holes = (ident - before - 1) // self._step
        if holes and self._kind != SQLITE:
            if ident - 1 > sure:
                self.forced += holes
            else:
                self.passed += holes


LOG = logging.getLogger(__name__)

PAGE = 1000
"""Rows of one look at the table."""
KEPT = 5000
"""Settled events that the process keeps."""
_FAR = 10 * PAGE
"""Ids before the end of the table from which a reader begins to look for missing ones."""
_PENDING = 5000
"""Visible events above the settled id that the process keeps."""
_STALE_SECONDS = 60.0
"""Time without a look after which the next one leaves out rows far from the end of the table."""
_WARN_AFTER = 60.0
"""Seconds for which a missing id holds cursors back without a warning."""


class NewEvents(NamedTuple):
    """The result of a look.

    :ivar seen: newly visible events.
    :ivar settled: newly settled events.
    :ivar unread: further events have settled that the process has not kept, after a long wait.
    :ivar more: the next look will read more at once.
    """

    seen: Sequence[Event]
    settled: Sequence[Event]
    unread: bool
    more: bool


class _FoundEvents(NamedTuple):
    """Rows of one look; ``answer`` and ``upto`` are about the missing ids."""

    answer: stored_events.OpenWriters | None
    rows: Sequence[Row]
    late: Sequence[Row]
    upto: int


class _Ring(NamedTuple):
    """Settled events above an id."""

    floor: int
    events: list[Event]


class Tail:
    """Follows the event table; any thread may look.

    :param kept: settled events to keep for followers; older ones are read from the table.
    """

    def __init__(
        self,
        database: Transactions,
        *,
        kept: int = KEPT,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._now = now
        self._guard = threading.Lock()
        self._horizon: Horizon | None = None
        self._kept = kept
        self._ring = _Ring(0, [])
        """The newest settled events; replaced, never changed."""
        self._listeners: list[Callable[[NewEvents], None]] = []
        self._pending: dict[int, Event | None] = {}
        """Visible events above the settled id; None for those to read from the table again."""
        self._newest = 0
        """The largest id that a look has reached."""
        self._asks = False
        """True if the server can be asked about missing ids."""
        self._looked = now()
        self._warnings = log_lines.LogThrottle()
        self.head = 0
        """The largest visible id."""

    @property
    def settled(self) -> int:
        """The id up to which cursors are given out."""
        return self._horizon.settled if self._horizon is not None else 0

    @property
    def unsettled(self) -> frozenset[int]:
        """The visible ids above `settled`."""
        return frozenset(self._pending)

    @contextlib.contextmanager
    def listening(self, hear: Callable[[NewEvents], None]) -> Iterator[None]:
        """Call ``hear`` with the news of every look, in the thread that has looked."""
        with self._guard:
            self._listeners = [*self._listeners, hear]
        try:
            yield
        finally:
            with self._guard:
                self._listeners = [one for one in self._listeners if one is not hear]

    def look(self) -> NewEvents:
        """Read new rows by one statement; a few more if ids are missing, or at the first look.

        Every look returns other rows, so requests that wait use `listening`.

        :raises errors.Unavailable: the database is away.
        """
        with self._guard:
            now = self._now()
            stale = now - self._looked > _STALE_SECONDS
            self._looked = now
            horizon = self._begin() if self._horizon is None or stale else self._horizon
            found = self._database.read(lambda conn: self._read(conn, horizon, now))
            news, listeners = self._take(horizon, found, now), self._listeners
        if news.seen or news.settled or news.unread:
            for hear in listeners:
                hear(news)
        return news

    def events(self, after: int, upto: int) -> Sequence[Event] | None:
        """Return the settled events with ``after < id <= upto``; None if some are not kept."""
        floor, events = self._ring
        if after < floor:
            return None
        first = bisect.bisect_right(events, after, key=_ident)
        last = bisect.bisect_right(events, upto, key=_ident)
        return events[first:last]

    def page(
        self, choice: Filter, *, after: int, upto: int, limit: int = PAGE, newest: bool = False
    ) -> Sequence[Event]:
        """Read settled events from the table, for cursors older than the kept events.

        :param newest: the newest ``limit`` events, otherwise the oldest.
        """
        rows = self._database.read(
            lambda conn: stored_events.feed_page(
                conn, after=after, upto=upto, limit=limit, newest=newest, **choice.where
            )
        )
        return [choice.shown(Event(row)) for row in rows]

    def removed(self) -> int:
        """Return the largest id of an event that was removed, 0 if none was."""
        return self._database.read(stored_events.last_removed)

    def _begin(self) -> Horizon:
        """Return the horizon after the ids that lie far from the end of the table."""

        def read(conn: Connection) -> tuple[int, int, int, str, bool]:
            name = conn.dialect.name
            kind = "mysql" if name == "mariadb" else name
            ends = stored_events.head(conn), stored_events.last_removed(conn)
            return (
                *ends,
                stored_events.id_step(conn),
                kind,
                kind != "sqlite" and stored_events.can_ask_writers(conn),
            )

        head, removed, step, kind, self._asks = self._database.read(read)
        # Ids that are missing among the newest may belong to open transactions.
        start = max(0, head - _FAR, removed)
        if self._horizon is None:
            self._horizon = Horizon(kind, start, step=step)
        self._horizon.skip(start)
        newest = max(self._newest, head - PAGE)
        reached = max(self._horizon.settled, self._newest)
        older = self._database.read(lambda conn: stored_events.ids_between(conn, reached, newest))
        self._pending.update(dict.fromkeys(older))
        # Only up to the first missing id: the server has not been asked.
        settled = self._horizon.settled
        floor = self._horizon.advance(sorted(self._pending), self._now(), upto=settled)
        self._pending = {ident: one for ident, one in self._pending.items() if ident > floor}
        self._newest = max(floor, newest)
        self._ring = _Ring(floor, [])
        return self._horizon

    def _read(self, conn: Connection, horizon: Horizon, now: float) -> _FoundEvents:
        question, after = horizon.question(now), horizon.settled
        if question is None:
            return _FoundEvents(
                None, stored_events.events_after(conn, self._newest, limit=PAGE), (), self._newest
            )
        answer = stored_events.ask_writers(conn, after, question) if self._asks else None
        # A later statement shows all that the transactions which are not in the answer have
        # written. A long wait must not make each look read everything since its beginning.
        upto = min(self._newest, after + _FAR)
        late = [
            one for one in stored_events.ids_between(conn, after, upto) if one not in self._pending
        ]
        some = stored_events.events_with_ids(conn, late[:PAGE])
        if late[PAGE:]:
            upto = late[PAGE] - 1
        return _FoundEvents(
            answer, stored_events.events_after(conn, self._newest, limit=PAGE), some, upto
        )

    def _take(self, horizon: Horizon, found: _FoundEvents, now: float) -> NewEvents:
        seen = [Event(row) for row in (*found.late, *found.rows)]
        self._pending.update((event.id, event) for event in seen)
        if found.rows:
            self._newest = found.rows[-1]["id"]
        self.head = max(self.head, horizon.settled, *self._pending)
        ids = sorted(self._pending)
        for ident in ids[_PENDING:]:
            self._pending[ident] = None
        passed, forced = horizon.passed, horizon.forced
        settled = horizon.advance(ids, now, found.answer, upto=found.upto)
        self._report(horizon.passed - passed, horizon.forced - forced, horizon.waited(now))
        ended = [self._pending.pop(ident) for ident in ids if ident <= settled]
        kept = [event for event in ended if event is not None]
        unread = len(kept) < len(ended)
        if unread:
            self._ring = _Ring(settled, [])
        else:
            self._keep(kept)
        more = len(found.rows) == PAGE or len(found.late) == PAGE
        return NewEvents(seen, kept, unread, more)

    def _keep(self, events: Sequence[Event]) -> None:
        if not events:
            return
        floor, known = self._ring
        merged = [*known, *events]
        surplus = len(merged) - self._kept
        if surplus > 0:
            floor, merged = merged[surplus - 1].id, merged[surplus:]
        self._ring = _Ring(floor, merged)

    def _report(self, passed: int, forced: int, waited: float) -> None:
        if passed:
            metrics.BOARD.count("events_gaps_total", "dead", by=passed)
        settled = self.settled
        if forced:
            metrics.BOARD.count("events_gaps_total", "forced", by=forced)
            LOG.warning(
                "Passed %d missing event numbers below %d by their age alone, because %s. "
                "Followers may lack these events. Look for long transactions in the database.",
                forced,
                settled,
                "a transaction has been open for an hour"
                if self._asks
                else "this database cannot be asked for open transactions",
            )
        if waited < _WARN_AFTER:
            self._warnings = log_lines.LogThrottle()
        elif self._asks and self._warnings.new("open"):
            LOG.warning(
                "Cursors of events wait at %d, because a transaction that may write the next event "
                "has been open for %.0f s. Followers and webhooks get no newer events until it "
                "ends: look for a long transaction or a backup's lock in the database.",
                settled,
                waited,
            )


def _ident(event: Event) -> int:
    return event.id
