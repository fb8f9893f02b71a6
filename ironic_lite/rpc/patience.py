"""Whether a caller behind a broker still waits for its call, as a conductor can know it.

A caller gives up when its time is over, and when it hears no sign of life for a while; and a call
may lie long, at the broker or before a conductor that stood still. So each call that is waited for
carries a `Note`: when it was sent, by a clock of its sender that nobody can set. No two clocks
agree, so what counts is how much longer it took than the fastest call from there of late, see
`Senders`. Where that cannot be told, or seems too long, nothing is begun and the caller is asked
(``failures.Again``). One that still waits says it again, with what the conductor's own clock said:
that is sure.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ironic_lite.context import Context

KEY = "call"
"""Of the note in a context on the wire; conductors that do not know it pass over it."""

GOOD_FOR = 600.0
"""Seconds for which what is known of a sender's clock holds: clocks do not run equally fast."""

_SURE = 0.5
"""Seconds that asking and its answer may take, for something to be learnt of the sender's clock."""

_WAY = 0.2
"""Seconds that a sign of life may take: so long before its time is over a caller may be lost."""

_DUE = 1 / 3
"""Of the silence that is borne; after that a sign is due, and each costs a message."""

_LATE = 1 / 2
"""After that the first one that the library gives, of a call that is begun, may come too late."""

_SENDERS = 1000
"""Clocks that are remembered."""


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """What goes along with a call that is waited for.

    ``sender`` names a clock, and ``sent`` is what it said, in seconds; ``limit`` are the seconds
    that the caller still waits. ``asked`` is what the clock of the conductor said that has asked
    whether anybody waits, None if none has.
    """

    sender: str
    sent: float
    limit: float
    asked: float | None = None

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> Note | None:
        """Return the note in a context on the wire, None where there is none that can be read."""
        found: Any = context.get(KEY)
        try:
            return cls(
                sender=str(found["sender"]),
                sent=float(found["sent"]),
                limit=float(found["limit"]),
                asked=None if found["asked"] is None else float(found["asked"]),
            )
        except (KeyError, TypeError, ValueError):
            return None


@dataclasses.dataclass(frozen=True, slots=True)
class Noted:
    """A context with a note, on its way out."""

    context: Context
    note: Note

    def as_dict(self) -> dict[str, Any]:
        """Return both as plain JSON types."""
        return {**self.context.as_dict(), KEY: dataclasses.asdict(self.note)}


class Senders:
    """How long calls are under way, by clocks that need not agree. Not for several threads."""

    def __init__(self) -> None:
        # By sender: how far our clock is ahead of its, and since when that is known.
        self._ahead: dict[str, tuple[float, float]] = {}

    def age(self, note: Note, now: float) -> float | None:
        """Return the seconds since a call was sent, None if they cannot be told.

        :param now: by the clock of this process, as all moments here.
        """
        ahead = now - note.sent
        if note.asked is not None and note.asked <= now:
            age = now - note.asked
            if age <= _SURE:
                self._learn(note.sender, ahead, now)
            return age
        least, since = self._ahead.get(note.sender, (0.0, -math.inf))
        if now - since > GOOD_FOR:
            return None
        if ahead < least:
            self._learn(note.sender, ahead, now)
        return max(0.0, ahead - least)

    def _learn(self, sender: str, ahead: float, now: float) -> None:
        self._ahead.pop(sender, None)
        if len(self._ahead) >= _SENDERS:
            del self._ahead[next(iter(self._ahead))]  # what was learnt longest ago
        self._ahead[sender] = (ahead, now)


class Wait:
    """One caller's wait, as far as it is known; all moments by the clock of this process."""

    def __init__(self, *, silence: float, limit: float, age: float | None, now: float) -> None:
        """``silence`` and ``limit``: seconds that the caller bears without a sign, and in all."""
        self._bears = silence - _WAY
        self._heard = now - (age or 0.0)
        self._ends = self._heard + limit
        self._doubted = age is None
        self.known = age is not None
        """Whether anything is known of the sender's clock."""

    def lasts(self, now: float) -> bool:
        """Tell whether the caller certainly waits still; once it is doubtful, it stays so."""
        if now - self._heard > self._bears or now >= self._ends:
            self._doubted = True
        return not self._doubted

    def silent(self, now: float, *, begun: bool = False) -> bool:
        """Tell whether a sign of life is due, for a call that waits or is just ``begun``."""
        return now - self._heard > self._bears * (_LATE if begun else _DUE)

    def sign(self, now: float) -> None:
        """Note that the caller has been given a sign of life."""
        if self.lasts(now):
            self._heard = now
