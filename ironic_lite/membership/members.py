"""Living conductors, as one process sees them.

A conductor is alive while it has not signed off and its row keeps changing. `liveness` judges the
changes by this process's monotonic clock. A conductor that this process sees for the first time, or
has not checked for long, is judged by the age of its row. If the clocks of two machines differ by
more than ``[conductor]heartbeat_timeout``, that judgement may be wrong until the conductor's next
heartbeat, or until the timeout has passed.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Sequence

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


def living_hosts(read: Callable[[], Sequence[RowView]], timeout: float) -> list[str]:
    """Return the names of living conductors, for a process that looks only once.

    A heartbeat ahead of this process's clock tells no age. It is watched for up to ``timeout``
    seconds, as that of a dead conductor does not change.

    :param read: returns the rows of the conductors in question.
    """
    membership, first = Membership(timeout), clock.now()
    known: dict[str, datetime.datetime] = {}
    while True:
        living = [row for row in read() if membership.lives(row)]
        certain = [
            row
            for row in living
            if row["updated_at"] <= first
            or known.setdefault(row["hostname"], row["updated_at"]) != row["updated_at"]
        ]
        if certain or not living:
            return [row["hostname"] for row in living]
        time.sleep(_LOOK)


_LOOK = 1.0  # seconds between two looks at a heartbeat


def members(rows: Iterable[RowView]) -> tuple[ring.Member, ...]:
    """Return conductors as members of the ring, dead or alive."""
    return tuple(
        ring.Member(row["hostname"], row["conductor_group"], frozenset(row["hardware_types"]))
        for row in rows
    )
