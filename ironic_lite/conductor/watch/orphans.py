"""Recovery of nodes whose conductor is lost.

A node in a busy state has no owner if nobody holds its lock, if the lease of the lock has ended
(``engine/locks``), or if a former process of this host took the lock. The ring assigns such a node
to a conductor; the table ``recovery`` defines the action (invariant 3, S2.24, C11).
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator

from ironic_lite import errors
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import activities, takeover
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.core import context, log_lines
from ironic_lite.db.queries import nodes, sweeps
from ironic_lite.domain import recovery
from ironic_lite.domain.recovery import RecoveryAction

LOG = logging.getLogger(__name__)
BUSY = tuple(sorted(map(str, recovery.WORKED_IN)))
_PAGE = 5000  # rows have few columns, and a conductor locks no more nodes than it has workers
_LOOK = 1.0  # seconds between two checks for a stop, while waiting for a worker


class Orphans:
    """Takes over the nodes of dead conductors."""

    def __init__(self, tasks: TaskRunner, ownership: Ownership) -> None:
        self._tasks = tasks
        self._ownership = ownership

    def take_back(self) -> threading.Thread:
        """At start: take back all locks of this host, which are from an earlier life.

        This runs in a thread, because with many nodes it waits for free workers while calls are
        served.
        """
        thread = threading.Thread(target=self._take_back, name="recovery", daemon=True)
        thread.start()
        return thread

    def sweep(self) -> None:
        """Take over nodes without an owner that the ring assigns to this conductor.

        Without a free worker the sweep ends; the next one finds the rest.
        """
        for row in self._orphaned_locks(None):
            try:
                self._take_over(row)
            except errors.NoFreeWorker as why:
                LOG.info("Taking over nodes continues later: %s", why)
                if "share" not in why.facts:  # nodes with other shares are taken over
                    return

    def _take_back(self) -> None:
        try:
            left = list(
                self._orphaned_locks(
                    self._tasks.runtime.host if self._tasks.locks.name_is_ours else None
                )
            )
            while left := [row for row in left if not self._try_take_over(row)]:
                time.sleep(_LOOK)
        except Exception:
            LOG.exception("Taking back nodes failed; the sweep for orphans continues it")

    def _try_take_over(self, row: sweeps.LockedNode) -> bool:
        """Take one node over; return False if its share of the workers is full.

        Waits while all workers are busy.
        """
        while not self._tasks.runtime.draining.is_set():
            try:
                self._take_over(row)
            except errors.NoFreeWorker as why:
                if "share" in why.facts:
                    return False
                self._tasks.runtime.workers.wait_for_slot(_LOOK)
            else:
                break
        return True

    def _orphaned_locks(self, host: str | None) -> Iterator[sweeps.LockedNode]:
        """Yield orphans: nodes with a dead holder's lock, and busy nodes without a lock."""
        leases, locked = self._tasks.locks.leases, list(self._lock_pages(sweeps.held))
        if host is None:
            leases.keep({row["lock_token"] for row in locked})
            self._ownership.members()  # looked at as often as their leases, they are missed as soon
        # All are looked at before the first is taken over, which may take long.
        ended = [row for row in locked if leases.over(row["lock_token"], row["lock_expires"])]
        own = [row for row in locked if row["reservation"] == host]
        others = (*ended, *self._lock_pages(functools.partial(sweeps.unheld, states=BUSY)))
        for row in (*own, *(one for one in others if self._ownership.mine(one))):
            if row["lock_token"] not in self._tasks.locks.held:
                yield row

    def _lock_pages(
        self, ask: Callable[..., list[sweeps.LockedNode]]
    ) -> Iterator[sweeps.LockedNode]:
        after = 0
        while not self._tasks.runtime.draining.is_set():
            question = functools.partial(ask, after_id=after, limit=_PAGE)
            page = self._tasks.runtime.database.read(question)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _take_over(self, row: sweeps.LockedNode) -> None:
        """Take one node over.

        :raises errors.NoFreeWorker: nothing has changed.
        """
        who = context.internal("recovery")
        dead = row["reservation"] or "that had it before"
        try:
            with self._tasks.lock(
                who,
                row["uuid"],
                worker=True,
                patient=False,
                reserved=False,
                stale=nodes.Lease.seen(row),
                whole=False,
            ) as task:
                self._apply_rule(task, dead)
        except errors.NoFreeWorker:
            raise
        except errors.Error as why:  # one node's driver must not block the others
            LOG.warning("Node %s: taking over will be retried later: %s", row["uuid"], why)

    def _apply_rule(self, task: Task, dead: str) -> None:
        """Carry out the action of the recovery table."""
        act = takeover.found(task)
        text = "Node %s was left in %s by the conductor %s. %s"
        about = (task.node.uuid, task.state, dead)
        LOG.warning(text, *about, act.value.replace("``", ""), extra=log_lines.OMITTED)
        takeover.end_orders(task, dead)
        task.transaction.timer_at = task.node.wake_at
        if act not in recovery.WORK:
            return
        missing = self._tasks.missing_interface(task.node)
        if missing is None or act is RecoveryAction.FINISH_ABORT:
            task.hand_over(takeover.recover, act, dead)
        else:  # no driver here can continue it
            task.hand_over(activities.give_up, missing)
