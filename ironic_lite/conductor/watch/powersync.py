"""Compares the power state in the database with the machine's, and puts one of them right.

Reading is done by a few threads at once without locks; only a difference takes a lock. A machine
that cannot be read for some rounds goes into maintenance with the fault ``power failure``, and
comes back by itself when it can be read again.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from ironic_lite import context, errors
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import sweeps
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

Row = Mapping[str, Any]


class PowerSync:
    """The power comparison of this conductor's nodes."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._failures: dict[str, int] = {}
        self._guard = threading.Lock()

    # -- comparing ---------------------------------------------------------------------------

    def sweep(self) -> None:
        """Compare all nodes once, ``[conductor]sync_power_state_workers`` of them at a time."""
        queue = self._rows()
        limit = self._tasks.desk.conf.conductor.sync_power_state_workers
        threads = [
            threading.Thread(target=self._drain, args=(queue,), name=f"power-{n}", daemon=True)
            for n in range(limit)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _rows(self) -> Iterator[Row]:
        """Yield this conductor's nodes, page by page."""
        after = 0
        while True:
            question = functools.partial(
                sweeps.for_power_sync, skip_states=SKIPPED, after_id=after, limit=_PAGE
            )
            page = self._tasks.desk.database.read(question)
            yield from (row for row in page if self._fleet.mine(row))
            if len(page) < _PAGE:
                return
            after = page[-1]["id"]

    def _drain(self, queue: Iterator[Row]) -> None:
        while not self._tasks.desk.stopping.is_set():
            with self._guard:
                row = next(queue, None)
            if row is None:
                return
            try:
                self._compare(row)
            except errors.Error as why:
                LOG.info("Node %s: power is looked at again later: %s", row["uuid"], why)
            except Exception:
                LOG.exception("Node %s: comparing its power failed", row["uuid"])

    def _compare(self, row: Row) -> None:
        task = self._tasks.look(context.internal("power sync"), row["uuid"])
        if task.node.reservation or not task.driver.power.supports_power_sync(task):
            return
        try:
            task.driver.power.validate(task)
            actual = task.driver.power.get_power_state(task)
        except errors.Error as why:
            self._count_failure(row["uuid"], why)
            return
        self._failures.pop(row["uuid"], None)
        if actual != task.node.power_state:
            self._settle(row["uuid"])

    def _settle(self, node_uuid: str) -> None:
        """Read again under the lock, then make the two equal."""
        force = self._tasks.desk.conf.conductor.force_power_state_during_sync
        with self._tasks.lock(
            context.internal("power sync"), node_uuid, patient=False, reserved=False
        ) as task:
            actual, wanted = task.driver.power.get_power_state(task), task.node.power_state
            if actual == wanted or task.node.maintenance or str(task.state) in SKIPPED:
                return
            if force and wanted is not None and actual is not None and self._forced(task, wanted):
                return
            task.node.power_state = actual
            task.save()

    def _forced(self, task: Task, wanted: str) -> bool:
        """Bring the machine to the recorded state; False if it will not go."""
        try:
            task.driver.power.set_power_state(task, wanted)
        except errors.Error as why:
            LOG.warning("Node %s: its power cannot be reset: %s", task.node.uuid, why)
            return False
        task.journal.event("power", event="reset", before=None, after=wanted)
        task.save()
        return True

    def _count_failure(self, node_uuid: str, why: errors.Error) -> None:
        count = self._failures.get(node_uuid, 0) + 1
        self._failures[node_uuid] = count
        limit = self._tasks.desk.conf.conductor.power_state_sync_max_retries
        LOG.warning("Node %s: power cannot be read (%d of %d): %s", node_uuid, count, limit, why)
        if count <= limit:
            return
        with self._tasks.lock(
            context.internal("power sync"), node_uuid, patient=False, reserved=False
        ) as task:
            reason = f"Power state could not be read {count} times in a row: {why.message}"
            task.node.maintenance = True
            task.node.maintenance_reason = reason
            task.node.fault = FAULT
            task.node.last_error = reason
            task.node.power_state = None
            task.journal.event("fault", event="power failure", data={"error": reason})
            task.save()
        self._failures.pop(node_uuid, None)

    # -- recovering --------------------------------------------------------------------------

    def recover(self) -> None:
        """End the maintenance of nodes whose power can be read again."""
        rows = self._tasks.desk.database.read(
            lambda conn: sweeps.in_fault(conn, fault=FAULT, limit=_PAGE)
        )
        for row in rows:
            if not self._fleet.mine(row):
                continue
            try:
                self._try_recovery(row["uuid"])
            except errors.Error as why:
                LOG.info("Node %s: still without power state: %s", row["uuid"], why)

    def _try_recovery(self, node_uuid: str) -> None:
        who = context.internal("power recovery")
        task = self._tasks.look(who, node_uuid)
        actual = task.driver.power.get_power_state(task)
        with self._tasks.lock(who, node_uuid, patient=False, reserved=False) as task:
            if task.node.fault != FAULT:
                return
            task.node.maintenance = False
            task.node.maintenance_reason = None
            task.node.fault = None
            task.node.power_state = actual
            task.journal.event("fault", event="recovered", after=actual)
            task.save()
