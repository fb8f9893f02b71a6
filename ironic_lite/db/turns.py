"""Turns to write, first come, first served, and what the log says of a database in trouble."""

from __future__ import annotations

import collections
import threading
import time

_REMINDED = 600.0  # seconds until a fault that goes on is told once more


class Turns:
    """A lock whose turns come in the order in which they were asked for.

    With a plain lock whoever gives it back often takes it again before those who wait have woken:
    under overload some wait for ever. Here it is handed to the next one. While nobody waits it
    costs as much as a plain lock twice.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: collections.deque[threading.Lock] = collections.deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for a turn, at most ``timeout`` seconds; True when it has come."""
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=timeout):
            return True
        with self._guard:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return False
        return True  # it came in the last moment

    def release(self) -> None:
        """End the turn: the one who has waited longest has the next."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


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
