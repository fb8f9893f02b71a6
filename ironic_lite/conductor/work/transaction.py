"""The writes of a task: the node, its history and all else in one transaction.

Every write has the condition ``WHERE lock_token = :mine`` (invariant 2), except a first save that
takes the lock: it requires an unlocked node which has not changed since it was read.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.conductor.work import db_retry
from ironic_lite.conductor.work.fence import HeldLock
from ironic_lite.conductor.work.journal import Journal
from ironic_lite.conductor.work.notes import Notes
from ironic_lite.conductor.work.runtime import Runtime
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, parents, run_stops
from ironic_lite.drivers.base import POWER_OFF
from ironic_lite.records import Node

Write = Callable[[Connection], None]
_UNDER_WAY = ("run_uuid", "target_power_state")
"""Columns that become None at the end of a run, and of a power change."""

_TEXTS = ("last_error", "maintenance_reason")
"""Columns of a node with texts of errors."""


class Transaction:
    """The unsaved changes of one task.

    :param token: of the node's lock; None refuses all writes.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: Context,
        node: Node,
        journal: Journal,
        *,
        lock: HeldLock,
        token: str | None,
    ) -> None:
        self.unsaved = False
        """True if a save has failed, so the node here differs from the stored node."""
        self.timer_at: datetime.datetime | None = None
        """The time of this node's timer, set once its lock is released."""
        self._runtime = runtime
        self._context = context
        self._node = node
        self._notes = Notes(node)
        self._journal = journal
        self._lock = lock
        self._token = token
        self._lock_values: Callable[[], Row] | None = None
        self._before: list[Write] = []
        self._after: list[Write] = []
        self._committed: list[Callable[[], None]] = []
        self._write_node: Callable[..., None] = nodes.save
        # As last saved: history and notifications contain the state before.
        self._power = node.power_state
        self._target = node.target_provision_state

    def add_write(self, write: Write, *, first: bool = False) -> None:
        """Run ``write`` in the transaction of the next save, after or before the node's."""
        (self._before if first else self._after).append(write)

    def after_commit(self, act: Callable[[], None]) -> None:
        """Call ``act`` once the next save is committed; it must not fail."""
        self._committed.append(act)

    def take_lock_by_save(self, values: Callable[[], Row]) -> None:
        """Have the next save take the task's lock, by the statement that changes the node.

        That save refuses a node which is locked or has changed since it was read.

        :param values: called at the save; returns the values of the lock's columns.
        """
        self._lock.taken, self._lock_values = False, values

    def save_unless_stopped(self, known: str | None) -> None:
        """Write as `save`, also without changes, unless a client has changed the run's stop.

        :param known: the node's column ``run_stop`` as last read.
        :raises run_stops.StopChanged: nothing was written; the changes are still unsaved.
        """
        self._write_node = functools.partial(run_stops.save, known=known)
        try:
            self.save()
        finally:
            self._write_node = nodes.save

    def save(self, *, release: bool = False) -> None:
        """Write the node's changes and the collected history in one transaction.

        :param release: release the lock by the same statement, if there is anything to write.
        :raises errors.LockLost: zero rows: another conductor has the lock; stop at once.
        :raises errors.NodeLocked, errors.ConcurrentUpdate: see `take_lock_by_save`.
        """
        node, token = self._node, self._held_token()
        if node.changes.get("power_state") == POWER_OFF:
            self._notes.forget_agent(keep_token=True)
        changes = self._masked_changes()
        noted = len(self._journal.events)
        self._note_changes(changes)
        guarded = self._write_node is not nodes.save
        if not (guarded or changes or self._journal.pending or self._after):
            return
        beside = self._columns_beside(changes, release=release)
        if release and not self._journal.pending:
            self._journal.log.drop_minor()
        self._journal.log.prepare(node)
        stamp, tries = clock.now(), itertools.count()

        def write(conn: Connection) -> None:
            if next(tries) and nodes.saved(conn, node.uuid, at=stamp):
                return  # the change was made, only the reply was lost
            for act in self._before:
                act(conn)
            # Also without changes: only the lock's holder may write history.
            self._write_node(conn, node.uuid, {**changes, **beside}, token=token, at=stamp)
            self._journal.write(conn)
            for act in self._after:
                act(conn)
            self._journal.write_events(conn)

        self._commit(write, noted)
        if self._lock_values is not None:
            self._lock.taken, self._lock_values, self._write_node = True, None, nodes.save
        node.settle(**beside)
        self._power = changes.get("power_state", self._power)
        self._send_notifications()
        self._count_committed()
        self._before, self._after, self._committed = [], [], []
        if "wake_at" in changes:
            self.timer_at = node.wake_at
        if any(changes.get(name, "") is None for name in _UNDER_WAY):
            self._runtime.run_ends.signal()

    def _columns_beside(self, changes: Row, *, release: bool) -> Row:
        """Return the columns that a save writes beside the changes: the lock's and the stop."""
        beside: Row = {}
        if self._lock_values is not None:
            assert self._write_node is nodes.save, "a start does not depend on a run's stop"
            beside = self._lock_values()
            generation = self._node.generation
            self._write_node = functools.partial(_write_unlocked, generation=generation)
        if release:
            beside = {**beside, **nodes.FREE}
        if "run_uuid" in changes:  # a stop of the run that has ended
            beside = {**beside, "run_stop": None}
        return beside

    def _commit(self, write: Write, noted: int) -> None:
        """Write, unless the lock is lost; forget events from ``noted`` on if nothing was written.

        The next save adds these events again, because it has the same changes.
        """
        self.unsaved = True
        try:
            self._lock.go_on()
            db_retry.write_idempotent(self._runtime.database, write)
        except BaseException:
            del self._journal.events[noted:]
            raise
        self.unsaved = False

    def _count_committed(self) -> None:
        self._journal.settle()
        for act in self._committed:
            act()

    def destroy(self) -> None:
        """Delete the node, its ports, traits and runs; its events stay.

        Its lock goes with it, and its children have no parent any more.

        :raises errors.LockLost: another conductor has the lock.
        :raises errors.NodeLocked, errors.ConcurrentUpdate: see `take_lock_by_save`.
        """
        node, token = self._node, self._held_token()

        def write(conn: Connection) -> None:
            if not self._lock.taken:  # holds are set by transactions that have locked this row
                nodes.get(conn, node.uuid, ("uuid",), hold=True)
            for act in (*self._before, *self._after):
                act(conn)
            if self._lock.taken:
                nodes.delete(conn, node.uuid, token=token)
            else:
                nodes.delete_unlocked(conn, node.uuid, generation=node.generation)
            children = parents.release(conn, node.uuid)
            self._journal.write(conn)
            self._journal.write_events(conn, lost_parent=children)

        self._runtime.database.write(write)
        node.settle(**nodes.FREE)
        self._send_notifications()
        self._journal.settle()

    def _held_token(self) -> str:
        if self._token is None:
            raise errors.LockLost(node=self._node.uuid)
        return self._token

    def _send_notifications(self) -> None:
        """Send notifications of committed events; requirement S5.29."""
        notifier = self._runtime.notifier
        if notifier.on:
            about = {**self._node.as_dict(), "updated_at": clock.now()}
            told = [self._journal.masked(one) for one in self._journal.events]
            notifier.tell(self._context, told, about, previous_target=self._target)
        self._target = self._node.target_provision_state

    def _masked_changes(self) -> Row:
        """Return the changes, after hiding secrets in texts: BMCs and agents repeat passwords."""
        for name in _TEXTS:
            text = self._node.changes.get(name)
            if text:
                setattr(self._node, name, self._journal.hide(text))
        return self._node.changes

    def _note_changes(self, changes: Row) -> None:
        if "power_state" in changes:
            self._note_power(changes["power_state"])
        self._note_error(changes.get("last_error"))

    def _note_error(self, text: str | None) -> None:
        """Record a changed last_error in history, unless an event already contains it."""
        told = ((one["data"] or {}).get("error") for one in self._journal.events)
        if text and all(not one or self._journal.hide(one) != text for one in told):
            run = self._node.run_uuid
            self._journal.event("fault", run=run, event="error", data={"error": text})

    def _note_power(self, after: str | None) -> None:
        """Record a changed power state in history, whatever changed it."""
        run = self._node.run_uuid
        self._journal.event("power", run=run, event="changed", before=self._power, after=after)


def _write_unlocked(
    conn: Connection,
    node_uuid: str,
    values: RowView,
    *,
    token: str,  # among the values
    at: datetime.datetime,
    generation: int,
) -> None:
    """Write as `nodes.save`, but to a node without a lock; the lock is among the values."""
    nodes.edit(conn, node_uuid, {**values, "updated_at": at}, generation=generation)
