"""A bounded memory of results that are computed again after some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ironic_lite.core.slots import Newest

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Keeps results by key; one object serves all threads of a process.

    :param seconds: for which a result is kept.
    :param most: results; the oldest is dropped first.
    :param now: a clock in seconds that cannot be set.
    """

    def __init__(
        self, seconds: float, most: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._now = now
        self._guard = threading.Lock()
        self._known: Newest[Hashable, tuple[float, Value]] = Newest(most)

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the kept result of a key, or the new result of ``make``."""
        with self._guard:
            kept = self._known.get(key)
        if kept is not None and self._now() < kept[0]:
            return kept[1]
        found = make()
        with self._guard:
            self._known[key] = (self._now() + self._seconds, found)
        return found
