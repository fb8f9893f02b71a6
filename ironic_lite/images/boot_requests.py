"""Memory of the last boot file of each machine, for examinations.

It is the memory of one process, from its start on. Nothing depends on it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable

from ironic_lite.core.slots import Newest

MOST = 20_000
"""Machines and cards that are remembered; the oldest request goes first."""

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CARD = r"[0-9a-f]{2}(?:-[0-9a-f]{2}){5}"
_KEY = re.compile(rf"{_UUID}|{_CARD}")


class BootRequests:
    """The times of requests by node UUID or card address; one object serves all threads."""

    def __init__(self, most: int = MOST) -> None:
        self._guard = threading.Lock()
        self._seen: Newest[str, float] = Newest(most)

    def note_file(self, path: str) -> None:
        """Record that a file was requested whose path names a node or a card."""
        found = _KEY.search(path.lower())
        if found is not None:
            with self._guard:
                self._seen[found[0]] = time.monotonic()

    def seconds_since(self, node_uuid: str, addresses: Iterable[str]) -> float | None:
        """Return the seconds since the last request of a machine, None if there was none.

        :param addresses: of its cards.
        """
        keys = [node_uuid, *(address.lower().replace(":", "-") for address in addresses)]
        with self._guard:
            times = [self._seen[key] for key in keys if key in self._seen]
        return time.monotonic() - max(times) if times else None


SEEN = BootRequests()
"""The requests that this process has answered."""
