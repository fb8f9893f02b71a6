"""A fair lock for writers, with two priorities."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Iterator

PATIENCE = 0.05
"""Seconds for which later callers may overtake a waiting one of low priority."""
BRIEF_PATIENCE = 0.002
"""The same for a waiting caller of high priority."""
SHARE = 4
"""Turns of high priority in a row, after which one of low priority is next."""

_HERE = threading.local()


@contextlib.contextmanager
def low_priority() -> Iterator[None]:
    """Let other threads write first while this thread is in the block."""
    before, _HERE.low = has_low_priority(), True
    try:
        yield
    finally:
        _HERE.low = before


def has_low_priority() -> bool:
    """Return whether this thread lets others write first."""
    return getattr(_HERE, "low", False)


class _WaitingThread:
    """A waiting thread: since when, and whether the lock was handed to it."""

    __slots__ = ("bell", "given", "low", "rung", "since")

    def __init__(self, *, low: bool) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.since = time.monotonic()
        self.low = low
        self.rung = False
        self.given = False

    @property
    def patience(self) -> float:
        """The seconds for which later callers may overtake it."""
        return PATIENCE if self.low else BRIEF_PATIENCE


class FairLock:
    """A lock that bounds how long later callers may overtake a waiting one.

    With a plain lock, a thread that releases it often takes it again before a waiting thread has
    woken; under overload some threads wait for ever. Handing the lock to the next thread each time
    slows the process down, because no thread writes while the next one wakes. Therefore release
    wakes the first waiting thread, which may be overtaken for `PATIENCE`; after that the lock is
    handed to it.

    Threads of `low_priority` wait behind all others, but get one turn after `SHARE` turns of
    others.

    :param places: threads that may have the lock at once. With several places, the others work
        while the next thread wakes, so a place is always handed to it.
    :param low_places: threads of low priority that may have the lock at once; None for all places.
    """

    def __init__(self, places: int = 1, low_places: int | None = None) -> None:
        self._guard = threading.Lock()
        self._free = places
        self._free_low = places if low_places is None else low_places
        self._single = places == 1
        self._high: collections.deque[_WaitingThread] = collections.deque()
        self._low: collections.deque[_WaitingThread] = collections.deque()
        self._in_a_row = 0

    @property
    def waiting(self) -> int:
        """The number of threads that wait for the lock."""
        return len(self._high) + len(self._low)

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock, at most ``timeout`` seconds; return whether it was taken."""
        low = has_low_priority()
        with self._guard:
            # Work in the background does not overtake a waiting client.
            if self._free and not (low and (self._high or not self._free_low)):
                self._take(low=low)
                return True
            mine = _WaitingThread(low=low)
            queue = self._low if low else self._high
            queue.append(mine)
        end = mine.since + timeout
        while True:
            rung = mine.bell.acquire(timeout=max(0.0, end - time.monotonic()))
            with self._guard:
                if self._take_if_possible(mine):
                    return True
                mine.rung = False  # overtaken: must be woken again
                if not rung:  # timed out; no other waiter was woken for this turn
                    queue.remove(mine)
                    return False

    def release(self) -> None:
        """Release the lock; wake the next waiting thread, or hand the lock to it.

        The thread has the priority that it had in `acquire`.
        """
        low = has_low_priority()
        with self._guard:
            self._free += 1
            self._free_low += low
            first = self._next()
            if first is None:
                return
            if not self._single or time.monotonic() - first.since >= first.patience:
                self._leave_queue(first)
                self._take(low=first.low)
                first.given = True
            if not first.rung:
                first.rung = True
                first.bell.release()

    def _next(self) -> _WaitingThread | None:
        """Return the waiting thread whose turn is next, None if none may have the lock."""
        low = self._low[0] if self._low and self._free_low else None
        if self._high and not (low and self._in_a_row >= SHARE):
            return self._high[0]
        return low

    def _take(self, *, low: bool) -> None:
        self._free -= 1
        self._free_low -= low
        self._in_a_row = 0 if low else self._in_a_row + 1

    def _leave_queue(self, mine: _WaitingThread) -> None:
        (self._low if mine.low else self._high).remove(mine)

    def _take_if_possible(self, mine: _WaitingThread) -> bool:
        """Take the lock for a woken thread, if possible."""
        if mine.given:
            return True
        if not self._free or (mine.low and not self._free_low):
            return False
        self._take(low=mine.low)
        self._leave_queue(mine)
        return True
