"""Retry policy for requests to BMCs."""

from __future__ import annotations

from ironic_lite.core import config
from ironic_lite.drivers.redfish.bmc import faults

BUSY_TRIES = 6
BUSY_SECONDS = 5.0
"""Attempts at a busy BMC, and the first pause in seconds, which doubles each time."""

LONGEST_PAUSE, LONGEST_WAIT = 120.0, 300.0
"""Limits in seconds of one pause that a BMC asks for by Retry-After, and of all in one call."""
_SHORTEST_PAUSE = 1.0


class Tries:
    """The count of attempts in one call."""

    def __init__(self, read: bool) -> None:
        self._read = read
        self._done = 1
        self._busy = 0
        self._login = False
        self._waited = 0.0

    def pause(self, again: faults.Again, *, warm: bool, after: float | None = None) -> float | None:
        """Return the seconds to wait before the next attempt, or None to give up.

        :param after: the pause that the BMC asks for; it has not begun the request.
        """
        if after is not None:
            delay = min(max(after, _SHORTEST_PAUSE), LONGEST_PAUSE)
            self._waited += delay
            return delay if self._waited <= LONGEST_WAIT else None
        if again is faults.Again.LOGIN:
            known, self._login = self._login, True
            return 0 if warm and not known else None
        if again is faults.Again.BUSY:
            self._busy += 1
            delay = BUSY_SECONDS * 2.0 ** (self._busy - 1)
            return delay if self._busy < BUSY_TRIES else None
        allowed = again is faults.Again.ANY or (again is faults.Again.READ and self._read)
        self._done += 1
        if not allowed or self._done > config.CONF.redfish.connection_attempts:
            return None
        interval: float = config.CONF.redfish.connection_retry_interval
        # The cached login may be the whole cause, so a retry with a new login needs no pause.
        return 0 if warm else interval
