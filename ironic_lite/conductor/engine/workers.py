"""A bounded pool of worker threads, with a reserve for clients' requests.

Silent machines and each project may take a share of it, so that nobody takes all workers.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core import context, metrics, threads
from ironic_lite.db.engine import fair_lock
from ironic_lite.drivers import deadline

LOG = logging.getLogger(__name__)


class Holder(NamedTuple):
    """A node for which a slot is held, by its UUID; ``owner`` None is in no project's share."""

    node: str
    owner: str | None = None


class Shares:
    """The shares of slots that silent machines and one project may hold.

    Machines that did not answer last time have a quarter of all slots together. A project has a
    percentage of all slots for the nodes it owns, and the same percentage of that quarter.

    :param size: number of slots.
    :param what: the slots in errors, such as "workers".
    :param percent: share of one project; 100 sets no limit.
    :param silent: the UUIDs of nodes whose machine did not answer last time.
    """

    def __init__(self, size: int, what: str, percent: int, silent: Container[str]) -> None:
        self._size = size
        self._what = what
        self._percent = percent
        self._silent = silent

    def refusal(self, holders: Sequence[Holder], one: Holder) -> errors.NoFreeWorker | None:
        """Return the error for a holder whose share is full, None if it may have a slot.

        :param holders: the holders of slots, without ``one``.
        """
        if one.node in self._silent:
            held = [each for each in holders if each.node in self._silent]
            few = deadline.silent_share(self._size)
            if len(held) >= few:
                whose = "nodes whose machine did not answer last time"
                return self._full(len(held), whose, "Check these machines.", "silent machines")
            if full := self._of_project(held, one, few):
                return full
        return self._of_project(holders, one, self._size)

    def near(self, holders: Sequence[Holder]) -> bool:
        """Return whether any project may be at its limit, so that an owner must be known."""
        return self._percent < _ALL and len(holders) >= self._limit(
            deadline.silent_share(self._size)
        )

    def _limit(self, size: int) -> int:
        return max(1, size * self._percent // _ALL)

    def _of_project(
        self, holders: Sequence[Holder], one: Holder, size: int
    ) -> errors.NoFreeWorker | None:
        if one.owner is None or self._percent >= _ALL:
            return None
        count = sum(each.owner == one.owner for each in holders)
        if count < self._limit(size):
            return None
        whose = f"nodes of the project that owns node {one.node}"
        if size < self._size:
            whose += ", whose machines did not answer last time"
        advice = "An operator may raise [conductor]workers_project_percentage."
        return self._full(count, whose, advice, "project")

    def _full(self, count: int, whose: str, advice: str, share: str) -> errors.NoFreeWorker:
        text = errors.NoFreeWorker.text.rstrip(".")
        said = f"{text}: {count} of {self._size} {self._what} are at work for {whose}, their share."
        return errors.NoFreeWorker(f"{said} Retry later. {advice}", share=share)


_ALL = 100  # percent


class WorkerSlot:
    """The slot of one piece of work."""

    def __init__(self, workers: Workers, holder: Holder | None) -> None:
        self._workers = workers
        self.holder = holder
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
    :param project_percent: share that the nodes of one owner may use.
    """

    def __init__(self, size: int, reserve_percent: int = 5, project_percent: int = _ALL) -> None:
        # The number of slots.
        self.size = size
        self._shares = Shares(size, "workers", project_percent, deadline.SILENT)
        self._holders: list[Holder] = []
        self._open_to_all = max(1, size - size * reserve_percent // 100)
        self._pool = threads.WarmPool(2 * size, "worker")
        # The number of slots in use.
        self.busy = 0
        self._hanging = 0
        self._idle = threading.Condition()

    def claim(self, *, reserved: bool = False, holder: Holder | None = None) -> None:
        """Claim a slot for later work, so that a refusal comes before any change.

        :param reserved: True may use the reserve, because a client waits for the reply.
        :param holder: the node that the work is for; None for work without a node.
        :raises errors.NoFreeWorker: all slots are in use, or a share of the holder; its fact
            ``share`` names that share.
        """
        limit = self.size if reserved else self._open_to_all
        with self._idle:
            refusal = self._refusal(limit, holder)
            if refusal is None:
                self.busy += 1
                self._add_holder(holder)
                return
        metrics.BOARD.count("workers_refused_total")
        raise refusal

    def _refusal(self, limit: int, holder: Holder | None) -> errors.NoFreeWorker | None:
        if self.busy >= limit:
            return errors.NoFreeWorker()
        return None if holder is None else self._shares.refusal(self._holders, holder)

    @property
    def asks_for_owner(self) -> bool:
        """True if a claim should name the owner of its node, because a share may be full."""
        with self._idle:
            return self._shares.near(self._holders)

    def charge(self, holder: Holder, owner: str | None) -> Holder:
        """Name the owner of a claimed slot's node, once it is known; return the new holder.

        :raises errors.NoFreeWorker: its share is full; the slot stays claimed by ``holder``.
        """
        charged = holder._replace(owner=owner)
        if charged == holder:
            return holder
        with self._idle:
            self._holders.remove(holder)
            refusal = self._shares.refusal(self._holders, charged)
            self._holders.append(charged if refusal is None else holder)
        if refusal is not None:
            metrics.BOARD.count("workers_refused_total")
            raise refusal
        return charged

    def wait_for_slot(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds for a slot outside the reserve."""
        with self._idle:
            return self._idle.wait_for(lambda: self.busy < self._open_to_all, timeout)

    def leave(self, holder: Holder | None = None) -> None:
        """Return a slot unused that ``holder`` has claimed."""
        with self._idle:
            self._free(holder)

    def _add_holder(self, holder: Holder | None) -> None:
        if holder is not None:
            self._holders.append(holder)

    def _free(self, holder: Holder | None) -> None:
        self.busy -= 1
        if holder is not None:
            self._holders.remove(holder)
        self._idle.notify_all()

    def free_slot(self, slot: WorkerSlot) -> None:
        """Free a slot although its work still runs; does nothing at the limit."""
        with self._idle:
            if not slot.vacated and self._hanging < self.size:
                slot.vacated = True
                self._hanging += 1
                self._free(slot.holder)

    def run(self, work: Callable[[], None], holder: Holder | None = None) -> WorkerSlot:
        """Run ``work`` in the slot that ``holder`` has claimed, which is freed at its end.

        A thread that answers an RPC call runs it itself, after the answer.

        :raises errors.NoFreeWorker: the pool has been closed since, or the system refuses its first
            thread; the slot is freed.
        """
        slot = WorkerSlot(self, holder)
        work = functools.partial(self._carry_out, slot, context.current(), work)
        try:
            if self._pool.closed or not threads.defer(work):
                self._pool.run(work)
        except RuntimeError:
            self.leave(holder)
            raise errors.NoFreeWorker from None
        return slot

    def _carry_out(
        self, slot: WorkerSlot, whose: context.Context | None, work: Callable[[], None]
    ) -> None:
        try:
            _in_context(whose, work)
        except BaseException as error:
            LOG.error("A worker ended with an unhandled error", exc_info=error)
        finally:
            self._note_end(slot)

    def _note_end(self, slot: WorkerSlot) -> None:
        with self._idle:
            if slot.vacated:
                self._hanging -= 1
                self._idle.notify_all()
            else:
                slot.vacated = True  # ended work is never vacated again
                self._free(slot.holder)

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until no work runs, at most ``timeout`` seconds; return True if none does.

        None waits without limit.
        """
        with self._idle:
            return self._idle.wait_for(lambda: self.busy == 0, timeout)

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
