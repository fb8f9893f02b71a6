"""Retry policy for requests to BMCs."""

from __future__ import annotations

from ironic_lite.core import config
from ironic_lite.drivers.redfish.bmc import faults

BUSY_TRIES = 6
BUSY_SECONDS = 5.0
"""Attempts at a busy BMC, and the first pause in seconds, which doubles each time."""


class Tries:
    """The count of attempts in one call."""

    def __init__(self, read: bool) -> None:
        self._read = read
        self._done = 1
        self._busy = 0
        self._login = False

    def pause(self, again: faults.Again, *, warm: bool) -> float | None:
        """Return the seconds to wait before the next attempt, or None to give up."""
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
