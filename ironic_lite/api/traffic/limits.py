"""Concurrency limits of a process, one for each cause of waiting.

A request may wait for its body, for a conductor, or for the database. Each kind has a limit of its
own, above which requests get 503, so that waiting requests of one kind do not block the others.
Nodes can be read while no conductor answers, and changes are accepted while ten thousand agents
send heartbeats. Each connection has a thread, so no request waits where it could not be refused.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core.configuration import Configuration
from ironic_lite.rpc.stub import Call, Send

READS = "reads"
CHANGES = "changes"
AGENTS = "agents"
QUESTIONS = "questions"

_OPTIONS: Mapping[str, str] = {
    # kind of request: the option of [api] with its limit
    READS: "max_reads",
    CHANGES: "max_changes",
    AGENTS: "max_agent_requests",
    QUESTIONS: "max_questions",
}
_OF_AGENTS = ("/lookup", "/heartbeat", "/continue_inspection")
_NODES, _PLAN = "/nodes/", "/plan"  # a plan changes nothing
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
PATIENCE = 1.0
"""Seconds that a request waits for a free slot before it is refused."""


def room_of(method: str, path: str) -> str:
    """Return the concurrency limit that a request counts against.

    :param path: below ``/v1``.
    """
    if path.startswith(_OF_AGENTS):
        return AGENTS
    plans = method == "POST" and path.startswith(_NODES) and path.endswith(_PLAN)
    return READS if method in _READING or plans else CHANGES


class ConcurrencyLimits:
    """The slots of one process; one object serves all its threads.

    :param patience: seconds to wait for a slot, by default `PATIENCE`.
    """

    def __init__(self, conf: Configuration, *, patience: float | None = None) -> None:
        self._limits = {name: int(conf.api[option]) for name, option in _OPTIONS.items()}
        self._places = {name: _slots(count) for name, count in self._limits.items()}
        self._patience = PATIENCE if patience is None else patience
        self._here = threading.local()

    @contextlib.contextmanager
    def enter(self, room: str) -> Iterator[None]:
        """Hold a slot for the length of the block.

        :raises errors.TooManyRequests: no slot became free in time.
        """
        places = self._places[room]
        try:
            places.get(timeout=self._patience)
        except queue.Empty:
            limit, option = self._limits[room], _OPTIONS[room]
            raise errors.TooManyRequests(limit=limit, option=option) from None
        before, self._here.room = getattr(self._here, "room", None), room
        try:
            yield
        finally:
            self._here.room = before
            places.put(None)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Hold a second slot for a conductor call, if the request is a read.

        :raises errors.TooManyRequests: as `enter`.
        """
        if getattr(self._here, "room", None) != READS:
            yield
            return
        with self.enter(QUESTIONS):
            yield

    def limit_question(self, call: Call, send: Send) -> Any:
        """Hold a slot as `asking` during a call; an interceptor of conductor calls."""
        with self.asking():
            return send(call)


def _slots(count: int) -> queue.SimpleQueue[None]:
    """Return a queue of free slots, which takes a tenth of the time of a semaphore in Python."""
    free: queue.SimpleQueue[None] = queue.SimpleQueue()
    for _ in range(count):
        free.put(None)
    return free
