"""The locks of this conductor: the work under each, and retries for taken locks."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Generator
from typing import Self

from ironic_lite import errors
from ironic_lite.core.configuration import ConductorOptions

MOST_WAIT = 32
"""Limit of calls that wait for locks at once: half of the threads that answer calls."""


class SaveRefused(Exception):
    """Work needs its lock before it can save, or found a changed node; nothing was written."""


class Held:
    """One lock of this conductor, and the progress of the work under it.

    :ivar above: the lock that this one serves, such as the lock of a parent node.
    :ivar progress: changes with each request to a machine, pause and save; it is only compared.
    :ivar ended: the work was given up as hung; its thread must not write or send any more.
    :ivar free_slot: frees the worker slot for other work; None for work without a slot.
    """

    def __init__(self, token: str, node: str) -> None:
        self.token = token
        self.node = node
        self.above: Held | None = None
        self.progress = 0
        self.ended = False
        self.free_slot: Callable[[], None] | None = None

    @classmethod
    def new(cls, node_uuid: str) -> Self:
        """Return a lock with a new token, which is not taken yet."""
        return cls(str(uuid.uuid4()), node_uuid)

    def refuse_hung(self) -> None:
        """Refuse to continue work that was given up as hung.

        :raises errors.LockLost:
        """
        if self.ended:
            raise errors.LockLost(node=self.node)

    def go_on(self) -> None:
        """Record progress of the work."""
        one: Held | None = self
        while one is not None:
            one.progress += 1
            one = one.above


class Locks:
    """The locks that this conductor holds now, by token."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}
        self._guard = threading.Lock()

    @property
    def tokens(self) -> frozenset[str]:
        """The tokens of all locks."""
        with self._guard:
            return frozenset(self._held)

    @property
    def all(self) -> list[Held]:
        """All locks."""
        with self._guard:
            return list(self._held.values())

    def add(self, node_uuid: str) -> Held:
        """Return a new lock, recorded before sweeps can find it in the table."""
        held = Held.new(node_uuid)
        self.enter(held)
        return held

    def enter(self, held: Held) -> None:
        """Record a lock that is about to be taken."""
        with self._guard:
            self._held[held.token] = held

    def drop(self, token: str) -> None:
        """Forget a lock: its lease is no longer renewed."""
        with self._guard:
            self._held.pop(token, None)


class Retries:
    """Attempts to take a lock that another task holds.

    :param settings: the options of ``[conductor]``.
    :param stopping: set when no call may wait any longer.
    """

    def __init__(self, settings: ConductorOptions, stopping: threading.Event) -> None:
        self._settings = settings
        self._stopping = stopping
        self._waiters = threading.BoundedSemaphore(MOST_WAIT)

    def each(self, *, patient: bool) -> Generator[None, None, None]:
        """Yield for each attempt to take a lock, with the configured pause in between.

        Each waiting call holds a thread; if too many wait, there is only one attempt.
        """
        yield
        if not patient or not self._waiters.acquire(blocking=False):
            return
        try:
            for _ in range(1, self._settings.node_locked_retry_attempts):
                if self._stopping.wait(self._settings.node_locked_retry_interval):
                    return
                yield
        finally:
            self._waiters.release()
