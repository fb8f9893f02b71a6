"""The newest events, read once for all that wait or follow in this process."""

from __future__ import annotations

import bisect
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ironic_lite.core import log_lines, metrics
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.queries import feed
from ironic_lite.feed.events import Event, Filter
from ironic_lite.feed.horizon import Horizon

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


class _Found(NamedTuple):
    """Rows of one look; ``answer`` and ``upto`` are about the missing ids."""

    answer: feed.Answer | None
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
            lambda conn: feed.page(
                conn, after=after, upto=upto, limit=limit, newest=newest, **choice.where
            )
        )
        return [choice.shown(Event(row)) for row in rows]

    def removed(self) -> int:
        """Return the largest id of an event that was removed, 0 if none was."""
        return self._database.read(feed.removed)

    def _begin(self) -> Horizon:
        """Return the horizon after the ids that lie far from the end of the table."""

        def read(conn: Connection) -> tuple[int, int, int, str, bool]:
            name = conn.dialect.name
            kind = "mysql" if name == "mariadb" else name
            ends = feed.head(conn), feed.removed(conn)
            return *ends, feed.step(conn), kind, kind != "sqlite" and feed.can_ask(conn)

        head, removed, step, kind, self._asks = self._database.read(read)
        # Ids that are missing among the newest may belong to open transactions.
        start = max(0, head - _FAR, removed)
        if self._horizon is None:
            self._horizon = Horizon(kind, start, step=step)
        self._horizon.skip(start)
        newest = max(self._newest, head - PAGE)
        reached = max(self._horizon.settled, self._newest)
        older = self._database.read(lambda conn: feed.ids(conn, reached, newest))
        self._pending.update(dict.fromkeys(older))
        # Only up to the first missing id: the server has not been asked.
        settled = self._horizon.settled
        floor = self._horizon.advance(sorted(self._pending), self._now(), upto=settled)
        self._pending = {ident: one for ident, one in self._pending.items() if ident > floor}
        self._newest = max(floor, newest)
        self._ring = _Ring(floor, [])
        return self._horizon

    def _read(self, conn: Connection, horizon: Horizon, now: float) -> _Found:
        question, after = horizon.question(now), horizon.settled
        if question is None:
            return _Found(None, feed.look(conn, self._newest, limit=PAGE), (), self._newest)
        answer = feed.ask(conn, after, question) if self._asks else None
        # A later statement shows all that the transactions which are not in the answer have
        # written. A long wait must not make each look read everything since its beginning.
        upto = min(self._newest, after + _FAR)
        late = [one for one in feed.ids(conn, after, upto) if one not in self._pending]
        some = feed.rows(conn, late[:PAGE])
        if late[PAGE:]:
            upto = late[PAGE] - 1
        return _Found(answer, feed.look(conn, self._newest, limit=PAGE), some, upto)

    def _take(self, horizon: Horizon, found: _Found, now: float) -> NewEvents:
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
