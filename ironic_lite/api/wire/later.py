"""Requests that the server answers later, or bit by bit.

A handler cannot wait: it holds a thread and a slot of the concurrency limits. It stores one of
these records in its `request.Call`, beside the answer that it would give now. The server waits
without a thread, and calls the handler again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple


@dataclasses.dataclass(frozen=True, slots=True)
class Suspension:
    """Call the handler again after a change, or when the time is over.

    :ivar seconds: the time that is left. The last call happens at its end.
    :ivar node: wake after any event of this node.
    :ivar choice: wake after a settled event that this `feed.events.Filter` accepts.
    :ivar pause: call after this time without a change, too.
    """

    seconds: float
    node: str | None = None
    choice: Any = None
    pause: float = math.inf

    @property
    def next_call(self) -> float:
        """Seconds after which the handler is called without a change."""
        return max(0.0, min(self.seconds, self.pause))

    def within(self, login_seconds: float) -> Suspension:
        """Return a suspension that calls the handler when the login of the caller has ended."""
        return dataclasses.replace(self, pause=min(self.pause, login_seconds))


@dataclasses.dataclass(frozen=True, slots=True)
class Stream:
    """Stream the events that follow a cursor.

    :ivar after: the cursor.
    :ivar choice: an `feed.events.Filter`.
    :ivar limit: end after this number of events, None for no limit.
    :ivar skipped: ids above the cursor that the client does not want.
    :ivar removed: the largest id of a removed event, 0 if none was removed.
    :ivar login_seconds: the time until the login of the caller ends.
    """

    after: int
    choice: Any
    limit: int | None = None
    skipped: frozenset[int] = frozenset()
    removed: int = 0
    login_seconds: float = math.inf


class Piece(NamedTuple):
    """The next part of a text, and whether it is the last one."""

    text: str
    last: bool


@dataclasses.dataclass(frozen=True, slots=True)
class TextStream:
    """Stream a text as it grows.

    :ivar read: returns the part that follows the part before; it may block on the database.
    :ivar node: read again after any event of this node.
    :ivar login_seconds: the time until the login of the caller ends.
    """

    read: Callable[[], Piece]
    node: str
    login_seconds: float = math.inf


Later = Suspension | Stream | TextStream
"""Any way to go on with a request."""
