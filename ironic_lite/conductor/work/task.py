"""One piece of work on one node: its lock, its state and its services for drivers.

``tasks.Tasks.lock`` makes a task. Endpoints move it and hand the slow part to a worker, where flows
and the stepper continue it. ``driver_view`` is the part that drivers see, ``transaction`` writes,
``run_record`` records the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from ironic_lite import errors
from ironic_lite.conductor.work import fence, locks
from ironic_lite.conductor.work.driver_view import DriverView
from ironic_lite.conductor.work.journal import Journal
from ironic_lite.conductor.work.node_ports import NodePorts
from ironic_lite.conductor.work.run_log import RunLog
from ironic_lite.conductor.work.run_record import RunRecord
from ironic_lite.conductor.work.runtime import Runtime
from ironic_lite.conductor.work.transaction import Transaction, Write
from ironic_lite.core import clock, run_lines
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Row
from ironic_lite.db.queries import nodes
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers.base import REBOOT, SOFT_REBOOT, Driver
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)

Work = Callable[["Task"], None]


class OtherNodes(Protocol):
    """Access from one node's task to other nodes, by the locks of this conductor."""

    def lock(
        self,
        context: Context,
        node_uuid: str,
        *,
        patient: bool = True,
        stale: nodes.Lease | None = None,
    ) -> AbstractContextManager[Task]:
        """Hold another node's lock for the block, as ``tasks.Tasks.lock``."""

    def look(self, context: Context, node_uuid: str) -> Task:
        """Return a read-only task; raises NodeNotFound."""

    def view(self, context: Context, node: Node) -> Task:
        """Return a read-only task."""

    def tie_power(self, task: Task, target: str, timeout: float | None) -> None:
        """Switch the nodes that share the power of the task's node; see ``flows.power.tie``."""

    def left(self, node: Node) -> nodes.Lease | None:
        """Return the node's lock if its holder is dead."""

    def running_out(self, node: Node) -> bool:
        """Return whether a lock's holder has missed renewals, so its lease may end soon."""


class Task(DriverView):
    """A node under work.

    :param held: the node's lock; None for a read-only task, whose writes are refused.
    :param other_nodes: leads to other nodes, for steps on a node's children.
    :param log: unwritten lines of an earlier task of the same work.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: Context,
        node: Node,
        driver: Driver,
        held: locks.Held | None,
        *,
        other_nodes: OtherNodes,
        log: RunLog | None = None,
    ) -> None:
        self.context = context
        self.held = held
        self.other_nodes = other_nodes
        self.above: Task | None = None
        """The task of the parent or child for which this task holds its node."""
        self.switching = False
        """True while nodes that share the power of this one are switched for it."""
        self.work: Work | None = None
        self.save_on_release = False
        """True if the changes are saved by the statement that releases the lock."""
        self.journal = Journal(context, runtime.host, node, log)
        self.run_record = RunRecord(node, self.journal, runtime.host)
        database, token = runtime.database, None if held is None else held.token
        mine = {"host": runtime.host, "node": node.uuid}
        lock = fence.HeldLock(database, runtime.fence, **mine, held=held)
        super().__init__(
            runtime,
            node,
            driver,
            ports=NodePorts(database, runtime.notifier, context, **mine, token=token),
            lock=lock,
            transaction=Transaction(runtime, context, node, self.journal, lock=lock, token=token),
        )

    @property
    def state(self) -> State:
        """The provision state."""
        return State(self.node.provision_state)

    @property
    def goal(self) -> State | None:
        """The target provision state."""
        target = self.node.target_provision_state
        return State(target) if target else None

    def move(
        self,
        event: str,
        *,
        verb: str | None = None,
        goal: State | None = None,
        error: errors.Error | None = None,
        aborted: bool = False,
        last: bool = False,
    ) -> None:
        """Follow one row of the state table and save all its changes at once.

        :param verb: set when a client's verb starts here: opens a run, replacing a waiting one. If
            there is work to do, last_error is cleared.
        :param goal: a stable state other than the new state's own target.
        :param error: the reason of a failure: last_error and the run's error.
        :param aborted: the run ends by request, not by a failure.
        :param last: this ends the work: the same statement releases the lock.
        :raises errors.InvalidState: the table has no such transition.
        :raises errors.LockLost: another conductor now has the node.
        """
        before = self.state
        after = states.follow(before, event, node=self.node.uuid)
        target = states.target(before, after, self.goal, goal)
        self.journal.look()
        self.node.provision_state = str(after)
        self.node.target_provision_state = str(target) if target else None
        self.node.provision_updated_at = clock.now()
        if verb is not None:
            self.run_record.open(verb, before, after)
        if error is not None:
            self.node.last_error = error.message
        if states.kind(after) is not Kind.WAIT:
            self.node.wake_at = None
            self.notes.forget_polls()
        if states.kind(after) is Kind.FAIL and error is not None and not aborted:
            self._schedule_retry(error)
        if states.kind(after) in (Kind.STABLE, Kind.FAIL):
            self.notes.clear_attempts()
        if states.kind(after) is Kind.STABLE:
            self.notes.automatic_retries = 0
        if aborted:
            self.notes.untidied = True  # the clean-up resets it at its end
        self.run_record.moved(event, before, after, error, aborted=aborted)
        self.transaction.save(release=last)
        why = f" ({error.message})" if error else ""
        text = "Node %s: %s, %s -> %s%s"
        LOG.info(text, self.node.uuid, event, before, after, why, extra=run_lines.OMITTED)

    def _schedule_retry(self, error: errors.Error) -> None:
        most = self.runtime.conf.conductor.automatic_retries
        pause = self.run_record.retry_pause(error, most) if most else None
        if pause is not None:
            self.wake_after(pause)

    def save(self) -> None:
        """Write the node's changes and the collected history; see `Transaction.save`."""
        self.transaction.save()

    def save_unless_stopped(self, known: str | None) -> None:
        """Write as `save`; see `Transaction.save_unless_stopped`."""
        self.transaction.save_unless_stopped(known)

    def add_write(self, write: Write, *, first: bool = False) -> None:
        """Run ``write`` in the transaction of the next save, after or before the node's.

        An error that ``write`` raises leaves the node unchanged.
        """
        self.transaction.add_write(write, first=first)

    def rest(self) -> None:
        """Save the result of polling a waiting node, and release its lock by the same statement.

        A database too busy for that fails no run: as after a crash before the poll, the next poll
        finds the same.
        """
        try:
            self.transaction.save(release=True)
        except errors.Unavailable as why:
            LOG.warning("Node %s: the result of a poll was not saved: %s", self.node.uuid, why)

    def switch_power(self, target: str, timeout: float | None = None) -> None:
        """Switch the machine, after its parent or its children; see ``drivers.base.Task``."""
        self.other_nodes.tie_power(self, target, timeout)
        power = self.driver.power
        if target in (REBOOT, SOFT_REBOOT):
            power.reboot(self, timeout, soft=target == SOFT_REBOOT)
        else:
            power.set_power_state(self, target, timeout)

    def renew_lock(self) -> None:
        """Renew the lock before using the machine again after a failure; raises LockLost."""
        self._lock.confirm()

    def take_lock_by_save(self, values: Callable[[], Row]) -> None:
        """Have the first save take the lock; see `Transaction.take_lock_by_save`."""
        self.transaction.take_lock_by_save(values)

    @property
    def locks_by_save(self) -> bool:
        """Return whether the next save takes the lock; see `take_lock_by_save`."""
        return not self._lock.taken

    def hand_over(self, flow: Callable[..., None], *args: object, **kwargs: object) -> None:
        """Have a worker run ``flow(task, ...)`` after the endpoint, with the lock kept."""
        self.work = lambda task: flow(task, *args, **kwargs)
