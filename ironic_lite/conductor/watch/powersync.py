"""Compares the power state in the database with the machine's, and puts one of them right.

Reading is done by a few threads at once without locks; only a difference takes a lock. A machine
that cannot be read for some rounds goes into maintenance with the fault ``power failure``, and
comes back by itself when it can be read again.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ironic_lite import context, errors
from ironic_lite.conductor.flows import faults
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import sweeps
from ironic_lite.drivers import base
from ironic_lite.records import Node
from ironic_lite.states import State

LOG = logging.getLogger(__name__)
FAULT = "power failure"
SKIPPED = tuple(
    str(state)
    for state in (
        State.ENROLL,
        State.DEPLOYWAIT,
        State.CLEANWAIT,
        State.RESCUEWAIT,
        State.INSPECTWAIT,
        State.SERVICEWAIT,
        State.ADOPTFAIL,
    )
)
_PAGE = 500


class PowerSync:
    """The power comparison of this conductor's nodes."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._who = context.internal("power sync")
        self._failures: Counter[str] = Counter()  # reads in a row that failed, by node
        self._resets: Counter[str] = Counter()  # resets in a row that did not last, by node
        self._guard = threading.Lock()

    def sweep(self) -> None:
        """Compare all nodes once, ``[conductor]sync_power_state_workers`` of them at a time."""
        question = functools.partial(sweeps.for_power_sync, skip_states=SKIPPED)
        self._go_through(self._nodes(question), self._compare)

    def recover(self) -> None:
        """End the maintenance of nodes whose power can be read again."""
        question = functools.partial(sweeps.in_fault, fault=FAULT)
        self._go_through(self._nodes(question), self._try_recovery)

    # -- many nodes --------------------------------------------------------------------------

    def _nodes(self, question: Callable[..., list[dict[str, Any]]]) -> Iterator[Node]:
        """Yield this conductor's nodes, page by page: one statement for many nodes."""
        after = 0
        while True:
            ask = functools.partial(question, after_id=after, limit=_PAGE)
            page = self._tasks.desk.database.read(ask)
            yield from (Node.of(row) for row in page if self._fleet.mine(row))
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _go_through(self, queue: Iterator[Node], act: Callable[[Node], None]) -> None:
        """Let some threads take nodes from the queue until it is empty or the service stops."""
        limit = self._tasks.desk.conf.conductor.sync_power_state_workers
        threads = [
            threading.Thread(target=self._drain, args=(queue, act), name=f"power-{n}", daemon=True)
            for n in range(limit)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _drain(self, queue: Iterator[Node], act: Callable[[Node], None]) -> None:
        while not self._tasks.desk.draining.is_set():
            with self._guard:
                node = next(queue, None)
            if node is None:
                return
            try:
                act(node)
            except errors.Error as why:
                LOG.info("Node %s: its power is looked at again later: %s", node.uuid, why)
            except Exception:
                LOG.exception("Node %s: looking at its power failed", node.uuid)

    # -- comparing ---------------------------------------------------------------------------

    def _compare(self, node: Node) -> None:
        task = self._tasks.view(self._who, node)
        if not task.driver.power.supports_power_sync(task):
            return
        try:
            task.driver.power.validate(task)
            actual = task.driver.power.get_power_state(task)
        except Exception as why:  # a driver's own fault counts like the machine's
            self._count_failure(node.uuid, faults.as_error(why))
            return
        self._failures.pop(node.uuid, None)
        if actual is None:
            return  # between on and off, or unable to tell: nothing to compare
        if actual == node.power_state:
            self._resets.pop(node.uuid, None)
        else:
            self._settle(node.uuid)

    def _settle(self, node_uuid: str) -> None:
        """Read again under the lock, then make the two equal."""
        with self._tasks.lock(self._who, node_uuid, patient=False, reserved=False) as task:
            if not _watched(task):
                return
            actual, wanted = task.driver.power.get_power_state(task), task.node.power_state
            if actual is None or actual == wanted:
                return
            if wanted is not None and self._forced(task, wanted):
                return
            LOG.warning("Node %s: its power is %s, not %s", node_uuid, actual, wanted)
            task.node.power_state = actual
            task.save()
            self._resets.pop(node_uuid, None)

    def _forced(self, task: Task, wanted: str) -> bool:
        """Bring the machine to the recorded state; False if it must not, or will not go."""
        settings, node = self._tasks.desk.conf.conductor, task.node
        spared = wanted == base.POWER_OFF and node.disable_power_off
        if spared or not settings.force_power_state_during_sync:
            return False
        self._resets[node.uuid] += 1
        if self._resets[node.uuid] > settings.power_state_sync_max_retries:
            return False
        try:
            task.driver.power.set_power_state(task, wanted)
        except errors.Error as why:
            LOG.warning("Node %s: its power cannot be reset: %s", node.uuid, why)
            return True  # it is tried again by the next sweeps
        task.journal.event("power", event="reset", after=wanted)
        task.save()
        return True

    def _count_failure(self, node_uuid: str, why: errors.Error) -> None:
        self._failures[node_uuid] += 1
        count = self._failures[node_uuid]
        limit = self._tasks.desk.conf.conductor.power_state_sync_max_retries
        LOG.warning("Node %s: power cannot be read (%d of %d): %s", node_uuid, count, limit, why)
        if count <= limit:
            return
        with self._tasks.lock(self._who, node_uuid, patient=False, reserved=False) as task:
            if not _watched(task):
                return
            reason = f"Power state could not be read {count} times in a row: {why.message}"
            task.node.maintenance = True
            task.node.maintenance_reason = reason
            task.node.fault = FAULT
            task.node.last_error = reason
            task.node.power_state = None
            task.journal.event("fault", event=FAULT, data={"error": reason})
            task.save()
        self._failures.pop(node_uuid, None)

    # -- recovering --------------------------------------------------------------------------

    def _try_recovery(self, node: Node) -> None:
        task = self._tasks.view(self._who, node)
        actual = task.driver.power.get_power_state(task)
        with self._tasks.lock(self._who, node.uuid, patient=False, reserved=False) as task:
            if task.node.fault != FAULT:
                return
            if task.node.last_error == task.node.maintenance_reason:
                task.node.last_error = None
            task.node.maintenance = False
            task.node.maintenance_reason = None
            task.node.fault = None
            task.node.power_state = actual
            task.journal.event("fault", event="recovered", after=actual)
            task.save()


def _watched(task: Task) -> bool:
    """Tell, under the lock, whether the node is still one whose power is compared."""
    node = task.node
    return not (node.maintenance or node.retired or node.provision_state in SKIPPED)
