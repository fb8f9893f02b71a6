"""Validated tokens of OpenStack Identity, kept in the memory of one process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable


class TokenCache:
    """The part of a memcached client that keystonemiddleware uses, with a size limit.

    The middleware's own cache in memory has no limit, keeps a copy for each thread, and is searched
    in full for each request. The middleware takes a cache from the environment of a request; its
    option ``[keystone_authtoken]cache`` names the key.

    :param most: entries; the entry that was used longest ago is dropped first.
    :param now: seconds of a monotonic clock.
    """

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._now = now
        self._guard = threading.Lock()
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, None if it is missing or has expired."""
        with self._guard:
            found = self._entries.get(key)
            if found is None:
                return None
            until, value = found
            if self._now() >= until:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return value

    def set(self, key: str, value: bytes, time: int = 0) -> bool:
        """Store a value.

        :param time: seconds; 0 keeps the value until other entries need its slot.
        :returns: True, as memcached does for a stored value.
        """
        until = self._now() + time if time else float("inf")
        with self._guard:
            self._entries[key] = until, value
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return True
