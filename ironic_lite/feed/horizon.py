"""The settled part of the event table: the ids up to which no event can appear any more.

An id is assigned when a row is inserted, and the row is visible from the commit of its transaction
on. PostgreSQL and MariaDB may therefore show a larger id before a smaller one. A reader that passes
the missing id would lose that event. `Horizon` holds cursors back until the missing id is visible,
or until no transaction can fill it.

Each look at the table that shows ids above a missing one leaves a *mark*: every id below the
largest visible one was assigned by then. Before each later look, the server is asked which
transactions may still fill a missing id (`db.queries.feed.ask`). The mark matures when its
transactions have ended. After that, an id that the look does not show stays missing.

- SQLite assigns ids inside its only write transaction, so marks mature at once.
- PostgreSQL lists the transactions that have written to the table, whichever account they have.
- MariaDB shows other accounts' statements to an administrator only, but a locking read of the
  missing ids finds the rows of any open transaction. An id has no row for the moment between its
  assignment and its insertion, so marks mature after 10 seconds at the earliest.

A server that cannot be asked (MySQL, a Galera cluster, whose other members have transactions of
their own) lets marks mature by age alone: `UNASKED_SECONDS`. A transaction that is open for an hour
is passed, too, because followers must not wait for ever. Ids that are passed so are counted as
forced.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence

from ironic_lite.db.queries.feed import Answer

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
        answer: Answer | None = None,
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

    def _matured(self, now: float, answer: Answer | None) -> tuple[float, float]:
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
