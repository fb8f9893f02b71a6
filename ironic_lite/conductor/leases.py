"""Which locks still have somebody behind them: those whose stamp changes with each renewal.

A conductor that is dead, or cannot reach the database, renews nothing. Others see that after
``[conductor]heartbeat_timeout`` seconds of their own, whatever its clock or theirs says.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection

from ironic_lite.db import nodes
from ironic_lite.pulse import Pulses

_STRIDE = 0.25  # of the time-out: after a pause of ours, the living have most of it to renew


class Leases:
    """The leases of others as this conductor has seen them.

    :param timeout: seconds without a renewal after which a lease is over.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._pulses = Pulses(timeout * _STRIDE)

    def silence(self, token: str, expires: datetime.datetime | None) -> float:
        """Look at a lock; return for how many seconds nobody has renewed it."""
        return self._pulses.silence(token, expires)

    def over(self, token: str, expires: datetime.datetime | None) -> bool:
        """Look at a lock; tell whether its lease has ended, or its holder has given it up."""
        return expires == nodes.ENDED or self.silence(token, expires) >= self._timeout

    def keep(self, tokens: Collection[str]) -> None:
        """Forget all locks but these."""
        self._pulses.keep(tokens)
