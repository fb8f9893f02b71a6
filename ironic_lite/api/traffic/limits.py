"""Concurrency limits of a process, one for each cause of waiting.

A request may wait for its body, for a conductor, or for the database. Each kind has a limit of its
own, above which requests get 503, so that waiting requests of one kind do not block the others.
Nodes can be read while no conductor answers, and changes are accepted while ten thousand agents
send heartbeats. Each connection has a thread, so no request waits where it could not be refused.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import queue
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
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
_SHARE = 2
"""Divisor of calls for reads and of memory: the part of one project, and of one address."""
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
        self._asked: collections.Counter[str] = collections.Counter()
        self._asked_less = threading.Condition()

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
        """Hold a slot as `asking` during a call; an interceptor of conductor calls.

        One project holds at most half of these slots, because its machines may be silent.

        :raises errors.TooManyRequests: as `enter`.
        """
        with self._ask_for(call.context.project), self.asking():
            return send(call)

    @contextlib.contextmanager
    def _ask_for(self, project: str | None) -> Iterator[None]:
        if project is None or getattr(self._here, "room", None) != READS:
            yield
            return
        most = max(1, self._limits[QUESTIONS] // _SHARE)
        with self._asked_less:
            if not self._asked_less.wait_for(lambda: self._asked[project] < most, self._patience):
                limit, option = f"{most} of one project", _OPTIONS[QUESTIONS]
                raise errors.TooManyRequests(limit=limit, option=option)
            self._asked[project] += 1
        try:
            yield
        finally:
            with self._asked_less:
                self._asked -= collections.Counter((project,))  # this drops zeros
                self._asked_less.notify_all()


LARGE_ANSWER = 128 * 1024
"""Bytes from which an answer counts for the memory of unsent answers."""
_SEND_PATIENCE = 5.0
_PAUSE = 0.02


class UnsentAnswers:
    """Memory that large answers take until their clients have read them; for one event loop.

    A client that reads nothing keeps its connection and the server keeps its answer, so only a
    limit of all answers bounds the memory.
    """

    def __init__(self, conf: Configuration) -> None:
        self._mib = int(conf.api.max_answer_memory_mib)
        self._most = self._mib * 1024 * 1024
        self._held: dict[str, int] = {}
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def hold(self, size: int, place: str, *, must: bool) -> AsyncIterator[None]:
        """Count an answer for the length of the block.

        :param place: the network of the client, "" for none.
        :param must: the request has changed something, so its answer is always sent.
        :raises errors.TooManyRequests: the memory did not become free in time.
        """
        if not must and not self._fits(size, place):
            await self._wait_for_room(size, place)
        self._held[place] = self._held.get(place, 0) + size
        try:
            yield
        finally:
            left = self._held.pop(place) - size
            if left:
                self._held[place] = left

    async def _wait_for_room(self, size: int, place: str) -> None:
        """Wait for free memory; waiting answers take some, too, so few may wait."""
        end = time.monotonic() + _SEND_PATIENCE
        if self._waiting + size > self._most // _SHARE:
            end = 0.0
        self._waiting += size
        try:
            while not self._fits(size, place):
                if time.monotonic() >= end:
                    limit = f"{self._mib} MiB of answers that clients have not read yet"
                    raise errors.TooManyRequests(limit=limit, option="max_answer_memory_mib")
                await asyncio.sleep(_PAUSE)
        finally:
            self._waiting -= size

    def _fits(self, size: int, place: str) -> bool:
        its = self._held.get(place, 0) + size if place else size
        return sum(self._held.values()) + size <= self._most and its <= max(
            size, self._most // _SHARE
        )


def _slots(count: int) -> queue.SimpleQueue[None]:
    """Return a queue of free slots, which takes a tenth of the time of a semaphore in Python."""
    free: queue.SimpleQueue[None] = queue.SimpleQueue()
    for _ in range(count):
        free.put(None)
    return free
