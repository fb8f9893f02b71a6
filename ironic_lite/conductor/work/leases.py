"""Liveness of lock holders, seen from stamps that change with each renewal.

A conductor that is dead, or cannot reach the database, renews no lease. Others detect this after
``[conductor]heartbeat_timeout`` seconds of their own clock; no other clock counts.

A conductor that recently could not renew its own leases judges no other. Its obstacle, such as a
full disk, may have stopped the living as well, and a full disk does not prevent reading.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection

from ironic_lite.db.queries import nodes
from ironic_lite.membership.liveness import FailureDetector

_STRIDE = 0.25  # of the time-out: after a pause of ours, living holders have most of it to renew
_LATE = 1.5  # renewal intervals: delay of a renewal on a busy machine


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
        self._pulses = FailureDetector(timeout * _STRIDE)
        # The others were renewed at most one interval before our writes began to fail.
        self._lately = max(timeout - every, every * _LATE)
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
