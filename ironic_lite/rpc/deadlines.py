"""Deadlines of RPC calls: the time for which a caller waits, at both ends.

A caller behind a broker gives up when its time is over, or without a keepalive for some seconds. A
call may lie long, at the broker or before a stalled conductor. So each call with a waiting caller
carries a `CallDeadline`: the time it was sent, by a monotonic clock of its sender. Clocks differ,
so the age of a call is its delay beyond the fastest recent call of the same sender, see
`ClockOffsets`. If the age is unknown or too long, the conductor does not begin and asks the caller
(``failures.Again``). A caller that still waits repeats the call with the time of the conductor's
own clock, which makes the age certain.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from ironic_lite import errors
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.slots import Slots

KEY = "call"
"""Key of the deadline in a context on the wire; conductors that do not know it ignore it."""

GOOD_FOR = 600.0
"""Seconds for which a clock offset is valid, because clocks drift."""

_SURE = 0.5
"""Longest exchange in seconds, of asking and answer, that yields a clock offset."""

_WAY = 0.2
"""Seconds that a keepalive may take; this long before its limit, a caller may be lost."""

_LATE = 1 / 2
"""Part of the keepalive limit; for a call begun later, the library's first keepalive may come too
late."""

SENDERS = 1000
"""Most clocks that are remembered."""


@dataclasses.dataclass(frozen=True, slots=True)
class CallDeadline:
    """The data that accompanies a call with a waiting caller.

    ``sender`` names a clock, and ``sent`` is its time in seconds; ``limit`` is the seconds that the
    caller still waits. ``asked`` is the clock time of the conductor that asked whether the caller
    still waits, or None.
    """

    sender: str
    sent: float
    limit: float
    asked: float | None = None

    def as_dict(self) -> Json:
        """Return plain JSON types; ``dataclasses.asdict`` takes ten times as long."""
        return {
            "sender": self.sender,
            "sent": self.sent,
            "limit": self.limit,
            "asked": self.asked,
        }

    @classmethod
    def of(cls, context: JsonView) -> CallDeadline | None:
        """Return the deadline in a context on the wire, None if missing or unreadable."""
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
class DeadlineContext:
    """A context with a deadline, to be sent."""

    context: Context
    note: CallDeadline

    def as_dict(self) -> Json:
        """Return both as plain JSON types."""
        return {**self.context.as_dict(), KEY: self.note.as_dict()}


class ClockOffsets:
    """The age of calls, by clocks that may differ. Not thread-safe."""

    def __init__(self) -> None:
        # By sender: the offset of our clock to the sender's, and its time of measurement.
        self._ahead: dict[str, tuple[float, float]] = {}

    def age(self, note: CallDeadline, now: float) -> float | None:
        """Return the seconds since a call was sent, None if unknown.

        :param now: by the clock of this process, as all times here.
        """
        ahead = now - note.sent
        if note.asked is not None and note.asked <= now:
            age = now - note.asked
            if age <= _SURE:
                self._learn_offset(note.sender, ahead, now)
            return age
        least, since = self._ahead.get(note.sender, (0.0, -math.inf))
        if now - since > GOOD_FOR:
            return None
        if ahead < least:
            self._learn_offset(note.sender, ahead, now)
        return max(0.0, ahead - least)

    def _learn_offset(self, sender: str, ahead: float, now: float) -> None:
        self._ahead.pop(sender, None)
        if len(self._ahead) >= SENDERS:
            del self._ahead[next(iter(self._ahead))]  # the oldest offset
        self._ahead[sender] = (ahead, now)


def waits(age: float | None, *, silence: float, limit: float) -> bool:
    """Return whether a caller that has received nothing certainly still waits.

    :param age: seconds since the call was sent, None if unknown.
    :param silence: the caller's keepalive limit in seconds.
    :param limit: seconds that the caller waits in all.
    """
    return age is not None and age <= silence - _WAY and age < limit


def sign_is_due(age: float | None, *, silence: float) -> bool:
    """Return whether the caller needs a keepalive as soon as its call is begun."""
    return age is not None and age > (silence - _WAY) * _LATE


# The limit on concurrent calls of an API process, for each conductor.
#
# A conductor runs a limited number of calls at once and sends no keepalives for others. If each API
# sends few at a time, calls wait in the API, where only [DEFAULT]rpc_response_timeout runs, instead
# of at the conductor.

MOST_CALLS = 64
"""Calls at once: as many as a conductor has threads (executor_thread_pool_size)."""


class SendLimiter:
    """The slots for calls of a process; one object serves all its threads."""

    def __init__(self) -> None:
        self._slots = Slots(None, MOST_CALLS)

    @contextlib.contextmanager
    def place(self, host: str | None, seconds: float) -> Iterator[None]:
        """Hold a slot among the calls of a conductor for the length of the block.

        :param host: the conductor's name, None for any.
        :param seconds: the longest wait for a slot.
        :raises errors.NoConductor: no slot became free.
        """
        who = host or "any"
        with self._slots.hold(who, seconds=seconds) as held:
            if not held:
                raise errors.NoConductor(
                    f"The conductor {who} is busy: {MOST_CALLS} calls have had no answer in time; "
                    "retry.",
                    host=who,
                    reason="too many running calls",
                )
            yield
