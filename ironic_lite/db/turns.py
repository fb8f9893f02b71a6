"""Turns to write, fair to all who wait, and what the log says of a database in trouble."""

from __future__ import annotations

import collections
import threading
import time

PATIENCE = 0.05
"""Seconds in which those who come later may be served before one who waits."""
_REMINDED = 600.0  # seconds until a fault that goes on is told once more


class _Waiter:
    """Who waits for a turn, since when, and whether it was handed over."""

    __slots__ = ("bell", "given", "rung", "since")

    def __init__(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.since = time.monotonic()
        self.rung = False
        self.given = False


class Turns:
    """A lock that nobody waits for much longer than those who came later.

    With a plain lock whoever gives it back often takes it again before those who wait have woken:
    under overload some wait for ever. To hand it to the next one each time costs the rest of the
    process: nobody writes while that thread wakes. So the first who waits is woken, and may be
    overtaken, until it has waited for `PATIENCE`: then the lock is handed to it.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: collections.deque[_Waiter] = collections.deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for a turn, at most ``timeout`` seconds; True when it has come."""
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
                if self._comes(mine):
                    return True
                mine.rung = False  # overtaken: to be woken again
                if not rung:  # in vain; nobody else was woken for this turn meanwhile
                    self._waiting.remove(mine)
                    return False

    def release(self) -> None:
        """End the turn: the one who has waited longest is woken, or has the next."""
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

    def _comes(self, mine: _Waiter) -> bool:
        """Take the turn for who has woken, if it can."""
        if mine.given:
            return True
        if self._taken:
            return False
        self._taken = True
        self._waiting.remove(mine)
        return True


class Complaints:
    """Which faults the log has told of: many callers meet the same one, again and again."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def new(self, why: str) -> bool:
        """Tell whether a fault is to be logged: the first time, and seldom while it goes on."""
        now = time.monotonic()
        if now - self._told.get(why, -_REMINDED) < _REMINDED:
            return False
        self._told[why] = now
        return True

    def __enter__(self) -> None:
        """Begin a change; when the block has ended well, a later fault is a new one."""

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is None and self._told:
            self._told = {}
