"""A fair lock for writers."""

from __future__ import annotations

import collections
import threading
import time

PATIENCE = 0.05
"""Seconds for which later callers may overtake a waiting one."""


class _Waiter:
    """A waiting thread: since when, and whether the lock was handed to it."""

    __slots__ = ("bell", "given", "rung", "since")

    def __init__(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.since = time.monotonic()
        self.rung = False
        self.given = False


class FairLock:
    """A lock that bounds how long later callers may overtake a waiting one.

    With a plain lock, a thread that releases it often takes it again before a waiting thread has
    woken; under overload some threads wait for ever. Handing the lock to the next thread each time
    slows the process down, because no thread writes while the next one wakes. Therefore release
    wakes the first waiting thread, which may be overtaken for `PATIENCE`; after that the lock is
    handed to it.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: collections.deque[_Waiter] = collections.deque()

    @property
    def waiting(self) -> int:
        """The number of threads that wait for the lock."""
        return len(self._waiting)

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock, at most ``timeout`` seconds; return whether it was taken."""
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            mine = _Waiter()
            self._waiting.append(mine)
        end = mine.since + timeout
        while True:
            rung = mine.bell.acquire(timeout=max(0.0, end - time.monotonic()))
            with self._guard:
                if self._take_if_possible(mine):
                    return True
                mine.rung = False  # overtaken: must be woken again
                if not rung:  # timed out; no other waiter was woken for this turn
                    self._waiting.remove(mine)
                    return False

    def release(self) -> None:
        """Release the lock; wake the longest waiting thread, or hand the lock to it."""
        with self._guard:
            self._taken = False
            if not self._waiting:
                return
            first = self._waiting[0]
            if time.monotonic() - first.since >= PATIENCE:
                self._waiting.popleft()
                self._taken = first.given = True
            if not first.rung:
                first.rung = True
                first.bell.release()

    def _take_if_possible(self, mine: _Waiter) -> bool:
        """Take the lock for a woken thread, if possible."""
        if mine.given:
            return True
        if self._taken:
            return False
        self._taken = True
        self._waiting.remove(mine)
        return True
