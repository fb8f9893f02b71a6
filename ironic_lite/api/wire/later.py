"""Requests that the server answers later, or bit by bit.

A handler cannot wait: it holds a thread and a slot of the concurrency limits. It stores one of
these records in its `request.Call`, beside the answer that it would give now. The server waits
without a thread, and calls the handler again.
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Suspension:
    """Call the handler again after a change, or when the time is over.

    :ivar seconds: the time that is left. The last call happens at its end.
    :ivar node: wake after any event of this node.
    :ivar choice: wake after a settled event that this `api.feed.events.Filter` accepts.
    """

    seconds: float
    node: str | None = None
    choice: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Stream:
    """Stream the events that follow a cursor.

    :ivar after: the cursor.
    :ivar choice: an `api.feed.events.Filter`.
    :ivar limit: end after this number of events, None for no limit.
    :ivar skipped: ids above the cursor that the client does not want.
    """

    after: int
    choice: Any
    limit: int | None = None
    skipped: frozenset[int] = frozenset()
