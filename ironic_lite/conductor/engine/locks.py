"""Locks: those of this conductor, the leases of others, and the fence before each machine.

A lock is a lease with a random token. A conductor renews its leases, watches those of others, and
sends nothing to a machine whose lock it may have lost.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Collection, Generator

from ironic_lite import errors
from ironic_lite.conductor.engine import db_retry
from ironic_lite.conductor.engine.notes import Notes
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.options import ConductorOptions
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.queries import nodes
from ironic_lite.domain import node_locks, states
from ironic_lite.domain.states import Kind, State
from ironic_lite.membership import FailureDetector
from ironic_lite.records import Node

LOG = logging.getLogger(__name__)

# One lock, with the work under it, and retries for taken locks.

MOST_WAITING_CALLS = 32
"""Limit of calls that wait for locks at once: half of the threads that answer calls."""


class Lock:
    """One lock of this conductor, and the progress of the work under it.

    :ivar above: the lock that this one serves, such as the lock of a parent node.
    :ivar progress: changes with each request to a machine, pause and save; it is only compared.
    :ivar ended: the work was given up as hung; its thread must not write or send any more.
    :ivar free_slot: frees the worker slot for other work; None for work without a slot.
    :ivar has_hold: the node had a hold in force when its lock was taken.
    """

    def __init__(self, token: str, node: str) -> None:
        self.token = token
        self.node = node
        self.above: Lock | None = None
        self.progress = 0
        self.ended = False
        self.free_slot: Callable[[], None] | None = None
        self.has_hold = False

    def refuse_hung(self) -> None:
        """Refuse to continue work that was given up as hung.

        :raises errors.LockLost:
        """
        if self.ended:
            raise errors.LockLost(node=self.node)

    def note_progress(self) -> None:
        """Record progress of the work."""
        one: Lock | None = self
        while one is not None:
            one.progress += 1
            one = one.above


class Retries:
    """Attempts to take a lock that another task holds.

    :param settings: the options of ``[conductor]``.
    :param stopping: set when no call may wait any longer.
    """

    def __init__(self, settings: ConductorOptions, stopping: threading.Event) -> None:
        self._settings = settings
        self._stopping = stopping
        self._waiters = threading.BoundedSemaphore(MOST_WAITING_CALLS)

    def each(self, *, patient: bool) -> Generator[None, None, None]:
        """Yield for each attempt to take a lock, with the configured pause in between.

        Each waiting call holds a thread; if too many wait, there is only one attempt.
        """
        yield
        if not patient or not self._waiters.acquire(blocking=False):
            return
        try:
            for _ in range(1, self._settings.node_locked_retry_attempts):
                if self._stopping.wait(self._settings.node_locked_retry_interval):
                    return
                yield
        finally:
            self._waiters.release()


# Liveness of lock holders, seen from stamps that change with each renewal.
#
# A conductor that is dead, or cannot reach the database, renews no lease. Others detect this after
# ``[conductor]heartbeat_timeout`` seconds of their own clock; no other clock counts.
#
# A conductor that recently could not renew its own leases judges no other. Its obstacle, such as a
# full disk, may have stopped the living as well, and a full disk does not prevent reading.

_LONGEST_PAUSE = (
    0.25  # of the time-out: after a pause of ours, living holders have most of it to renew
)
_LATE_INTERVALS = 1.5  # renewal intervals: delay of a renewal on a busy machine


class Leases:
    """The leases of other conductors, as this conductor has seen them.

    :param timeout: seconds without a renewal after which a lease has ended.
    :param every: seconds between two renewals, the same for all conductors.
    :param steady: returns seconds of a clock that cannot be set.
    """

    def __init__(
        self, timeout: float, every: float = 0.0, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._timeout = timeout
        self._steady = steady
        self._pulses = FailureDetector(timeout * _LONGEST_PAUSE)
        # The others were renewed at most one interval before our writes began to fail.
        self._lately = max(timeout - every, every * _LATE_INTERVALS)
        self._renewed: float | None = None

    def silence(self, token: str | None, expires: datetime.datetime | None) -> float:
        """Look at a lock; return the seconds since its last seen renewal."""
        return self._pulses.silence(token, expires)

    def over(self, token: str | None, expires: datetime.datetime | None) -> bool:
        """Look at a lock; return whether its lease has ended or was given up."""
        silent = self.silence(token, expires)
        return expires == nodes.ENDED or (
            silent >= self._timeout and not self._are_renewals_late(self._steady())
        )

    def renewed(self) -> None:
        """Record a renewal of our own leases.

        After a time without renewals the others get the whole time-out again.
        """
        now = self._steady()
        if self._are_renewals_late(now):
            self._pulses.keep(())
        self._renewed = now

    def _are_renewals_late(self, now: float) -> bool:
        """Return whether renewals of our own are overdue; False if they never began."""
        return self._renewed is not None and now - self._renewed >= self._lately

    def keep(self, tokens: Collection[str | None]) -> None:
        """Forget all other locks."""
        self._pulses.keep(tokens)


# The locks of this conductor.

_READ = (*nodes.COLUMNS, "held")


class LockTable:
    """The locks that this conductor holds now, and the ways to take and release them.

    One conditional UPDATE takes a lock (invariant 2), in a transaction that also reads the node. So
    the node cannot change before the work under the lock saves.

    :param settings: the options of ``[conductor]``.
    :param stopping: set when no call may wait for a lock any longer.
    :ivar leases: the locks of other conductors.
    :ivar name_is_ours: all other locks under this name certainly belong to earlier lives.
    """

    def __init__(
        self,
        database: Transactions,
        host: str,
        settings: ConductorOptions,
        stopping: threading.Event,
    ) -> None:
        self.leases = Leases(settings.heartbeat_timeout, settings.heartbeat_interval)
        self.name_is_ours = True
        self._database = database
        self._host = host
        self._settings = settings
        self._retries = Retries(settings, stopping)
        self._held: dict[str, Lock] = {}
        self._unended: list[tuple[Lock, Callable[[Connection], None]]] = []
        self._guard = threading.Lock()

    @property
    def held(self) -> frozenset[str]:
        """The tokens of all locks."""
        with self._guard:
            return frozenset(self._held)

    @property
    def all(self) -> list[Lock]:
        """All locks."""
        with self._guard:
            return list(self._held.values())

    def drop(self, token: str) -> None:
        """Forget a lock: its lease is no longer renewed."""
        with self._guard:
            self._held.pop(token, None)

    def take(
        self, context: Context, node_uuid: str, *, patient: bool, stale: nodes.Lease | None
    ) -> tuple[Lock, Node]:
        """Take a node's lock; return it, and the node as read by the same transaction.

        :param patient: retry as `Retries.each`.
        :param stale: a dead holder's lock, which this one may replace unless it is renewed.
        :raises errors.NodeNotFound, errors.NodeLocked: the latter names the holder.
        """
        lock = Lock(str(uuid.uuid4()), node_uuid)

        def take(conn: Connection) -> Node:
            nodes.lock(
                conn,
                uuid=node_uuid,
                host=self._host,
                token=lock.token,
                expires=clock.after(self._settings.heartbeat_timeout),
                steal=stale,
                note=node_locks.note(context),
            )
            row = nodes.get(conn, node_uuid, _READ)
            lock.has_hold = bool(row.pop("held"))
            return Node.of(row)  # it shows a lock whose reply was lost, too

        with self._guard:  # sweeps find it here before they find it in the database
            self._held[lock.token] = lock
        try:
            with contextlib.closing(self._retries.each(patient=patient)) as tries:
                for _ in tries:
                    node = db_retry.write_idempotent(self._database, take)
                    if node.lock_token == lock.token:
                        return lock, node
            raise node_locks.refusal(node.as_dict())
        except BaseException as why:
            self.drop(lock.token)
            if db_retry.outcome_unknown(why):
                self.release(lock)
            raise

    def release(self, lock: Lock) -> None:
        """Release a lock; no effect if it is lost already.

        Without the database, it is released by `end_left`, or ends with its lease.
        """
        self._end(lock, functools.partial(nodes.unlock, uuid=lock.node, token=lock.token))

    def give_up(self, lock: Lock) -> None:
        """Leave a lock to the recovery sweep, which continues with the node."""
        self._end(lock, functools.partial(nodes.give_up, host=self._host, tokens=[lock.token]))

    def _end(self, lock: Lock, write: Callable[[Connection], None]) -> None:
        self.drop(lock.token)  # first: if the write fails, the lease must end
        try:
            db_retry.write_idempotent(self._database, write)
        except errors.Unavailable as why:
            text = "Node %s: the lock is released when the database can be written again: %s"
            LOG.warning(text, lock.node, why)
            with self._guard:
                self._unended.append((lock, write))

    def end_left(self) -> None:
        """End the locks whose end could not be written, after a write that succeeded."""
        with self._guard:
            left, self._unended = self._unended, []
        for lock, write in left:
            self._end(lock, write)

    def dead_lock(self, node: Node) -> nodes.Lease | None:
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
        own = node.reservation == self._host and self.name_is_ours
        ended = self.leases.over(token, node.lock_expires) or own
        return nodes.Lease(token, node.lock_expires) if ended else None

    def running_out(self, node: Node) -> bool:
        """Return whether a lock's holder has missed renewals, so its lease may end soon.

        This counts as a look at the lock: see `Leases.silence`.
        """
        token = node.lock_token
        if token is None or token in self.held:
            return False
        missed = 2 * self._settings.heartbeat_interval
        silent: float = self.leases.silence(token, node.lock_expires)
        return silent >= float(missed)


# A fence between this conductor and machines whose locks it may have lost.
#
# Other conductors take over a lock that has not been renewed for ``[conductor]heartbeat_timeout``
# seconds. The lock's token protects database writes, but a BMC knows no tokens. So `TaskLock.check`
# precedes every request to a machine. The check costs one reading of the clock while the leases
# were renewed recently. After a pause of the process, or while the database is unavailable, the
# check renews the lease first.
#
# The time counts from before a renewal was sent, so it ends here before it ends for others. It ends
# `MARGIN` earlier still, because a request needs time to reach its machine.

MARGIN = 0.25
"""Share of a lease's time, at its end, in which no request to a machine is begun.

A program that was started before a pause of this process continues to send: ipmitool for up to 12
s.
"""


def steady() -> float:
    """Return seconds of a clock that cannot be set or stopped; it may only run fast."""
    return clock.ahead()


class Fence:
    """The time of the last renewal of this conductor's leases.

    :param timeout: seconds without a renewal after which others may take over a lock.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._usable = timeout * (1 - MARGIN)
        self._renewed_at = self._answered = steady()
        # True once this conductor has given up all its locks.
        self.closed = False

    def close(self) -> None:
        """Forbid all requests to machines, because the locks are about to be given up."""
        self.closed = True

    def renewed(self, began: float) -> None:
        """Record that all locks were ours and are renewed; ``began`` is by `steady`."""
        self._renewed_at = self._answered = began

    def doubt(self, began: float) -> None:
        """Record that some lock was not renewed.

        Each task then renews its own lock before its next request.
        """
        self._renewed_at, self._answered = -math.inf, began

    @property
    def database_replies(self) -> bool:
        """Return whether this process ran recently and the database replied at all."""
        return steady() - self._answered < self._usable

    def holds(self, since: float) -> bool:
        """Return whether a lock that was ours at ``since`` (`steady`) certainly still is."""
        return steady() - max(since, self._renewed_at) < self._usable


class TaskLock:
    """One lock, from the view of its task.

    :param held: None for a read-only task, which needs no lock.
    """

    def __init__(
        self, database: Transactions, fence: Fence, *, host: str, node: str, held: Lock | None
    ) -> None:
        self._database = database
        self._fence = fence
        self._host = host
        self._node = node
        self._held = held
        self._sure = -math.inf  # a lock just taken is at least as recent as the last renewal

    def note_progress(self) -> None:
        """Record progress of the work under this lock."""
        if self._held is not None:
            self._held.note_progress()

    def pause(self, seconds: float, stopping: threading.Event) -> None:
        """Sleep, then confirm the lock.

        :raises errors.Stopping: the service stops.
        :raises errors.LockLost, errors.Unavailable: as `confirm`.
        """
        self.note_progress()
        if stopping.wait(seconds):
            raise errors.Stopping(host=self._host)
        self.check()

    def check(self) -> None:
        """Confirm the lock, if needed, before a request to the machine.

        :raises errors.LockLost, errors.Stopping, errors.Unavailable: as `confirm`.
        """
        if self._held is None:
            return
        self._held.note_progress()
        if not self.sure:
            self.confirm()

    @property
    def sure(self) -> bool:
        """True if the lock is certainly held; the database is not asked."""
        held = self._held
        usable = not self._fence.closed and self._fence.holds(self._sure)
        return held is None or (usable and not held.ended)

    def confirm(self) -> None:
        """Renew the lock; only a renewal keeps other conductors from taking it over.

        :raises errors.LockLost: another conductor now has the node, or this work was given up as
            hung.
        :raises errors.Stopping: this conductor has given up its locks.
        :raises errors.Unavailable: the database is unavailable; a worker waits for it instead.
        """
        for _ in range(_RENEWALS):
            if self._renew_lock():
                return
        raise errors.Unavailable(_LATE_RENEWAL.format(node=self._node))

    def _renew_lock(self) -> bool:
        """Renew the lock; return False if the reply was so late that it may have ended."""
        if self._held is None or self._held.ended:
            raise errors.LockLost(node=self._node)
        if self._fence.closed:
            raise errors.Stopping(host=self._host)
        began, token = steady(), self._held.token
        expires = clock.after(self._fence.timeout)
        ours = self._database.write(
            lambda conn: nodes.renew(conn, host=self._host, tokens=[token], expires=expires)
        )
        if not ours or self._held.ended:
            raise errors.LockLost(node=self._node)
        self._sure = began
        return self._fence.holds(began)


_RENEWALS = 3
_LATE_RENEWAL = (
    "Nothing is sent to the machine of node {node}: the database took longer to renew its lock "
    "than the lock lasts. Raise [conductor]heartbeat_timeout if that is its usual speed."
)
