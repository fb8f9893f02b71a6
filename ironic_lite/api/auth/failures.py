"""Failed attempts of unidentified callers, counted for a time in limited memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

_WINDOW = 60.0  # seconds
_MOST = 10_000
"""Most keys counted at once."""


class Failures:
    """Counts failures by key in the current minute; one object serves all threads.

    :param now: seconds of a monotonic clock.
    :param window: seconds instead of a minute.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, window: float = _WINDOW) -> None:
        self._now = now
        self._window = window
        self._counts: dict[Hashable, int] = {}
        self._until = 0.0
        self._guard = threading.Lock()

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._counts)

    def count(self, key: Hashable) -> int:
        """Return the number of failures of ``key``."""
        if not self._counts:
            return 0
        return 0 if self._now() >= self._until else self._counts.get(key, 0)

    def note(self, *keys: Hashable) -> None:
        """Count a failure for each of these keys."""
        with self._guard:
            if self._now() >= self._until:
                self._counts, self._until = {}, self._now() + self._window
            for key in keys:
                # Move the key to the end: the key that failed longest ago is dropped first, so a
                # client cannot fill the table under some names to reset another.
                self._counts[key] = self._counts.pop(key, 0) + 1
                if len(self._counts) > _MOST:
                    del self._counts[next(iter(self._counts))]
