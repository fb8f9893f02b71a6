"""Databases that fail at a chosen statement of a worker, before or after its commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection, Database


class DatabaseFault:
    """The statement of the workers that finds the database away, and the length of the outage.

    :param what: ``write``, ``answer`` (it is made, and only the answer lost) or ``read``.
    :param n: the n-th of them, from 1; it and everything after it fails.
    :param times: so many tries; None until `heal`.
    """

    def __init__(self, what: str, n: int, times: int | None = 1) -> None:
        self.what = what
        self.begun = threading.Event()
        self._before = n
        self._left = times
        self._guard = threading.Lock()

    def heal(self) -> None:
        """Let the database answer again."""
        with self._guard:
            self._before, self._left = 1, 0

    def strikes(self, what: str) -> bool:
        """Count a try; tell whether it fails."""
        if not threading.current_thread().name.startswith("worker"):
            return False
        with self._guard:
            if not self.begun.is_set():
                self._before -= what == ("read" if self.what == "read" else "write")
                if self._before > 0:
                    return False
            if self._left is None:
                self.begun.set()
                return True
            self._left -= 1
            self.begun.set()
            return self._left >= 0


class FaultyDatabase:
    """A database as one conductor sees it."""

    def __init__(self, inner: Database, sickness: DatabaseFault) -> None:
        self._inner = inner
        self._sickness = sickness

    def read(self, work: Callable[[Connection], Any]) -> Any:
        """Read, if that is possible."""
        if self._sickness.strikes("read"):
            raise errors.Unavailable("The database is away.")
        return self._inner.read(work)

    def write(self, work: Callable[[Connection], Any], **more: Any) -> Any:
        """Write, perhaps without a word of it."""
        first = not self._sickness.begun.is_set()
        if self._sickness.strikes("write"):
            if first and self._sickness.what == "answer":
                self._inner.write(work, **more)
            raise errors.Unavailable("The database is away.")
        return self._inner.write(work, **more)


def database(inner: Database, sickness: DatabaseFault) -> Database:
    """Return ``inner`` for a conductor that meets this sickness."""
    return cast(Database, FaultyDatabase(inner, sickness))
