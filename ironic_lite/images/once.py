"""Work on whole files, done once for all threads that need its result."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from ironic_lite import errors

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class _Turn:
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    waiters: int = 0
    failures: dict[Hashable, errors.Error] = dataclasses.field(default_factory=dict)


class Turns:
    """A lock per key, for one thread at a time; unused keys are forgotten."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turns: dict[Hashable, _Turn] = {}

    @contextlib.contextmanager
    def take(self, key: Hashable, way: Hashable = None) -> Iterator[None]:
        """Hold a key for the block.

        A thread that waited while another one failed in the same way fails with the same error at
        once. A server that is silent for a minute would otherwise block the tenth thread for ten
        minutes.

        :param way: distinguishes work for this key that may fail differently.
        :raises errors.Error: of the thread before.
        """
        turn = self._enter_turn(key)
        try:
            with turn.lock:
                if way in turn.failures:
                    raise turn.failures[way]
                try:
                    yield
                except errors.Error as why:
                    turn.failures[way] = why
                    raise
        finally:
            self._leave_turn(key)

    def waiters(self, key: Hashable) -> int:
        """Return how many threads hold a key or wait for it."""
        with self._guard:
            turn = self._turns.get(key)
            return turn.waiters if turn else 0

    def _enter_turn(self, key: Hashable) -> _Turn:
        with self._guard:
            turn = self._turns.setdefault(key, _Turn())
            turn.waiters += 1
            return turn

    def _leave_turn(self, key: Hashable) -> None:
        with self._guard:
            turn = self._turns[key]
            turn.waiters -= 1
            if not turn.waiters:
                del self._turns[key]


class Once(Generic[T]):
    """Remembers results; a thread that needs a pending result waits for it.

    :param most: how many results are remembered; the least recently used go first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._known: collections.OrderedDict[Hashable, T] = collections.OrderedDict()
        self.turns = Turns()

    def get(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return the result of ``work`` for this key; its errors are not remembered."""
        with self.turns.take(key):
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
