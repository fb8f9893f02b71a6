"""How many requests a process works on at once, by what they wait for; who is too many gets 503.

A request may wait: for its body, for a conductor, for the database. Each kind has a room of its
own, so that what one kind waits for leaves the others alone: nodes are read while no conductor
answers, and orders are taken while ten thousand agents come back. There is a thread for each
connection, so nobody waits where nobody could refuse.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.rpc import interface

READS = "reads"
CHANGES = "changes"
AGENTS = "agents"
QUESTIONS = "questions"

_OPTIONS: Mapping[str, str] = {
    # room: the option of [api] with its number of places
    READS: "max_reads",
    CHANGES: "max_changes",
    AGENTS: "max_agent_requests",
    QUESTIONS: "max_questions",
}
_OF_AGENTS = ("/lookup", "/heartbeat/", "/continue_inspection")
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
PATIENCE = 1.0
"""Seconds that a request waits for a place before it is refused."""


def room_of(method: str, path: str) -> str:
    """Return the room of a request.

    :param path: below ``/v1``.
    """
    if path.startswith(_OF_AGENTS):
        return AGENTS
    return READS if method in _READING else CHANGES


class Rooms:
    """The places of one process; one object serves all its threads.

    :param patience: seconds, by default `PATIENCE`.
    """

    def __init__(self, conf: cfg.ConfigOpts, *, patience: float | None = None) -> None:
        self._limits = {name: int(conf.api[option]) for name, option in _OPTIONS.items()}
        self._places = {name: threading.BoundedSemaphore(n) for name, n in self._limits.items()}
        self._patience = PATIENCE if patience is None else patience
        self._here = threading.local()

    @contextlib.contextmanager
    def enter(self, room: str) -> Iterator[None]:
        """Hold a place of a room for the length of the block.

        :raises errors.Crowded: all are taken, and none became free.
        """
        places = self._places[room]
        if not places.acquire(timeout=self._patience):
            raise errors.Crowded(limit=self._limits[room], option=_OPTIONS[room])
        before, self._here.room = getattr(self._here, "room", None), room
        try:
            yield
        finally:
            self._here.room = before
            places.release()

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Hold what a call of a conductor needs: a read that makes one needs another place.

        :raises errors.Crowded: as `enter`.
        """
        if getattr(self._here, "room", None) != READS:
            yield
            return
        with self.enter(QUESTIONS):
            yield


class Client:
    """Calls conductors for requests, and keeps their number in bounds.

    :param inner: `rpc.client.Client`, or a stand-in of a test.
    """

    def __init__(self, inner: Any, rooms: Rooms) -> None:
        self._inner = inner
        self._rooms = rooms

    def conductor(self, host: str | None, *, timeout: float | None = None) -> interface.Conductor:
        """Return the conductor ``host``, or any living one if None."""
        more = {} if timeout is None else {"timeout": timeout}
        found: Any = _Asked(self._inner.conductor(host, **more), self._rooms)
        return found  # type: ignore[no-any-return]  # it has the methods of the contract


class _Asked:
    """A conductor whose methods are called with a place held."""

    __slots__ = ("_inner", "_rooms")

    def __init__(self, inner: Any, rooms: Rooms) -> None:
        self._inner = inner
        self._rooms = rooms

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._rooms.asking():
                return method(*args, **kwargs)

        return call
