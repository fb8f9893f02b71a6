"""Work on whole files, done once for all who want its result at the same time."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Remembers results; who asks while one is being found waits for it.

    :param most: how many are remembered; what was asked for longest ago goes first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._known: collections.OrderedDict[Hashable, T] = collections.OrderedDict()
        self._turns: dict[Hashable, tuple[threading.Lock, int]] = {}

    def get(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return what ``work`` found for this key. What it raises is not remembered."""
        turn = self._enter(key)
        try:
            with turn:
                with self._guard:
                    if key in self._known:
                        self._known.move_to_end(key)
                        return self._known[key]
                found = work()
                with self._guard:
                    self._known[key] = found
                    while len(self._known) > self._most:
                        self._known.popitem(last=False)
                return found
        finally:
            self._leave(key)

    def _enter(self, key: Hashable) -> threading.Lock:
        with self._guard:
            turn, waiting = self._turns.get(key) or (threading.Lock(), 0)
            self._turns[key] = turn, waiting + 1
            return turn

    def _leave(self, key: Hashable) -> None:
        with self._guard:
            turn, waiting = self._turns.pop(key)
            if waiting > 1:
                self._turns[key] = turn, waiting - 1
