"""Failure detection by heartbeats that change, independent of wall clocks.

A living process changes its heartbeat every few seconds. A watcher that sees the same heartbeat for
long enough, by its own monotonic clock, takes the process for dead. The content of the heartbeat
does not matter: it may be a time from a clock that is wrong or was set.

Silence counts only while the watcher checks. After a pause of the watcher, or of the database that
both need, living processes get time for a new heartbeat.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Collection, Hashable


@dataclasses.dataclass(slots=True)
class _Seen:
    sign: Hashable
    at: float
    silent: float


class FailureDetector:
    """Heartbeats of many processes by key; one detector serves all threads.

    :param stride: seconds between two checks of one key, beyond which the key was not watched.
    :param steady: returns seconds of a clock that cannot be set.
    """

    def __init__(self, stride: float, steady: Callable[[], float] = time.monotonic) -> None:
        self._stride = stride
        self._steady = steady
        self._seen: dict[Hashable, _Seen] = {}
        self._guard = threading.Lock()

    def silence(self, key: Hashable, sign: Hashable, age: float | None = None) -> float:
        """Check one process; return its observed seconds without a new heartbeat.

        :param age: how old the heartbeat may be. It is trusted when the key is new, or was not
            checked for longer than the stride. For a new heartbeat, it counts up to the time since
            the last check. None: the silence begins with this check, or continues as if the stride
            had passed.
        """
        with self._guard:
            now, known = self._steady(), self._seen.get(key)
            if known is None:
                silent = age or 0.0
            elif now - known.at > self._stride and age is not None:
                silent = age
            elif sign != known.sign:
                silent = min(age or 0.0, now - known.at)
            else:
                silent = known.silent + min(now - known.at, self._stride)
            self._seen[key] = _Seen(sign, now, silent)
            return silent

    def blind(self) -> None:
        """Record that checks failed until now; this time counts as no process's silence."""
        with self._guard:
            now = self._steady()
            for one in self._seen.values():
                one.at = now

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all keys but these."""
        with self._guard:
            self._seen = {key: one for key, one in self._seen.items() if key in keys}
