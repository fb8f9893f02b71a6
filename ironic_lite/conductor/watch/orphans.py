"""Finds nodes whose conductor is gone, and goes on with them (invariant 3, S2.24, C11).

A node in a busy state without a living lock has no owner; a lock whose lease has ended
(``leases``), or which an earlier life of this host took, belongs to nobody. The ring says who takes
them, and the table ``recovery`` what is done with them.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ironic_lite import context, errors, recovery
from ironic_lite.conductor.flows import failure, takeover
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import nodes, sweeps
from ironic_lite.recovery import Act

LOG = logging.getLogger(__name__)
BUSY = tuple(sorted(map(str, recovery.WORKED_IN)))
_PAGE = 5000  # few columns, and of all conductors no more are locked than they have workers
_LOOK = 1.0  # seconds between two looks whether the service stops, while waiting for a worker

Row = Mapping[str, Any]


class Orphans:
    """Takes over what dead conductors left."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet

    def take_back(self) -> threading.Thread:
        """At start: whatever this host still seems to hold is from an earlier life.

        In a thread: with many nodes it waits for free workers, and calls are served meanwhile.
        """
        thread = threading.Thread(target=self._take_back, name="recovery", daemon=True)
        thread.start()
        return thread

    def sweep(self) -> None:
        """Later: whatever belongs to nobody and is this conductor's by the ring.

        Without a free worker it ends; the next sweep finds the rest.
        """
        for row in self._left(None):
            try:
                self._adopt(row)
            except errors.NoFreeWorker as why:
                LOG.info("Taking over nodes goes on later: %s", why)
                return

    def _take_back(self) -> None:
        try:
            for row in self._left(self._tasks.desk.host):
                while not self._tried(row):
                    self._tasks.desk.workers.wait_place(_LOOK)
        except Exception:
            LOG.exception("Taking back nodes failed; the sweep for orphans goes on with it")

    def _tried(self, row: Row) -> bool:
        if self._tasks.desk.draining.is_set():
            return True
        try:
            self._adopt(row)
        except errors.NoFreeWorker:
            return False
        return True

    def _left(self, host: str | None) -> Iterator[Row]:
        """Yield what nobody works on: nodes whose lock is a dead one's, busy nodes without a lock.

        :param host: all locks of this host are from an earlier life.
        """
        leases, locked = self._tasks.leases, list(self._pages(sweeps.held))
        if host is None:
            leases.keep({row["lock_token"] for row in locked})
            self._fleet.members()  # looked at as often as their leases, they are missed as soon
        # All are looked at before the first is taken over, which may take long.
        ended = [row for row in locked if leases.over(row["lock_token"], row["lock_expires"])]
        own = [row for row in locked if row["reservation"] == host]
        others = (*ended, *self._pages(functools.partial(sweeps.unheld, states=BUSY)))
        for row in (*own, *(one for one in others if self._fleet.mine(one))):
            if row["lock_token"] not in self._tasks.held:
                yield row

    def _pages(self, ask: Callable[..., list[dict[str, Any]]]) -> Iterator[Row]:
        after = 0
        while not self._tasks.desk.draining.is_set():
            question = functools.partial(ask, after_id=after, limit=_PAGE)
            page = self._tasks.desk.database.read(question)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _adopt(self, row: Row) -> None:
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
                self._take(task, dead)
        except errors.NoFreeWorker:
            raise
        except errors.Error as why:  # one node's driver must not keep the others from their owner
            LOG.warning("Node %s: taking over is tried again later: %s", row["uuid"], why)

    def _take(self, task: Task, dead: str) -> None:
        """Do with a node what its row in the table says."""
        act = takeover.found(task)
        LOG.warning("Node %s was left in %s by %s: %s", task.node.uuid, task.state, dead, act.name)
        takeover.end_orders(task, dead)
        task.ring_at = task.node.wake_at
        if act not in recovery.WORK:
            return
        lack = self._tasks.lack(task.node)
        if lack is None or act is Act.TIDY:
            task.hand_over(takeover.go_on, act, dead)
        else:  # nobody can go on with it
            task.hand_over(failure.give_up, lack)
