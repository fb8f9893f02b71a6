"""Tasks and node locks: taking a lock, releasing it, making the task under it.

A lock is a random token and an expiry, written by one conditional UPDATE (invariant 2), which may
also make the first change under it. The keepalive renews the leases of all tokens held here; a
conductor that stops renewing loses them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from ironic_lite import errors
from ironic_lite.conductor.flows import error_text, failure, power
from ironic_lite.conductor.work import db_retry, locks, node_interfaces, rights
from ironic_lite.conductor.work.leases import Leases
from ironic_lite.conductor.work.notes import Notes
from ironic_lite.conductor.work.runtime import Runtime
from ironic_lite.conductor.work.task import Task, Work
from ironic_lite.conductor.work.workers import Holder
from ironic_lite.core import clock, context, run_lines
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes
from ironic_lite.domain import node_locks, states
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers.base import Driver
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class Tasks:
    """The locks this conductor holds."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        settings = runtime.conf.conductor
        self.leases = Leases(settings.heartbeat_timeout, settings.heartbeat_interval)
        self.locks = locks.Locks()
        self.alone = True
        """True if all other locks under this name certainly belong to earlier lives."""
        self._retries = locks.Retries(settings, runtime.stopping)

    @property
    def held(self) -> frozenset[str]:
        """The tokens of all locks held now."""
        return self.locks.tokens

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
            interface (see ``lack``) refuses to be called, and the node can be put away.
        :raises errors.NodeNotFound, errors.NodeLocked: the latter names the holder.
        :raises errors.NoFreeWorker, errors.RightsLost: nothing has changed.
        """
        holder = self._claim_worker(context, node_uuid, reserved=reserved) if worker else None
        handed_over = doubt = False
        held = task = None
        try:
            note = node_locks.note(context)
            held = self._acquire_lock(node_uuid, note, patient=patient, stale=stale)
            node = self.runtime.database.read(lambda conn: nodes.load(conn, node_uuid))
            rights.check_owners(context, node.uuid, node.owner, node.lessee)
            holder = holder and self.runtime.workers.charge(holder, node.owner)
            driver = self._driver_of(node, whole=whole)
            task = Task(self.runtime, context, node, driver, held, other_nodes=self)
            # A step on a child node, which has no run of its own, adds to the parent's log.
            with task.journal.gathering(below=node.run_uuid is None):
                yield task
                if task.save_on_release and task.work is None:
                    task.rest()
            if holder is not None and task.work is not None:
                handed_over = True
                self._hand_over(task, held, holder)
        except errors.Unavailable as why:
            doubt = db_retry.outcome_unknown(why)
            raise
        finally:
            if not handed_over:
                try:
                    self._give_back(node_uuid, held, task, give_up=doubt)
                finally:
                    if holder is not None:
                        self.runtime.workers.leave(holder)

    def start(
        self, context: Context, node_uuid: str, act: Callable[[Task], T], *, worker: bool = True
    ) -> T:
        """Run ``act``, which starts work on a node; a worker continues it under the node's lock.

        The first save of ``act`` takes the lock too. So a start costs one transaction. A node that
        is locked, or changes before that save, is locked first; then ``act`` runs (again).

        :param act: reads until it saves; a request to the machine before that makes it run again
            under the lock. It may also delete the node.
        :param worker: as `lock`.
        :raises errors.NodeNotFound, errors.NodeLocked, errors.NoFreeWorker: as `lock`.
        """
        node = self.runtime.database.read(lambda conn: nodes.load(conn, node_uuid))
        rights.check_owners(context, node.uuid, node.owner, node.lessee)
        if node.lock_token is None:
            try:
                return self._start_unlocked(context, node, act, worker=worker)
            except locks.SaveRefused:
                LOG.debug("Node %s changed before its lock was taken; once more", node_uuid)
        with self.lock(context, node_uuid, worker=worker) as task:
            return act(task)

    def _start_unlocked(
        self, context: Context, node: Node, act: Callable[[Task], T], *, worker: bool
    ) -> T:
        """Run ``act`` on a node as just read; its first save takes the lock.

        :raises locks.SaveRefused: this save found a lock or another change, and wrote nothing.
        """
        holder = Holder(node.uuid, node.owner) if worker else None
        if holder is not None:
            self.runtime.workers.claim(reserved=not context.background, holder=holder)
        handed_over = False
        try:
            held = locks.Held.new(node.uuid)
            task = Task(self.runtime, context, node, self.driver(node), held, other_nodes=self)
            found = self._act_unlocked(task, held, act)
            if holder is not None and task.work is not None:
                assert not task.locks_by_save, "work needs a lock, which a save takes"
                handed_over = True
                self._hand_over(task, held, holder)
            elif not task.locks_by_save:
                self._give_back(node.uuid, held, task)
            return found
        finally:
            if holder is not None and not handed_over:
                self.runtime.workers.leave(holder)

    def _act_unlocked(self, task: Task, held: locks.Held, act: Callable[[Task], T]) -> T:
        task.take_lock_by_save(functools.partial(self._lock_values, held, task.context))
        try:
            with task.journal.gathering(below=task.node.run_uuid is None):
                return act(task)
        except BaseException as why:
            doubt = db_retry.outcome_unknown(why)
            if doubt or not task.locks_by_save:
                self._give_back(task.node.uuid, held, task, give_up=doubt)
                raise
            self.locks.drop(held.token)
            if isinstance(why, (errors.NodeLocked, errors.ConcurrentUpdate)):
                raise locks.SaveRefused from why
            raise

    def _lock_values(self, held: locks.Held, context: Context) -> Row:
        """Return the values of a lock's columns; the lock is recorded here before it is stored."""
        self.locks.enter(held)
        expires = clock.after(self.runtime.conf.conductor.heartbeat_timeout)
        note = node_locks.note(context)
        return nodes.held(host=self.runtime.host, token=held.token, expires=expires, note=note)

    def note(self, seen: Task) -> None:
        """Save the changes of a node that was read without its lock, by one statement.

        :raises errors.NodeLocked: the node has a lock.
        :raises errors.Conflict: the node has changed since it was read.
        """
        self._edit_lock(seen, {})

    def go_on(self, seen: Task, work: Work) -> None:
        """Save the changes of a node read without its lock, and take the lock at once.

        Both happen in one statement. A worker then runs ``work`` and releases the lock.

        :raises errors.NodeLocked, errors.Conflict: as `note`.
        :raises errors.NoFreeWorker: nothing has changed.
        """
        holder = Holder(seen.node.uuid, seen.node.owner)
        self.runtime.workers.claim(reserved=False, holder=holder)
        held = locks.Held.new(seen.node.uuid)
        try:
            self._edit_lock(seen, self._lock_values(held, seen.context))
        except BaseException:
            self.locks.drop(held.token)
            self.runtime.workers.leave(holder)
            raise
        task = Task(self.runtime, seen.context, seen.node, seen.driver, held, other_nodes=self)
        task.hand_over(work)
        self._hand_over(task, held, holder)

    def _edit_lock(self, seen: Task, lock: Json) -> None:
        node, stamp, tries = seen.node, clock.now(), itertools.count()
        values = {**node.changes, **lock, "updated_at": stamp}

        def edit(conn: Connection) -> None:
            if next(tries) and nodes.saved(conn, node.uuid, at=stamp):
                return  # the change was made, only the reply was lost
            nodes.edit(conn, node.uuid, values, generation=node.generation)

        db_retry.write_idempotent(self.runtime.database, edit)
        node.settle(**lock, generation=node.generation + 1)

    def look(self, context: Context, node_uuid: str) -> Task:
        """Return a read-only task, without the lock; raises NodeNotFound."""
        return self.view(context, self.runtime.database.read(lambda c: nodes.load(c, node_uuid)))

    def view(self, context: Context, node: Node) -> Task:
        """Return a read-only task for a node that was just read with many others."""
        return Task(self.runtime, context, node, self.driver(node), None, other_nodes=self)

    def tie_power(self, task: Task, target: str, timeout: float | None) -> None:
        """Switch the nodes that share the power of the task's node; see ``flows.power.tie``."""
        power.tie(task, target, timeout)

    def left(self, node: Node) -> nodes.Lease | None:
        """Return the lock of a dead holder, which a new lock may replace.

        The holder is dead if its lease has ended, or if an earlier life of this host took the lock.
        None also for a node with unfinished work, which the recovery sweep continues.
        """
        token = node.lock_token
        if token is None or token in self.held:
            return None
        if node.target_power_state or states.kind(State(node.provision_state)) is Kind.BUSY:
            return None
        if Notes(node).order is not None or Notes(node).untidied:
            return None
        own = node.reservation == self.runtime.host and self.alone
        ended = self.leases.over(token, node.lock_expires) or own
        return nodes.Lease(token, node.lock_expires) if ended else None

    def running_out(self, node: Node) -> bool:
        """Return whether a lock's holder has missed renewals, so its lease may end soon.

        This counts as a look at the lock: see `Leases.silence`.
        """
        token = node.lock_token
        if token is None or token in self.held:
            return False
        missed = 2 * self.runtime.conf.conductor.heartbeat_interval
        silent: float = self.leases.silence(token, node.lock_expires)
        return silent >= float(missed)

    def driver(self, node: Node) -> Driver:
        """Return the interfaces of a node.

        :raises errors.InterfaceNotFound: the node names an interface that is not loaded here.
        """
        return self.runtime.registry.driver_for(
            node.driver, node_interfaces.names(node), node.instance_info
        )

    def lack(self, node: Node) -> errors.Error | None:
        """Return the error of a node's missing interfaces, None if all are loaded here.

        A restarted conductor may enable fewer interfaces than before, or fail to load a driver.
        """
        try:
            self.driver(node)
        except (errors.InvalidRequest, errors.DriverNotFound) as why:
            return why
        return None

    def _driver_of(self, node: Node, *, whole: bool) -> Driver:
        if whole or self.lack(node) is None:
            return self.driver(node)
        return self.runtime.registry.remains(
            node.driver, node_interfaces.names(node), node.instance_info
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

    def _acquire_lock(
        self, node_uuid: str, note: str, *, patient: bool, stale: nodes.Lease | None = None
    ) -> locks.Held:
        held, refusal = self.locks.add(node_uuid), None
        token = held.token
        try:
            with contextlib.closing(self._retries.each(patient=patient)) as tries:
                for _ in tries:
                    if self._take_lock(node_uuid, token, note, stale):
                        return held
                    row = self._lock_row(node_uuid)
                    if row["lock_token"] == token:  # it was taken, only the reply was lost
                        return held
                    refusal = node_locks.refusal(row)
        except BaseException as why:
            self.locks.drop(token)
            if db_retry.outcome_unknown(why):
                self._give_back(node_uuid, held, None)
            raise
        self.locks.drop(token)
        raise refusal or errors.NodeLocked(node=node_uuid, host="unknown")

    def _take_lock(self, node_uuid: str, token: str, note: str, stale: nodes.Lease | None) -> bool:
        take = functools.partial(
            nodes.lock,
            uuid=node_uuid,
            host=self.runtime.host,
            token=token,
            expires=clock.after(self.runtime.conf.conductor.heartbeat_timeout),
            steal=stale,
            note=note,
        )
        return db_retry.write_idempotent(
            self.runtime.database, take
        )  # `_lock_row` shows a lock that is ours

    def _lock_row(self, node_uuid: str) -> Row:
        columns = (*node_locks.COLUMNS, "lock_token")
        return self.runtime.database.read(lambda conn: nodes.get(conn, node_uuid, columns))

    def _give_back(
        self, node_uuid: str, held: locks.Held | None, task: Task | None, *, give_up: bool = False
    ) -> None:
        """Release a lock; a failure does not change what the caller was answered.

        :param held: None: the lock was never ours.
        :param give_up: leave the lock to the recovery sweep, which continues with the node: work is
            left, or it is unknown whether the last change was made.
        """
        if held is None:
            return
        token = held.token
        try:
            if give_up:
                self.locks.drop(token)
                leave = functools.partial(nodes.give_up, host=self.runtime.host, tokens=[token])
                db_retry.write_idempotent(self.runtime.database, leave)
            else:
                self._release_lock(node_uuid, token, task)
        except errors.Unavailable as why:
            LOG.warning(
                "Node %s: the lock was not released and ends with its lease: %s", node_uuid, why
            )

    def _release_lock(self, node_uuid: str, token: str, task: Task | None) -> None:
        self.locks.drop(token)  # first: if the next line fails, the lease must end
        if task is None or task.node.lock_token is not None:
            unlock = functools.partial(nodes.unlock, uuid=node_uuid, token=token)
            db_retry.write_idempotent(self.runtime.database, unlock)
        if task is not None and task.transaction.timer_at is not None:
            self.runtime.timers.set(node_uuid, task.transaction.timer_at)

    def _hand_over(self, task: Task, held: locks.Held, holder: Holder) -> None:
        """Have a worker run the task's work in the slot that ``holder`` has claimed."""
        try:
            held.free_slot = self.runtime.workers.run(
                lambda: self._run_to_end(task, held), holder
            ).free_slot
        except errors.NoFreeWorker as refusal:  # the service has begun to stop
            if task.notes.untidied:  # an accepted abort: the node's next owner cleans up
                self._give_back(task.node.uuid, held, task, give_up=True)
                return
            try:
                failure.undo_start(task, refusal)
            finally:
                self._release_lock(task.node.uuid, held.token, task)
            if states.kind(task.state) is not Kind.BUSY:
                raise

    def _run_to_end(self, task: Task, held: locks.Held) -> None:
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
                self._give_back(task.node.uuid, held, task, give_up=task.notes.untidied)

    def _do_work(self, task: Task) -> None:
        try:
            while task.work is not None:
                work, task.work = task.work, None
                work(task)
            if task.save_on_release:
                task.rest()
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
            extra=run_lines.OMITTED if ours else None,
        )
        self._fail_node(task, error_text.as_error(why))

    def _fail_node(self, task: Task, why: errors.Error) -> None:
        """Put the node into its fail state, without changes that could not be saved.

        If this also fails, the recovery sweep finds the node busy and without a lock.
        """
        lost = task.transaction.unsaved
        try:
            failure.give_up(self._fresh_task(task) if lost else task, why)
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
