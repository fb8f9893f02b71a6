"""The newest events, read once for all that wait or follow in this process."""

from __future__ import annotations

import bisect
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ironic_lite.core import metrics
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.queries import feed
from ironic_lite.feed.events import Event, Filter
from ironic_lite.feed.horizon import Horizon, Snapshot

LOG = logging.getLogger(__name__)

PAGE = 1000
"""Rows of one look at the table."""
KEPT = 5000
"""Settled events that the process keeps."""
_STALE_SECONDS = 60.0
"""Time without a look after which the next one begins at the end of the table."""


class NewEvents(NamedTuple):
    """The result of a look: newly visible events, newly settled ones, and more to read."""

    seen: Sequence[Event]
    settled: Sequence[Event]
    more: bool


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
        self._pending: dict[int, Event] = {}
        """Visible events above the settled id."""
        self._looked = now()
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
        """Read new rows by one statement, two more at the first look.

        Every look returns other rows, so requests that wait use `listening`.

        :raises errors.Unavailable: the database is away.
        """
        with self._guard:
            now = self._now()
            stale = now - self._looked > _STALE_SECONDS
            self._looked = now
            horizon = self._begin() if self._horizon is None or stale else self._horizon
            found = self._database.read(lambda conn: feed.look(conn, horizon.settled, limit=PAGE))
            news, listeners = self._take(horizon, found), self._listeners
        if news.seen or news.settled:
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
        return [Event(row) for row in rows]

    def removed(self) -> int:
        """Return the largest id of an event that was removed, 0 if none was."""
        return self._database.read(feed.removed)

    def _begin(self) -> Horizon:
        def read(conn: Connection) -> tuple[int, int, str]:
            name = conn.dialect.name
            kind = "mysql" if name == "mariadb" else name
            return feed.head(conn), feed.step(conn), kind

        head, step, kind = self._database.read(read)
        # Ids that are missing among the newest may belong to open transactions.
        start = max(0, head - PAGE)
        if self._horizon is None:
            self._horizon = Horizon(kind, start, step=step)
        self._horizon.skip(start)
        floor = self._horizon.settled
        self._ring = _Ring(floor, [])
        self._pending = {ident: one for ident, one in self._pending.items() if ident > floor}
        return self._horizon

    def _take(self, horizon: Horizon, found: feed.Look) -> NewEvents:
        seen = [Event(row) for row in found.rows if row["id"] not in self._pending]
        self._pending.update((event.id, event) for event in seen)
        ids = sorted(self._pending)
        passed, forced = horizon.passed, horizon.forced
        settled = horizon.advance(ids, self._now(), Snapshot(found.xmin, found.xmax))
        self.head = max(self.head, settled, *ids[-1:])
        _report(horizon.passed - passed, horizon.forced - forced, settled)
        kept = [self._pending.pop(ident) for ident in ids if ident <= settled]
        self._keep(kept)
        return NewEvents(seen, kept, bool(kept) and len(found.rows) == PAGE)

    def _keep(self, events: Sequence[Event]) -> None:
        if not events:
            return
        floor, known = self._ring
        merged = [*known, *events]
        surplus = len(merged) - self._kept
        if surplus > 0:
            floor, merged = merged[surplus - 1].id, merged[surplus:]
        self._ring = _Ring(floor, merged)


def _ident(event: Event) -> int:
    return event.id


def _report(passed: int, forced: int, settled: int) -> None:
    if passed:
        metrics.BOARD.count("events_gaps_total", "dead", by=passed)
    if forced:
        metrics.BOARD.count("events_gaps_total", "forced", by=forced)
        LOG.warning(
            "Passed %d missing event numbers below %d, because transactions have been open for a "
            "minute. Followers may lack these events. Look for long transactions in the database.",
            forced,
            settled,
        )
