"""Read the log of a run: its events and its stored lines, joined by time."""

from __future__ import annotations

from typing import NamedTuple, cast

from ironic_lite import errors
from ironic_lite.api.wire.later import Piece
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import feed, run_logs, runs
from ironic_lite.domain import run_log
from ironic_lite.records import Event, Run

MOST_EVENTS = 1000
"""Events at the beginning, and as many at the end, that a log shows."""
_RECENT = 60.0
_NO_END = (1 << 62) - 1
_ENDED = frozenset({"done", "failed", "aborted"})


class _Found(NamedTuple):
    """Events and stored lines of a run."""

    events: list[Event]
    stored: list[run_logs.Stored]


class Reader:
    """Reads the log of one run; each call returns what has been added since the one before.

    The lines of a run are written by the holder of the node's lock, one transaction after the
    other, so an id is never visible before a smaller one. Some events come without the lock, such
    as those of sweeps: events of the last `_RECENT` seconds are read again.
    """

    def __init__(self, database: Database, run: Run) -> None:
        self._database = database
        self._run, self._node = run["uuid"], run["node_uuid"]
        self._event = self._row = 0
        self._told: set[int] = set()
        self._writer = run_log.RunLogWriter()

    def piece(self) -> Piece:
        """Return the next part; it is the last one once the run has ended or been removed."""

        def read(conn: Connection) -> tuple[bool, _Found]:
            try:
                last = runs.get(conn, self._run)["state"] in _ENDED
            except errors.NotFound:
                last = True
            return last, self._read(conn)

        last, found = self._database.read(read)
        return Piece(_text(self._lines(found)), last)

    def text(self) -> str:
        """Return the next part; two statements."""
        return _text(self._lines(self._database.read(self._read)))

    def _read(self, conn: Connection) -> _Found:
        """Read on without a change of this object, because reads are repeated after a fault."""
        return _Found(self._events(conn), run_logs.rows(conn, self._run, after=self._row))

    def _lines(self, found: _Found) -> list[str]:
        """Return the new lines, and go on after them."""
        events = self._new_events(found.events)
        self._row = max((one.id for one in found.stored), default=self._row)
        told = self._writer.lines(events[:MOST_EVENTS])
        if len(events) > MOST_EVENTS:
            told.append(run_log.left_out(events[MOST_EVENTS]["at"], "events"))
            told += self._writer.lines(events[MOST_EVENTS:])
        return run_log.merge(told, (one.text for one in found.stored))

    def _new_events(self, found: list[Event]) -> list[Event]:
        new = [one for one in found if one["id"] not in self._told]
        before = clock.ago(_RECENT)
        self._event = max((one["id"] for one in found if one["at"] < before), default=self._event)
        self._told = {one["id"] for one in found if one["id"] > self._event}
        return new

    def _events(self, conn: Connection) -> list[Event]:
        """Return the events of the run after the cursor; of many, the first and the newest."""
        found = _events_of(conn, self._node, self._run, after=self._event)
        if len(found) == MOST_EVENTS:
            found += _events_of(
                conn, self._node, self._run, after=found[-1]["id"], newest=True, limit=MOST_EVENTS
            )
        return found


def tail(database: Database, run: Run, lines: int) -> list[str]:
    """Return the newest stored lines of a run, without its events; one statement."""
    rows = database.read(lambda conn: run_logs.newest(conn, run["uuid"], limit=lines))
    return run_log.newest(run_log.merge((), (one.text for one in rows)), lines)


def _events_of(
    conn: Connection,
    node: str,
    run: str,
    *,
    after: int = 0,
    newest: bool = False,
    limit: int = MOST_EVENTS,
) -> list[Event]:
    where = {"node_uuid": (node,), "run_uuid": (run,)}
    found = feed.page(conn, after=after, upto=_NO_END, limit=limit, newest=newest, **where)
    return [cast(Event, row) for row in found]


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
