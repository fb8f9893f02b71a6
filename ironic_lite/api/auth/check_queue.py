"""A queue for concurrent password checks, ordered by the number of failures.

A semaphore would admit callers in order of arrival. Clients that flood the service with wrong
passwords would then take all slots, and a client with the right password would need luck.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import itertools
import threading
import time
from collections.abc import Iterator

Rank = tuple[int, ...]
"""The smaller rank goes first; of equal ranks, the caller that has waited longer."""


class Full(Exception):
    """A caller has waited too long, or the queue is full of callers with precedence."""


@dataclasses.dataclass(slots=True, eq=False)
class _Waiter:
    rank: Rank
    doubtful: bool
    refused: bool = False


class CheckQueue:
    """The slots of one process; one object serves all threads.

    :param places: slots held at once.
    :param waiting: most waiting callers, each of which holds a thread.
    :param patience: seconds that a caller waits.
    """

    def __init__(self, places: int, waiting: int, patience: float) -> None:
        self._free = places
        self._most = waiting
        self._patience = patience
        self._doubtful = False
        self._numbers = itertools.count()
        self._waiting: list[_Waiter] = []
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """The number of waiting callers."""
        return len(self._waiting)

    @contextlib.contextmanager
    def place(self, rank: Rank, *, doubtful: bool) -> Iterator[None]:
        """Hold a slot for the length of the block.

        :param doubtful: the caller has failed often. Only one such caller holds a slot at a time,
            even while others are free, so a flood leaves CPU time to the rest of the service.
        :raises Full: no slot became free in time.
        """
        me = _Waiter((*rank, next(self._numbers)), doubtful)
        with self._changed:
            self._enter_queue(me)
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._doubtful = self._doubtful and not doubtful
                self._changed.notify_all()

    def _enter_queue(self, me: _Waiter) -> None:
        bisect.insort(self._waiting, me, key=lambda each: each.rank)
        if len(self._waiting) > self._most:
            self._waiting.pop().refused = True
            self._changed.notify_all()
        until = time.monotonic() + self._patience
        while not me.refused and not self._is_first(me):
            left = until - time.monotonic()
            if left <= 0 or not self._changed.wait(left):
                break
        if me.refused:
            raise Full
        ready = self._is_first(me)
        self._waiting.remove(me)
        self._changed.notify_all()
        if not ready:
            raise Full
        self._free -= 1
        self._doubtful = self._doubtful or me.doubtful

    def _is_first(self, me: _Waiter) -> bool:
        """Return whether it is this caller's turn."""
        if not self._free:
            return False
        may = (each for each in self._waiting if not (each.doubtful and self._doubtful))
        return next(may, None) is me
