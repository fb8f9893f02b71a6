"""Wait briefly for a locked node before a write of the API gets 409.

Ironic's conductor tries a lock ``[conductor]node_locked_retry_attempts`` times and pauses for
``node_locked_retry_interval`` in between. The API writes nodes and their records itself, so its
writes wait as long. They poll more often within that time, because most locks belong to a power
action or to the power sweep and end after milliseconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.configuration import Configuration

Answer = TypeVar("Answer")

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.25


class LockWaiters:
    """The requests of a process that wait for a lock; one object serves all threads.

    Each waiting request holds a thread. At most a quarter of ``[api]max_changes`` may wait, and at
    most a quarter of these for one node. Further requests get 409 at once.
    """

    def __init__(self, conf: Configuration) -> None:
        settings = conf.conductor
        pauses = max(settings.node_locked_retry_attempts - 1, 0)
        self._patience = float(pauses * settings.node_locked_retry_interval)
        self._most = max(int(conf.api.max_changes) // 4, 1)
        self._most_for_one = max(self._most // 4, 1)
        self._waiting: dict[str, int] = {}
        self._guard = threading.Lock()

    def until_free(self, act: Callable[[], Answer]) -> Answer:
        """Return the result of ``act``; call ``act`` again while its node is locked.

        :param act: changes nothing if it raises `errors.NodeLocked`.
        :raises errors.NodeLocked: still locked after that time, or too many requests wait.
        """
        try:
            return act()
        except errors.NodeLocked as why:
            node, locked = str(why.facts.get("node")), why
        if not self._add_waiter(node):
            raise locked
        try:
            return self._retry_until_free(act, locked)
        finally:
            self._remove_waiter(node)

    def _retry_until_free(self, act: Callable[[], Answer], locked: errors.NodeLocked) -> Answer:
        end, pause = clock.steady() + self._patience, _FIRST_PAUSE
        while (left := end - clock.steady()) > 0:
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                return act()
            except errors.NodeLocked as why:
                locked = why
        raise locked

    def _add_waiter(self, node: str) -> bool:
        with self._guard:
            own = self._waiting.get(node, 0)
            if own >= self._most_for_one or sum(self._waiting.values()) >= self._most:
                return False
            self._waiting[node] = own + 1
            return True

    def _remove_waiter(self, node: str) -> None:
        with self._guard:
            self._waiting[node] -= 1
            if not self._waiting[node]:
                del self._waiting[node]
