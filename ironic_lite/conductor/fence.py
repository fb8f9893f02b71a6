"""What a conductor still believes of its locks after it was paused: nothing, until it has asked.

Others take a lock over when nobody has renewed it for ``[conductor]heartbeat_timeout`` seconds.
Whoever was stopped for that long finds out here, before it touches a machine: writes are safe by
the lock's token, but no BMC knows of tokens. It is asked only after a pause, by a clock that goes
on while the process does not; else it costs no statement.
"""

from __future__ import annotations

from ironic_lite import clock, errors
from ironic_lite.db import nodes
from ironic_lite.db.session import Database


def steady() -> float:
    """Return seconds of a clock that nobody can set or stop."""
    return clock.steady()


class Fence:
    """When this conductor's leases were last renewed.

    :param timeout: seconds without a renewal after which others may take a lock over.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._renewed = steady()

    def renewed(self, began: float) -> None:
        """Note that all locks were found to be ours, and renewed; ``began`` is by `steady`."""
        self._renewed = began

    def doubt(self) -> None:
        """Note that not all of them were: whoever works asks for its own."""
        self._renewed = 0.0

    def holds(self, since: float) -> bool:
        """Tell whether nobody can have taken a lock that was ours at ``since``, by `steady`."""
        return steady() - max(since, self._renewed) < self._timeout


class Hold:
    """One lock, as its task knows it.

    :param token: None for a task that only looks: it needs no lock.
    """

    def __init__(self, database: Database, fence: Fence, node: str, token: str | None) -> None:
        self._database = database
        self._fence = fence
        self._node = node
        self._token = token
        self._sure = 0.0  # a lock just taken is as good as the last renewal: none is older

    def check(self) -> None:
        """Make sure of the lock before a driver is called, if it may have been lost meanwhile.

        :raises errors.LockLost: as `confirm`.
        """
        if self._token is not None and not self._fence.holds(self._sure):
            self.confirm()

    def confirm(self) -> None:
        """Ask for the lock.

        :raises errors.LockLost: another conductor has the node now, and works on the machine.
        """
        began = steady()
        columns = ("uuid", "lock_token")
        found = self._database.read(lambda conn: nodes.get(conn, self._node, columns))
        if self._token is None or found["lock_token"] != self._token:
            raise errors.LockLost(node=self._node)
        self._sure = began
