"""The limit on concurrent calls of an API process, for each conductor.

A conductor runs a limited number of calls at once and sends no keepalives for others. If each API
sends few at a time, calls wait in the API, where only [DEFAULT]rpc_response_timeout runs, instead
of at the conductor.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from ironic_lite import errors

MOST = 64
"""Calls at once: as many as a conductor has threads (executor_thread_pool_size)."""


class SendLimiter:
    """The slots for calls of a process; one object serves all its threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._free: dict[str | None, threading.BoundedSemaphore] = {}

    @contextlib.contextmanager
    def place(self, host: str | None, seconds: float) -> Iterator[None]:
        """Hold a slot among the calls of a conductor for the length of the block.

        :param host: the conductor's name, None for any.
        :param seconds: the longest wait for a slot.
        :raises errors.NoConductor: no slot became free.
        """
        with self._guard:
            free = self._free.setdefault(host, threading.BoundedSemaphore(MOST))
        if not free.acquire(timeout=seconds):
            who = host or "any"
            raise errors.NoConductor(
                f"The conductor {who} is busy: {MOST} calls have had no answer in time; retry.",
                host=who,
                reason="too many running calls",
            )
        try:
            yield
        finally:
            free.release()
