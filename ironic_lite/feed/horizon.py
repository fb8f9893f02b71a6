"""The settled part of the event table: the ids up to which no event can appear any more.

An id is assigned when a row is inserted, and the row is visible from the commit of its transaction
on. PostgreSQL and MariaDB may therefore show a larger id before a smaller one. A reader that passes
the missing id would lose that event. `Horizon` holds cursors back until the missing id is visible,
or until no transaction can fill it.

Each look at the table that shows ids above a missing one leaves a *mark*: every id below the
largest visible one was assigned by then. The mark matures when the transactions of that time have
ended. After that, an id that is still missing stays missing.

- SQLite assigns ids inside its only write transaction, so marks mature at once.
- PostgreSQL: the oldest running transaction (xmin) has passed the newest one of the mark (xmax),
  and one second has passed. The second covers an INSERT between its id and its transaction number.
  After 60 seconds the mark matures in any case, because foreign transactions hold xmin back.
- MariaDB: 10 seconds have passed. The server ends idle write transactions after 5 seconds.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

SQLITE, POSTGRESQL, MYSQL = "sqlite", "postgresql", "mysql"
SETTLE_SECONDS = {SQLITE: 0.0, POSTGRESQL: 1.0, MYSQL: 10.0}
"""Seconds after which a mark may mature, by kind of database."""
FORCED_SECONDS = 60.0
"""Seconds after which a mark matures although older transactions are running."""


class Snapshot(NamedTuple):
    """The transactions at one look at a PostgreSQL database, 0 in other databases.

    ``xmin`` is the oldest running transaction, ``xmax`` the next one.
    """

    xmin: int = 0
    xmax: int = 0


NO_SNAPSHOT = Snapshot()


class _Mark(NamedTuple):
    upto: int
    xmax: int
    at: float


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
        """Missing ids that were passed although older transactions were running."""
        self._kind = kind
        self._step = max(1, step)
        self._remainders: set[int] = set()
        self._marks: collections.deque[_Mark] = collections.deque()

    def skip(self, settled: int) -> None:
        """Begin again at a later id, after a pause in which nobody has looked.

        Marks stay, so that a reader that looks rarely passes missing ids at its next look.
        """
        self.settled = max(self.settled, settled)

    def advance(self, ids: Sequence[int], now: float, snapshot: Snapshot = NO_SNAPSHOT) -> int:
        """Take the result of a look at the table; return the new settled id.

        :param ids: all visible ids above `settled`, ascending, without omissions up to the last.
        :param now: seconds of a monotonic clock.
        :param snapshot: read by the same statement as the ids.
        """
        if not ids:
            return self.settled
        dead, forced = self._matured(now, snapshot)
        before = self.settled
        self._remainders.update(ident % self._step for ident in ids)
        for ident in ids:
            missing = self._missing(max(before, dead) + 1, ident)
            if missing:
                break
            self._count(before, ident, forced)
            before = self.settled = ident
        if before == ids[-1]:
            self._marks.clear()
        elif not self._marks or self._marks[-1].upto < ids[-1]:
            self._marks.append(_Mark(ids[-1], snapshot.xmax, now))
        return self.settled

    def _matured(self, now: float, snapshot: Snapshot) -> tuple[float, float]:
        """Return the ids up to which missing ids are dead, and from which this was forced."""
        if self._kind == SQLITE:
            return float("inf"), float("inf")
        dead = sure = float(self.settled)
        for mark in self._marks:
            age = now - mark.at
            ended = self._kind != POSTGRESQL or snapshot.xmin >= mark.xmax
            if ended and age >= SETTLE_SECONDS[self._kind]:
                dead = sure = mark.upto
            elif age >= FORCED_SECONDS:
                dead = mark.upto
        while self._marks and self._marks[0].upto < dead:
            self._marks.popleft()
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
