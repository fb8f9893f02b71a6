"""Limits on what is in use or remembered: requests, calls, waiting threads, programs, bytes."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import math
import queue
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Newest(OrderedDict[Key, Value]):
    """The entries that were set last; the oldest one goes if there are more than ``most``."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


@dataclasses.dataclass(slots=True, eq=False)
class _Waiter:
    rank: tuple[int, ...]
    key: str | None
    answer: queue.SimpleQueue[bool] = dataclasses.field(default_factory=queue.SimpleQueue)


class Slots:
    """The slots of one process; one object serves all its threads.

    A freed slot goes to the waiting caller of the smallest rank, of equal ranks to the one that has
    waited longest. A caller whose key has its share does not hold up the callers behind it.

    :param most: slots in all; None: only each key has a limit.
    :param per_key: slots of one key, such as a node, a project or an address; None: no limit.
    :param waiting: callers that may wait; the last in the order is refused when one more comes.
    """

    def __init__(
        self, most: int | None, per_key: int | None = None, *, waiting: int | None = None
    ) -> None:
        self._most = math.inf if most is None else most
        self._per_key = math.inf if per_key is None else per_key
        self._most_waiting = math.inf if waiting is None else waiting
        # The slots in use.
        self.held = 0
        self._by_key: dict[str, int] = {}
        self._waiters: list[_Waiter] = []
        self._guard = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of waiting callers."""
        return len(self._waiters)

    def held_by(self, key: str) -> int:
        """Return the slots in use under a key."""
        return self._by_key.get(key, 0)

    @contextlib.contextmanager
    def hold(
        self, key: str | None = None, *, seconds: float = 0.0, rank: tuple[int, ...] = ()
    ) -> Iterator[bool]:
        """Hold a slot for the length of the block, which gets whether there was one; see `take`."""
        held = self.take(key, seconds=seconds, rank=rank)
        try:
            yield held
        finally:
            if held:
                self.free(key)

    def take(
        self,
        key: str | None = None,
        *,
        size: int = 1,
        seconds: float = 0.0,
        rank: tuple[int, ...] = (),
    ) -> bool:
        """Take slots; return False, and take none, if they were not free in time.

        :param key: None counts for no key.
        :param size: a number of slots, for which no caller waits.
        :param seconds: the longest wait for one slot.
        """
        with self._guard:
            if self._has_room(key, size):
                self._count(key, size)
                return True
            if seconds <= 0:
                return False
            waiter = _Waiter(rank, key)
            bisect.insort(self._waiters, waiter, key=lambda each: each.rank)
            if len(self._waiters) > self._most_waiting:
                self._waiters.pop().answer.put(False)
        with contextlib.suppress(queue.Empty):
            return waiter.answer.get(timeout=seconds)
        with self._guard:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                return False
        return waiter.answer.get()  # it came just now

    def free(self, key: str | None = None, *, size: int = 1) -> None:
        """Give slots back."""
        with self._guard:
            self._count(key, -size)
            for waiter in tuple(self._waiters):
                if self.held >= self._most:
                    return
                if self._has_room(waiter.key, 1):
                    self._waiters.remove(waiter)
                    self._count(waiter.key, 1)
                    waiter.answer.put(True)

    def _has_room(self, key: str | None, size: int) -> bool:
        own = 0 if key is None else self._by_key.get(key, 0) + size
        return self.held + size <= self._most and own <= self._per_key

    def _count(self, key: str | None, size: int) -> None:
        self.held += size
        if key is not None:
            self._by_key[key] = self._by_key.get(key, 0) + size
            if not self._by_key[key]:
                del self._by_key[key]
