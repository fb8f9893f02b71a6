"""Which of the registered conductors live, as one process sees them.

A conductor lives if it has not signed off and its row changes: `pulse` judges that by nobody's
clock. Only what a process meets for the first time, or has not looked at for long, is judged by the
age of its row. If two clocks differ by more than ``[conductor]heartbeat_timeout``, that may be
wrong until the conductor's next sign of life, or until it has given none for so long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ironic_lite import clock, ring
from ironic_lite.pulse import Pulses

Row = Mapping[str, Any]


class Roster:
    """Remembers when each conductor gave a sign of life.

    :param timeout: ``[conductor]heartbeat_timeout``, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._pulses = Pulses(timeout)

    def lives(self, row: Row) -> bool:
        """Look at a conductor and tell whether it lives.

        :param row: with hostname, online and updated_at.
        """
        at = row["updated_at"]
        if at is None:
            return False
        silent = self._pulses.silence(row["hostname"], at, clock.lived(at))
        return bool(row["online"]) and silent < self._timeout

    def blind(self) -> None:
        """Note that the database did not answer: nobody was silent meanwhile."""
        self._pulses.blind()

    def living(self, rows: Iterable[Row]) -> tuple[ring.Member, ...]:
        """Return those that live, for the ring.

        :param rows: of ``db.conductors.members``.
        """
        return members(row for row in rows if self.lives(row))


def members(rows: Iterable[Row]) -> tuple[ring.Member, ...]:
    """Return conductors as the ring knows them, dead or alive."""
    return tuple(
        ring.Member(row["hostname"], row["conductor_group"], frozenset(row["hardware_types"]))
        for row in rows
    )
