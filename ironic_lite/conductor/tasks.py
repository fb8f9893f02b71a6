"""Where tasks come from: taking a node's lock, giving it back, and keeping leases alive.

A lock is one conditional UPDATE with a random token and an expiry (invariant 2). The keepalive
renews the leases of all tokens held here; a conductor that stops renewing loses them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import uuid
from collections.abc import Iterator

from ironic_lite import clock, errors, fields
from ironic_lite.conductor.desk import Desk
from ironic_lite.conductor.flows import failure
from ironic_lite.conductor.task import Task
from ironic_lite.context import Context
from ironic_lite.db import nodes
from ironic_lite.drivers.base import Driver
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)


class Tasks:
    """The locks this conductor holds."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
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
        stale: str | None = None,
    ) -> Iterator[Task]:
        """Hold a node's lock for the length of the block, or hand it to a worker at its end.

        :param worker: the block may call ``task.hand_over``: a worker's place is claimed first, so
            that a full pool refuses before anything has changed.
        :param patient: retry as ``[conductor]node_locked_retry_*`` says; False: once.
        :param reserved: whether the worker may come out of the reserve.
        :param stale: a dead holder's token, which this lock may replace.
        :raises errors.NodeNotFound:
        :raises errors.NodeLocked: naming the holder.
        :raises errors.NoFreeWorker: nothing has changed.
        """
        if worker:
            self.desk.workers.claim(reserved=reserved)
        handed_over = False
        token = None
        try:
            token = self._acquire(node_uuid, patient=patient, stale=stale)
            node = self.desk.database.read(lambda conn: nodes.load(conn, node_uuid))
            task = Task(self.desk, context, node, self.driver(node), token)
            yield task
            if worker and task.work is not None:
                handed_over = True
                self._hand_over(task, token)
        finally:
            if not handed_over:
                if token is not None:
                    self._release(node_uuid, token)
                if worker:
                    self.desk.workers.leave()

    def look(self, context: Context, node_uuid: str) -> Task:
        """Return a task that only reads; it neither takes nor waits for the lock.

        :raises errors.NodeNotFound:
        """
        node = self.desk.database.read(lambda conn: nodes.load(conn, node_uuid))
        return Task(self.desk, context, node, self.driver(node), None)

    def driver(self, node: Node) -> Driver:
        """Return the interfaces of a node.

        :raises errors.InterfaceNotFound: the node names one that is not loaded here.
        """
        names = {kind: getattr(node, f"{kind}_interface") for kind in fields.INTERFACE_KINDS}
        return self.desk.registry.driver_for(node.driver, names, node.instance_info)

    # -- the lock itself ---------------------------------------------------------------------

    def _acquire(self, node_uuid: str, *, patient: bool, stale: str | None = None) -> str:
        conf = self.desk.conf.conductor
        attempts = conf.node_locked_retry_attempts if patient else 1
        token = str(uuid.uuid4())
        for attempt in range(max(1, attempts)):
            if attempt and self.desk.stopping.wait(conf.node_locked_retry_interval):
                break
            take = functools.partial(
                nodes.lock,
                uuid=node_uuid,
                host=self.desk.host,
                token=token,
                expires=clock.after(conf.heartbeat_timeout),
                steal=stale,
            )
            taken = self.desk.database.write(take)
            if taken:
                with self._guard:
                    self._tokens.add(token)
                return token
        row = self.desk.database.read(
            lambda conn: nodes.get(conn, node_uuid, ("uuid", "reservation"))
        )
        raise errors.NodeLocked(node=node_uuid, host=row["reservation"] or "unknown")

    def _release(self, node_uuid: str, token: str) -> None:
        with self._guard:
            self._tokens.discard(token)
        self.desk.database.write(lambda conn: nodes.unlock(conn, node_uuid, token=token))

    def _hand_over(self, task: Task, token: str) -> None:
        try:
            self.desk.workers.run(lambda: self._work(task, token))
        except errors.NoFreeWorker as refusal:  # the service began to stop a moment ago
            failure.give_up(task, refusal)
            self._release(task.node.uuid, token)
            raise

    def _work(self, task: Task, token: str) -> None:
        """Run handed-over work to its end; whatever happens, the lock is given back."""
        try:
            while task.work is not None:
                work, task.work = task.work, None
                work(task)
        except errors.LockLost:
            LOG.warning("Node %s: the lock was lost, its new owner goes on", task.node.uuid)
        except errors.Stopping:
            LOG.info("Node %s: left for whoever owns it after the stop", task.node.uuid)
        except Exception as why:
            LOG.exception("Node %s: a worker failed", task.node.uuid)
            self._stumble(task, why)
        finally:
            self._release(task.node.uuid, token)

    def _stumble(self, task: Task, why: Exception) -> None:
        """Put a node into its fail state after an error no flow has dealt with."""
        try:
            failure.give_up(task, failure.as_error(why))
        except errors.Error:
            # The recovery sweep finds the node in its busy state without a lock and ends it.
            LOG.exception("Node %s: could not be put into its fail state", task.node.uuid)
