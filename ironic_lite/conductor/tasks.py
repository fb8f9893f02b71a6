"""Tasks: the work under the lock of a node, from begin to end; a worker does what is slow."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import operator
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.conductor.engine import db_retry, rights
from ironic_lite.conductor.engine.locks import Lock, LockTable
from ironic_lite.conductor.engine.runtime import Runtime
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.engine.workers import Holder
from ironic_lite.conductor.flows import activities, error_text, operations
from ironic_lite.core import clock, context, log_lines
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes
from ironic_lite.domain import fields, states
from ironic_lite.domain.states import Kind
from ironic_lite.drivers.base import Driver
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)


class TaskRunner:
    """Makes the tasks of this conductor, and runs their work.

    :ivar locks: the locks that this conductor holds.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.locks = LockTable(
            runtime.database, runtime.host, runtime.conf.conductor, runtime.stopping
        )

    # -- making tasks ------------------------------------------------------------------------

    @contextlib.contextmanager
    def lock(
        self,
        context: Context,
        node_uuid: str,
        *,
        worker: bool = False,
        patient: bool = True,
        reserved: bool = True,
        stale: nodes.Lease | None = None,
        whole: bool = True,
    ) -> Iterator[Task]:
        """Hold a node's lock for the block, or pass it to a worker at the end.

        :param worker: the block may call ``task.hand_over``. A worker slot is claimed first, so
            that a full pool refuses before anything changes.
        :param patient: retry as ``[conductor]node_locked_retry_*`` configures; False: try once.
        :param reserved: the worker may come from the reserve, except for work in the background.
        :param stale: a dead holder's lock, which this one may replace unless it is renewed.
        :param whole: refuse a node whose interfaces are not all loaded here. False: a missing
            interface (see `missing_interface`) refuses to be called, and the node can be put away.
        :raises errors.NodeNotFound, errors.NodeLocked: the latter names the holder.
        :raises errors.NoFreeWorker, errors.RightsLost: nothing has changed.
        """
        holder = self._claim_worker(context, node_uuid, reserved=reserved) if worker else None
        handed_over = doubt = False
        held = task = None
        try:
            held, node = self.locks.take(context, node_uuid, patient=patient, stale=stale)
            rights.check_owners(context, node.uuid, node.owner, node.lessee)
            holder = holder and self.runtime.workers.charge(holder, node.owner)
            driver = self._driver_of(node, whole=whole)
            task = Task(self.runtime, context, node, driver, held, other_nodes=self)
            if context.background and context.owners and context.owners[0] == node_uuid:
                task.add_write(functools.partial(_require_sender, task))
            # A step on a child node, which has no run of its own, adds to the parent's log.
            with task.journal.gathering(below=node.run_uuid is None):
                yield task
                if task.save_on_release and task.work is None:
                    task.save_and_release()
            if holder is not None and task.work is not None:
                handed_over = True
                self._hand_over(task, held, holder)
        except errors.Unavailable as why:
            doubt = db_retry.outcome_unknown(why)
            raise
        finally:
            if not handed_over:
                try:
                    self._give_back(held, task, give_up=doubt)
                finally:
                    if holder is not None:
                        self.runtime.workers.leave(holder)

    def note(self, seen: Task) -> None:
        """Save the changes of a node that was read without its lock, by one statement.

        :raises errors.NodeLocked: the node has a lock.
        :raises errors.Conflict: the node has changed since it was read.
        """
        node, stamp, tries = seen.node, clock.now(), itertools.count()
        values = {**node.changes, "updated_at": stamp}

        def edit(conn: Connection) -> None:
            if next(tries) and nodes.saved(conn, node.uuid, at=stamp):
                return  # the change was made, only the reply was lost
            nodes.edit(conn, node.uuid, values, generation=node.generation)

        db_retry.write_idempotent(self.runtime.database, edit)
        node.settle(generation=node.generation + 1)

    def look(self, context: Context, node_uuid: str) -> Task:
        """Return a read-only task, without the lock, with the deploy interface that would work.

        :raises errors.NodeNotFound: there is no such node.
        :raises errors.InvalidRequest: an interface of the node is not loaded here.
        """
        node = self.runtime.database.read(lambda conn: nodes.load(conn, node_uuid))
        task = self.view(context, node)
        task.choose_deploy()
        return task

    def view(self, context: Context, node: Node) -> Task:
        """Return a read-only task for a node that was just read with many others."""
        return Task(self.runtime, context, node, self.driver(node), None, other_nodes=self)

    def tie_power(self, task: Task, target: str, timeout: float | None) -> None:
        """Switch the nodes that share the node's power; see ``flows.operations.tie_power``."""
        operations.tie_power(task, target, timeout)

    def driver(self, node: Node) -> Driver:
        """Return the interfaces of a node.

        :raises errors.InterfaceNotFound: the node names an interface that is not loaded here.
        """
        return self.runtime.registry.driver_for(
            node.driver, _interface_names(node), node.instance_info
        )

    def missing_interface(self, node: Node) -> errors.Error | None:
        """Return the error of a node's missing interfaces, None if all are loaded here.

        A restarted conductor may enable fewer interfaces than before, or fail to load a driver.
        """
        try:
            self.driver(node)
        except (errors.InvalidRequest, errors.DriverNotFound) as why:
            return why
        return None

    def _driver_of(self, node: Node, *, whole: bool) -> Driver:
        if whole or self.missing_interface(node) is None:
            return self.driver(node)
        return self.runtime.registry.remains(
            node.driver, _interface_names(node), node.instance_info
        )

    # -- the lock itself ---------------------------------------------------------------------

    def _claim_worker(self, context: Context, node_uuid: str, *, reserved: bool) -> Holder:
        """Claim a worker slot before a node is read; a full share refuses before its lock."""
        workers, holder = self.runtime.workers, Holder(node_uuid)
        workers.claim(reserved=reserved and not context.background, holder=holder)
        if not workers.asks_for_owner:
            return holder
        read = functools.partial(nodes.get, ident=node_uuid, columns=("owner",))
        try:
            return workers.charge(holder, self.runtime.database.read(read)["owner"])
        except BaseException:
            workers.leave(holder)
            raise

    def _give_back(self, held: Lock | None, task: Task | None, *, give_up: bool = False) -> None:
        """Release a lock; a failure does not change what the caller was answered.

        :param held: None: the lock was never ours.
        :param give_up: leave the lock to the recovery sweep, which continues with the node: work is
            left, or it is unknown whether the last change was made.
        """
        if held is None:
            return
        if give_up:
            self.locks.give_up(held)
            return
        if task is not None and task.node.lock_token is None:  # the last save has released it
            self.locks.drop(held.token)
        else:
            self.locks.release(held)
        if task is not None and task.transaction.timer_at is not None:
            self.runtime.timers.set(held.node, task.transaction.timer_at)

    def _hand_over(self, task: Task, held: Lock, holder: Holder) -> None:
        """Have a worker run the task's work in the slot that ``holder`` has claimed."""
        try:
            held.free_slot = self.runtime.workers.run(
                lambda: self._run_to_end(task, held), holder
            ).free_slot
        except errors.NoFreeWorker as refusal:  # the service has begun to stop
            if task.notes.untidied:  # an accepted abort: the node's next owner cleans up
                self._give_back(held, task, give_up=True)
                return
            try:
                activities.undo_start(task, refusal)
            finally:
                self._give_back(held, task)
            if states.kind(task.state) is not Kind.BUSY:
                raise

    def _run_to_end(self, task: Task, held: Lock) -> None:
        """Run handed-over work to its end, then release or give up the lock in every case.

        The work waits for a database that is not available meanwhile, until it is given up as hung.
        """
        context.enter(task.context)  # work from a sweep has its own request id
        with db_retry.waiting_for_database(held.refuse_hung):
            try:
                with task.journal.gathering():
                    self._do_work(task)
            finally:
                # An abort still has to be cleaned up if a stop of the service has interrupted it.
                self._give_back(held, task, give_up=task.notes.untidied)

    def _do_work(self, task: Task) -> None:
        try:
            while task.work is not None:
                work, task.work = task.work, None
                work(task)
            if task.save_on_release:
                task.save_and_release()
        except Exception as why:
            self._handle_error(task, why)

    def _handle_error(self, task: Task, why: Exception) -> None:
        """Handle the error that stopped a flow: a node still ours goes to its fail state."""
        node = task.node.uuid
        if isinstance(why, errors.LockLost):
            LOG.warning("Node %s: the lock was lost, its new owner continues", node)
            return
        if isinstance(why, errors.Stopping):
            LOG.info("Node %s: left to its next owner, because this conductor stops", node)
            return
        ours = isinstance(why, errors.Error)
        LOG.warning(
            "Node %s: %s",
            node,
            why,
            exc_info=None if ours else why,
            extra=log_lines.OMITTED if ours else None,
        )
        self._fail_node(task, error_text.as_error(why))

    def _fail_node(self, task: Task, why: errors.Error) -> None:
        """Put the node into its fail state, without changes that could not be saved.

        If this also fails, the recovery sweep finds the node busy and without a lock.
        """
        lost = task.transaction.unsaved
        try:
            activities.give_up(self._fresh_task(task) if lost else task, why)
        except Exception:
            LOG.exception("Node %s: setting its fail state failed", task.node.uuid)
            if task.transaction.unsaved and not lost:
                self._fail_node(task, why)

    def _fresh_task(self, task: Task) -> Task:
        """Return a task on the node as stored, without changes that could not be saved."""
        node = self.runtime.database.read(lambda conn: nodes.load(conn, task.node.uuid))
        fresh = Task(
            self.runtime,
            task.context,
            node,
            task.driver,
            task.held,
            other_nodes=self,
            log=task.journal.log,
        )
        fresh.erasure = task.erasure  # of the step whose end could not be saved
        return fresh


_INTERFACE_COLUMNS = operator.itemgetter(*(f"{kind}_interface" for kind in fields.INTERFACE_KINDS))


def _require_sender(task: Task, conn: Connection) -> None:
    """Refuse a request of a feature that no longer waits for it, or that is off here."""
    if not task.runtime.begun:
        raise errors.FeatureOff
    for listener in task.runtime.begun:
        listener(task, conn)


def _interface_names(node: Node) -> dict[str, str | None]:
    """Return the interface names of a node by kind."""
    return dict(zip(fields.INTERFACE_KINDS, _INTERFACE_COLUMNS(node.as_dict()), strict=True))
