"""Turns of threads that hand calls to a broker, so that none waits after it has said when it sends.

oslo.messaging has so many connections, and a thread that finds none free waits in its midst, with a
message that is written already: that would count as if the call were under way. And few at a time
are as fast as many: in a crowd, calls wait here, where no caller misses a sign of life, and not at
the conductor.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

MOST = 4
"""Threads at once; with 16, a crowd of 300 callers was served more slowly and missed its signs."""

PATIENCE = 3.0
"""Seconds after which a thread goes without a turn: a broker that is away takes nothing from those
who have one."""


class Turns:
    """One object serves all threads of a process."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(MOST)
        self._here = threading.local()

    @contextlib.contextmanager
    def turn(self, seconds: float) -> Iterator[None]:
        """Wait for a turn, ``seconds`` at most; it ends with the block, or by `sent`."""
        self._here.has_turn = self._free.acquire(timeout=min(seconds, PATIENCE))
        try:
            yield
        finally:
            self.sent()

    def sent(self) -> None:
        """Say that this thread's message is at the broker; also a second time."""
        if getattr(self._here, "has_turn", False):
            self._here.has_turn = False
            self._free.release()
