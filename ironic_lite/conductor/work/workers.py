"""A bounded pool of worker threads, with a reserve for clients' requests."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.core import context, metrics, warm_pool
from ironic_lite.db.engine import fair_lock

LOG = logging.getLogger(__name__)


class Place:
    """The slot of one piece of work."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.vacated = False

    def free_slot(self) -> None:
        """Free the slot for other work, because its own work hangs."""
        self._workers.free_slot(self)


class Workers:
    """Limit of pieces of work at once: a full pool refuses, without a queue.

    Python cannot end a thread that hangs, so the pool may have twice as many threads. The slot of
    hung work is given to other work, up to ``size`` such slots; further slots stay lost until the
    hung work ends.

    :param size: pieces of work; threads start when first needed.
    :param reserve_percent: share that only clients' requests may use, not sweeps or heartbeats.
    """

    def __init__(self, size: int, reserve_percent: int = 5) -> None:
        self._size = size
        self._open_to_all = max(1, size - size * reserve_percent // 100)
        self._pool = warm_pool.WarmPool(2 * size, "worker")
        self._busy = 0
        self._hanging = 0
        self._idle = threading.Condition()

    @property
    def size(self) -> int:
        """The number of slots."""
        return self._size

    @property
    def busy(self) -> int:
        """The number of slots in use."""
        return self._busy

    def claim(self, *, reserved: bool = False) -> None:
        """Claim a slot for later work, so that a refusal comes before any change.

        :param reserved: True may use the reserve, because a client waits for the reply.
        :raises errors.NoFreeWorker: all slots are in use.
        """
        limit = self._size if reserved else self._open_to_all
        with self._idle:
            if self._busy < limit:
                self._busy += 1
                return
        metrics.BOARD.count("workers_refused_total")
        raise errors.NoFreeWorker

    def wait_place(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds for a slot outside the reserve."""
        with self._idle:
            return self._idle.wait_for(lambda: self._busy < self._open_to_all, timeout)

    def leave(self) -> None:
        """Return a claimed slot unused."""
        with self._idle:
            self._busy -= 1
            self._idle.notify_all()

    def free_slot(self, place: Place) -> None:
        """Free a slot although its work still runs; does nothing at the limit."""
        with self._idle:
            if not place.vacated and self._hanging < self._size:
                place.vacated = True
                self._hanging += 1
                self._busy -= 1
                self._idle.notify_all()

    def run(self, work: Callable[[], None]) -> Place:
        """Run ``work`` in the claimed slot, which is freed at its end.

        A thread that answers an RPC call runs it itself, after the answer.

        :raises errors.NoFreeWorker: the pool has been closed since, or the system refuses its first
            thread; the slot is freed.
        """
        place = Place(self)
        work = functools.partial(self._carry_out, place, context.current(), work)
        try:
            if self._pool.closed or not warm_pool.defer(work):
                self._pool.run(work)
        except RuntimeError:
            self.leave()
            raise errors.NoFreeWorker from None
        return place

    def _carry_out(
        self, place: Place, whose: context.Context | None, work: Callable[[], None]
    ) -> None:
        try:
            _in_context(whose, work)
        except BaseException as error:
            LOG.error("A worker ended with an unhandled error", exc_info=error)
        finally:
            self._note_end(place)

    def _note_end(self, place: Place) -> None:
        with self._idle:
            self._hanging -= place.vacated
            self._busy -= not place.vacated
            place.vacated = True  # ended work is never vacated again
            self._idle.notify_all()

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until no work runs, at most ``timeout`` seconds; return True if none does.

        None waits without limit.
        """
        with self._idle:
            return self._idle.wait_for(lambda: self._busy == 0, timeout)

    def close(self) -> None:
        """Refuse new work; running work continues."""
        self._pool.close()


def _in_context(whose: context.Context | None, work: Callable[[], None]) -> None:
    """Run work in the context of its request, so logs carry the request's id."""
    context.enter(whose)
    try:
        with fair_lock.low_priority():  # a client that waits for its answer goes first
            work()
    finally:
        context.enter(None)
