"""Time limits of callers for requests to machines, and the machines that did not answer in time.

Caller's limits count where they are shorter than the configured ones.

An API caller waits for an answer, and RPC reports a timeout if the answer takes too long, so the
BMC's fault must be reported earlier. A sweep over thousands of BMCs comes back by itself, so it
prefers a quick error to a blocked thread. A driver that ignores these limits only gives up more
slowly.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import threading
import time
from collections.abc import Iterator

from ironic_lite.core.slots import Newest

_SECONDS: contextvars.ContextVar[float | None] = contextvars.ContextVar("patience", default=None)

_END: contextvars.ContextVar[tuple[float, float] | None] = contextvars.ContextVar(
    "end", default=None
)
"""The deadline by time.monotonic, and the seconds that were granted at its start."""

LEAST_SECONDS = 0.01
"""A timeout of 0 would mean no limit."""

UNHURRIED = math.inf
"""Full timeouts, but only one attempt."""


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Limit requests of this thread, and fail instead of retrying after a pause.

    :param seconds: the limit of each request.
    """
    token = _SECONDS.set(seconds)
    try:
        yield
    finally:
        _SECONDS.reset(token)


@contextlib.contextmanager
def until(seconds: float) -> Iterator[None]:
    """Limit the total time of all requests of this thread."""
    token = _END.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _END.reset(token)


def seconds_left() -> float:
    """Return the seconds left of `until`; infinite outside of it."""
    end = _END.get()
    return math.inf if end is None else max(0.0, end[0] - time.monotonic())


def seconds_granted() -> float:
    """Return the seconds granted by `until`; infinite outside of it."""
    end = _END.get()
    return math.inf if end is None else end[1]


def is_limited() -> bool:
    """Return whether the caller repeats its requests by itself."""
    return _SECONDS.get() is not None


def longest_pause() -> float:
    """Return the longest allowed pause in seconds before a retry."""
    return 0.0 if is_limited() else seconds_left()


def within(timeout: float) -> float:
    """Return the smaller of a configured timeout and the caller's limit, in seconds."""
    seconds = _SECONDS.get()
    most = min(timeout, max(seconds_left(), LEAST_SECONDS))
    return most if seconds is None else min(most, seconds)


# Machines that did not answer the last question of this process.
#
# The conductor gives these machines a share of its threads only, so that they cannot hold all of
# them. The drivers note each answer and each missing one; the fact is not stored.

REMEMBERED_MACHINES = 20_000
"""Machines remembered; of more, those that were silent longest ago count as answering again."""
LEAST_ANSWER_SECONDS = 1.0
"""Time that a machine must have had, so that a missing answer makes it silent."""
_PARTS = 4


def silent_share(count: int) -> int:
    """Return how many of so many threads or slots the silent machines may hold together."""
    return max(1, count // _PARTS)


class SilentMachines:
    """The nodes whose BMC or agent did not answer last time; any thread may note and ask."""

    def __init__(self, most: int = REMEMBERED_MACHINES) -> None:
        self._nodes: Newest[str, None] = Newest(most)
        self._guard = threading.Lock()

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def note(self, node: str, *, silent: bool) -> None:
        """Note the result of the last question to the machine of a node.

        A missing answer does not count if the caller gave the machine too little time for one.

        :param node: its UUID.
        """
        if silent and within(LEAST_ANSWER_SECONDS) < LEAST_ANSWER_SECONDS and is_limited():
            return
        if not silent and node not in self._nodes:
            return
        with self._guard:
            if silent:
                self._nodes[node] = None
            else:
                self._nodes.pop(node, None)


SILENT = SilentMachines()
"""The silent machines of this process."""
