"""The bounded pool of threads that do the slow part, with a reserve for what callers ask."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from ironic_lite import context, errors, metrics

LOG = logging.getLogger(__name__)


class Workers:
    """At most ``size`` pieces of work at once; no queue: a full pool refuses (back-pressure).

    :param size: number of threads; they start when first needed.
    :param reserve_percent: share that only callers' requests may use, not sweeps or heartbeats.
    """

    def __init__(self, size: int, reserve_percent: int = 5) -> None:
        self._size = size
        self._open_to_all = max(1, size - size * reserve_percent // 100)
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="worker")
        self._busy = 0
        self._idle = threading.Condition()

    @property
    def size(self) -> int:
        """How many may work at once."""
        return self._size

    @property
    def busy(self) -> int:
        """How many work now."""
        return self._busy

    def claim(self, *, reserved: bool = False) -> None:
        """Take a place for work to come, so that a refusal comes before anything has changed.

        :param reserved: True may use the reserve: somebody waits for the answer.
        :raises errors.NoFreeWorker: all are busy.
        """
        limit = self._size if reserved else self._open_to_all
        with self._idle:
            if self._busy < limit:
                self._busy += 1
                return
        metrics.BOARD.count("workers_refused_total")
        raise errors.NoFreeWorker

    def wait_place(self, timeout: float) -> bool:
        """Wait until there is a place outside the reserve, at most ``timeout`` seconds."""
        with self._idle:
            return self._idle.wait_for(lambda: self._busy < self._open_to_all, timeout)

    def leave(self) -> None:
        """Give a claimed place back unused."""
        with self._idle:
            self._busy -= 1
            self._idle.notify_all()

    def run(self, work: Callable[[], None]) -> None:
        """Run ``work`` in the claimed place, which it leaves at its end.

        :raises errors.NoFreeWorker: the pool has been closed since; the place is given back.
        """
        try:
            future = self._pool.submit(_in_context, context.current(), work)
        except RuntimeError:
            self.leave()
            raise errors.NoFreeWorker from None
        future.add_done_callback(self._done)

    def _done(self, future: Future[None]) -> None:
        self.leave()
        error = future.exception()
        if error is not None:
            LOG.error("A worker ended with an error nobody handled", exc_info=error)

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until nobody works, at most ``timeout`` seconds (None: for ever); True if so."""
        with self._idle:
            return self._idle.wait_for(lambda: self._busy == 0, timeout)

    def close(self) -> None:
        """Take no more work; what runs goes on."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _in_context(whose: context.Context | None, work: Callable[[], None]) -> None:
    """Do work for the request in which it was handed over, as logs tell it."""
    context.enter(whose)
    try:
        work()
    finally:
        context.enter(None)
