"""Living conductors, as one process sees them.

A conductor is alive while it has not signed off and its row keeps changing. `liveness` judges the
changes by this process's monotonic clock. A conductor that this process sees for the first time, or
has not checked for long, is judged by the age of its row. If the clocks of two machines differ by
more than ``[conductor]heartbeat_timeout``, that judgement may be wrong until the conductor's next
heartbeat, or until the timeout has passed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ironic_lite.core import clock
from ironic_lite.core.json_types import RowView
from ironic_lite.membership import ring
from ironic_lite.membership.liveness import FailureDetector


class Membership:
    """Memory of each conductor's last heartbeat.

    :param timeout: ``[conductor]heartbeat_timeout``, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._pulses = FailureDetector(timeout)

    def lives(self, row: RowView) -> bool:
        """Check a conductor's row and return whether the conductor is alive.

        :param row: with hostname, online and updated_at.
        """
        at = row["updated_at"]
        if at is None:
            return False
        silent = self._pulses.silence(row["hostname"], at, clock.lived(at))
        return bool(row["online"]) and silent < self._timeout

    def blind(self) -> None:
        """Record that the database did not answer; this time is no conductor's silence."""
        self._pulses.blind()

    def living(self, rows: Iterable[RowView]) -> tuple[ring.Member, ...]:
        """Return the living conductors, for the ring.

        :param rows: of ``db.queries.conductors.members``.
        """
        return members(row for row in rows if self.lives(row))


def members(rows: Iterable[RowView]) -> tuple[ring.Member, ...]:
    """Return conductors as members of the ring, dead or alive."""
    return tuple(
        ring.Member(row["hostname"], row["conductor_group"], frozenset(row["hardware_types"]))
        for row in rows
    )
