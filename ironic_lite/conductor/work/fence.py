"""A fence between this conductor and machines whose locks it may have lost.

Other conductors take over a lock that has not been renewed for ``[conductor]heartbeat_timeout``
seconds. The lock's token protects database writes, but a BMC knows no tokens. So `HeldLock.check`
precedes every request to a machine. The check costs one reading of the clock while the leases were
renewed recently. After a pause of the process, or while the database is unavailable, the check
renews the lease first.

The time counts from before a renewal was sent, so it ends here before it ends for others. It ends
`MARGIN` earlier still, because a request needs time to reach its machine.
"""

from __future__ import annotations

import math
import threading

from ironic_lite import errors
from ironic_lite.conductor.work.locks import Held, SaveRefused
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Transactions
from ironic_lite.db.queries import nodes

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
        self._renew_lock = self._answered = steady()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Return whether this conductor has given up all its locks."""
        return self._closed

    def close(self) -> None:
        """Forbid all requests to machines, because the locks are about to be given up."""
        self._closed = True

    def renewed(self, began: float) -> None:
        """Record that all locks were ours and are renewed; ``began`` is by `steady`."""
        self._renew_lock = self._answered = began

    def doubt(self, began: float) -> None:
        """Record that some lock was not renewed.

        Each task then renews its own lock before its next request.
        """
        self._renew_lock, self._answered = -math.inf, began

    @property
    def database_replies(self) -> bool:
        """Return whether this process ran recently and the database replied at all."""
        return steady() - self._answered < self._usable

    def holds(self, since: float) -> bool:
        """Return whether a lock that was ours at ``since`` (`steady`) certainly still is."""
        return steady() - max(since, self._renew_lock) < self._usable


class HeldLock:
    """One lock, from the view of its task.

    :param held: None for a read-only task, which needs no lock.
    :ivar taken: False while the lock is still to be taken by the first save.
    """

    def __init__(
        self, database: Transactions, fence: Fence, *, host: str, node: str, held: Held | None
    ) -> None:
        self._database = database
        self._fence = fence
        self._host = host
        self._node = node
        self._held = held
        self.taken = True
        self._sure = -math.inf  # a lock just taken is at least as recent as the last renewal

    def go_on(self) -> None:
        """Record progress of the work under this lock."""
        if self._held is not None:
            self._held.go_on()

    def pause(self, seconds: float, stopping: threading.Event) -> None:
        """Sleep, then confirm the lock.

        :raises errors.Stopping: the service stops.
        :raises errors.LockLost, errors.Unavailable: as `confirm`.
        """
        self.go_on()
        if stopping.wait(seconds):
            raise errors.Stopping(host=self._host)
        self.require()

    def require(self) -> None:
        """Confirm the lock as `check`; it must have been taken.

        :raises SaveRefused: the lock is still to be taken, so the machine may not be asked.
        """
        if not self.taken:
            raise SaveRefused
        self.check()

    def check(self) -> None:
        """Confirm the lock, if needed, before a request to the machine.

        :raises errors.LockLost, errors.Stopping, errors.Unavailable: as `confirm`.
        """
        if self._held is None or not self.taken:
            return
        self._held.go_on()
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
        for _ in range(_TRIES):
            if self._renew_lock():
                return
        raise errors.Unavailable(_LATE.format(node=self._node))

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


_TRIES = 3
_LATE = (
    "Nothing is sent to the machine of node {node}: the database took longer to renew its lock "
    "than the lock lasts. Raise [conductor]heartbeat_timeout if that is its usual speed."
)
