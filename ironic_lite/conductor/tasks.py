"""Where tasks come from: taking a node's lock, giving it back, and keeping leases alive.

A lock is one conditional UPDATE with a random token and an expiry (invariant 2). The keepalive
renews the leases of all tokens held here; a conductor that stops renewing loses them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import operator
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from ironic_lite import clock, context, errors, fields, states
from ironic_lite.conductor import outage
from ironic_lite.conductor.desk import Desk
from ironic_lite.conductor.flows import failure, faults
from ironic_lite.conductor.leases import Leases
from ironic_lite.conductor.notes import Notes
from ironic_lite.conductor.task import Task, Work
from ironic_lite.context import Context
from ironic_lite.db import nodes
from ironic_lite.db.session import Connection
from ironic_lite.drivers.base import Driver
from ironic_lite.records import Node
from ironic_lite.states import Kind, State

LOG = logging.getLogger(__name__)

_INTERFACES = operator.itemgetter(*(f"{kind}_interface" for kind in fields.INTERFACE_KINDS))


class Tasks:
    """The locks this conductor holds."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        settings = desk.conf.conductor
        self.leases = Leases(settings.heartbeat_timeout, settings.heartbeat_interval)
        self._tokens: set[str] = set()
        self._guard = threading.Lock()

    @property
    def held(self) -> frozenset[str]:
        """The tokens of all locks held now."""
        with self._guard:
            return frozenset(self._tokens)

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
        """Hold a node's lock for the length of the block, or hand it to a worker at its end.

        :param worker: the block may call ``task.hand_over``: a worker's place is claimed first, so
            that a full pool refuses before anything has changed.
        :param patient: retry as ``[conductor]node_locked_retry_*`` says; False: once.
        :param reserved: whether the worker may come out of the reserve.
        :param stale: a dead holder's lock, which this one may replace unless it is renewed.
        :param whole: refuse a node whose interfaces are not all here; False: what is missing (see
            ``lack``) refuses to be called, and the node can be put away.
        :raises errors.NodeNotFound:
        :raises errors.NodeLocked: naming the holder.
        :raises errors.NoFreeWorker: nothing has changed.
        """
        if worker:
            self.desk.workers.claim(reserved=reserved)
        handed_over = False
        token = task = None
        doubt = False
        try:
            token = self._acquire(node_uuid, patient=patient, stale=stale)
            node = self.desk.database.read(lambda conn: nodes.load(conn, node_uuid))
            driver = self._driver(node, whole=whole)
            task = Task(self.desk, context, node, driver, token, others=self)
            yield task
            if task.resting and task.work is None:
                _rest(task)
            if worker and task.work is not None:
                handed_over = True
                self._hand_over(task, token)
        except errors.Unavailable as why:
            doubt = outage.doubtful(why)
            raise
        finally:
            if not handed_over:
                try:
                    self._give_back(node_uuid, token, task, doubt=doubt)
                finally:
                    if worker:
                        self.desk.workers.leave()

    def note(self, seen: Task) -> None:
        """Save what changed on a node that was looked at: one statement, and no lock to be taken.

        :raises errors.NodeLocked: somebody works on the node.
        :raises errors.Conflict: it has changed since it was looked at.
        """
        self._edit(seen, {})

    def go_on(self, seen: Task, work: Work) -> None:
        """Save what changed on a node that was looked at and take its lock, by one statement; then
        let a worker do ``work`` and give the lock back.

        :raises errors.NodeLocked, errors.Conflict: as `note`.
        :raises errors.NoFreeWorker: nothing has changed.
        """
        self.desk.workers.claim(reserved=False)
        token = str(uuid.uuid4())
        with self._guard:
            self._tokens.add(token)
        try:
            expires = clock.after(self.desk.conf.conductor.heartbeat_timeout)
            lock = {"reservation": self.desk.host, "lock_token": token, "lock_expires": expires}
            self._edit(seen, lock)
        except BaseException:
            self._forget(token)
            self.desk.workers.leave()
            raise
        task = Task(self.desk, seen.context, seen.node, seen.driver, token, others=self)
        task.hand_over(work)
        self._hand_over(task, token)

    def _edit(self, seen: Task, lock: dict[str, Any]) -> None:
        node, stamp, tries = seen.node, clock.now(), itertools.count()
        values = {**node.changes, **lock, "updated_at": stamp}

        def edit(conn: Connection) -> None:
            if next(tries) and nodes.saved(conn, node.uuid, at=stamp):
                return  # the change was made, and only its answer is lost
            nodes.edit(conn, node.uuid, values, generation=node.generation)

        outage.certain(self.desk.database, edit)
        node.settle(**lock, generation=node.generation + 1)

    def look(self, context: Context, node_uuid: str) -> Task:
        """Return a task that only reads; it neither takes nor waits for the lock.

        :raises errors.NodeNotFound:
        """
        return self.view(context, self.desk.database.read(lambda c: nodes.load(c, node_uuid)))

    def view(self, context: Context, node: Node) -> Task:
        """Return a task that only reads, of a node that has just been read with many others."""
        return Task(self.desk, context, node, self.driver(node), None, others=self)

    def left(self, node: Node) -> nodes.Lease | None:
        """Return the lock of a holder that is dead, as a new one may replace it.

        Its lease has ended, or an earlier life of this host took it. None also if the node was in
        the middle of something: then it waits for the sweep that goes on with that.
        """
        token = node.lock_token
        if token is None or token in self.held:
            return None
        if node.target_power_state or states.kind(State(node.provision_state)) is Kind.BUSY:
            return None
        if Notes(node).order is not None or Notes(node).untidied:
            return None
        own = node.reservation == self.desk.host
        ended = self.leases.over(token, node.lock_expires) or own
        return nodes.Lease(token, node.lock_expires) if ended else None

    def running_out(self, node: Node) -> bool:
        """Tell whether a lock's holder has missed renewals: then it is worth waiting for its end.

        A look at the node: `left` and this are told apart by how long nobody has renewed it.
        """
        token = node.lock_token
        if token is None or token in self.held:
            return False
        missed = 2 * self.desk.conf.conductor.heartbeat_interval
        silent: float = self.leases.silence(token, node.lock_expires)
        return silent >= float(missed)

    def driver(self, node: Node) -> Driver:
        """Return the interfaces of a node.

        :raises errors.InterfaceNotFound: the node names one that is not loaded here.
        """
        return self.desk.registry.driver_for(node.driver, _names(node), node.instance_info)

    def lack(self, node: Node) -> errors.Error | None:
        """Return why a node's interfaces are not all here, None if they are.

        A restarted conductor may enable less than before, or fail to load a driver.
        """
        try:
            self.driver(node)
        except (errors.InvalidRequest, errors.DriverNotFound) as why:
            return why
        return None

    def _driver(self, node: Node, *, whole: bool) -> Driver:
        if whole or self.lack(node) is None:
            return self.driver(node)
        return self.desk.registry.remains(node.driver, _names(node), node.instance_info)

    # -- the lock itself ---------------------------------------------------------------------

    def _acquire(self, node_uuid: str, *, patient: bool, stale: nodes.Lease | None = None) -> str:
        conf = self.desk.conf.conductor
        attempts = conf.node_locked_retry_attempts if patient else 1
        token, holder = str(uuid.uuid4()), None
        # Known as ours before it is in the table, where the recovery sweep may find it at once.
        with self._guard:
            self._tokens.add(token)
        try:
            for attempt in range(max(1, attempts)):
                if attempt and self.desk.stopping.wait(conf.node_locked_retry_interval):
                    break
                if self._take(node_uuid, token, stale):
                    return token
                holder, owner = self._holder(node_uuid)
                if owner == token:  # it was taken, and only the answer to that was lost
                    return token
        except BaseException as why:
            self._forget(token)
            if outage.doubtful(why):
                self._give_back(node_uuid, token, None)
            raise
        self._forget(token)
        raise errors.NodeLocked(node=node_uuid, host=holder or "unknown")

    def _take(self, node_uuid: str, token: str, stale: nodes.Lease | None) -> bool:
        take = functools.partial(
            nodes.lock,
            uuid=node_uuid,
            host=self.desk.host,
            token=token,
            expires=clock.after(self.desk.conf.conductor.heartbeat_timeout),
            steal=stale,
        )
        return outage.certain(self.desk.database, take)  # a lock that is ours shows in `_holder`

    def _holder(self, node_uuid: str) -> tuple[str | None, str | None]:
        columns = ("reservation", "lock_token")
        row = self.desk.database.read(lambda conn: nodes.get(conn, node_uuid, columns))
        return row["reservation"], row["lock_token"]

    def _forget(self, token: str) -> None:
        with self._guard:
            self._tokens.discard(token)

    def _give_back(
        self, node_uuid: str, token: str | None, task: Task | None, *, doubt: bool = False
    ) -> None:
        """Release a lock that a caller has waited for: what he was told does not change by this.

        :param token: None: it has never been ours.
        :param doubt: nobody knows whether the last change was made. If it was, somebody has to go
            on with it: whoever finds the lock as one that nobody holds any more.
        """
        if token is None:
            return
        try:
            if doubt:
                self._forget(token)
                give_up = functools.partial(nodes.give_up, host=self.desk.host, tokens=[token])
                outage.certain(self.desk.database, give_up)
            else:
                self._release(node_uuid, token, task)
        except errors.Unavailable as why:
            LOG.warning("Node %s: its lease ends by itself: %s", node_uuid, why)

    def _release(self, node_uuid: str, token: str, task: Task | None) -> None:
        self._forget(token)  # first: if the next line fails, the lease must run out
        if task is None or task.node.lock_token is not None:
            unlock = functools.partial(nodes.unlock, uuid=node_uuid, token=token)
            outage.certain(self.desk.database, unlock)
        if task is not None and task.ring_at is not None:
            self.desk.alarm.set(node_uuid, task.ring_at)

    def _hand_over(self, task: Task, token: str) -> None:
        try:
            self.desk.workers.run(lambda: self._outlasting(task, token))
        except errors.NoFreeWorker as refusal:  # the service began to stop a moment ago
            if task.notes.untidied:  # an abort that was accepted; the lease ends, and it is found
                self._forget(token)
                return
            try:
                failure.turn_away(task, refusal)
            finally:
                self._release(task.node.uuid, token, task)
            if states.kind(task.state) is not Kind.BUSY:
                raise

    def _outlasting(self, task: Task, token: str) -> None:
        """Do handed-over work; a database that is away meanwhile is waited for."""
        try:
            with outage.outlasted():
                self._work(task, token)
        except errors.Stopping as why:
            LOG.info("Node %s: its lease ends by itself: %s", task.node.uuid, why)

    def _work(self, task: Task, token: str) -> None:
        """Run handed-over work to its end; whatever happens, the lock is given back."""
        context.enter(task.context)  # what a sweep hands over has an id of its own
        try:
            while task.work is not None:
                work, task.work = task.work, None
                work(task)
            if task.resting:
                _rest(task)
        except Exception as why:
            self._end(task, token, why)
        finally:
            self._release(task.node.uuid, token, task)

    def _end(self, task: Task, token: str, why: Exception) -> None:
        """Deal with what stopped a flow: a node that is ours goes into its fail state."""
        node = task.node.uuid
        if isinstance(why, errors.LockLost):
            LOG.warning("Node %s: the lock was lost, its new owner goes on", node)
            return
        if isinstance(why, errors.Stopping):
            LOG.info("Node %s: left for whoever owns it after the stop", node)
            return
        ours = isinstance(why, errors.Error)
        LOG.warning("Node %s: %s", node, why, exc_info=None if ours else why)
        self._fail(task, token, faults.as_error(why))

    def _fail(self, task: Task, token: str, why: errors.Error) -> None:
        """Give up: without what could not be saved, which must not keep a node from its fail state.

        If even that fails, the recovery sweep finds the node busy and without a lock.
        """
        lost = task.unsaved
        try:
            failure.give_up(self._afresh(task, token) if lost else task, why)
        except Exception:
            LOG.exception("Node %s: could not be put into its fail state", task.node.uuid)
            if task.unsaved and not lost:
                self._fail(task, token, why)

    def _afresh(self, task: Task, token: str) -> Task:
        """Return a task on the node as it stands in the table, without what could not be saved."""
        node = self.desk.database.read(lambda conn: nodes.load(conn, task.node.uuid))
        return Task(self.desk, task.context, node, task.driver, token, others=self)


def _rest(task: Task) -> None:
    """Save what a look at a waiting node has found, and give its lock back by the same statement.

    A database that is too busy for that ends no run: it is as if the conductor had died before it
    looked, and whoever looks next finds the same.
    """
    try:
        task.save(release=True)
    except errors.Unavailable as why:
        LOG.warning("Node %s: nothing is noted of a look at it: %s", task.node.uuid, why)


def _names(node: Node) -> dict[str, str | None]:
    """Return the interface names of a node by kind."""
    return dict(zip(fields.INTERFACE_KINDS, _INTERFACES(node.as_dict()), strict=True))
