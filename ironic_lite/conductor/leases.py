"""Which locks still have somebody behind them: those whose stamp changes with each renewal.

A conductor that is dead, or cannot reach the database, renews nothing. Others see that after
``[conductor]heartbeat_timeout`` seconds of their own, whatever its clock or theirs says.

Who could not renew its own leases lately judges nobody: what kept it from writing, such as a full
disk, may have kept the living as well, and does not keep anybody from looking.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection

from ironic_lite.db import nodes
from ironic_lite.pulse import Pulses

_STRIDE = 0.25  # of the time-out: after a pause of ours, the living have most of it to renew
_LATE = 1.5  # times the pause between two renewals: so late they may be on a busy machine


class Leases:
    """The leases of others as this conductor has seen them.

    :param timeout: seconds without a renewal after which a lease is over.
    :param every: seconds between two renewals of everybody, ours too.
    :param steady: returns seconds of a clock that nobody can set.
    """

    def __init__(
        self, timeout: float, every: float = 0.0, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._timeout = timeout
        self._steady = steady
        self._pulses = Pulses(timeout * _STRIDE)
        # Others were renewed as long before we were kept from writing as the pause is, at most.
        self._lately = max(timeout - every, every * _LATE)
        self._renewed: float | None = None

    def silence(self, token: str, expires: datetime.datetime | None) -> float:
        """Look at a lock; return for how many seconds nobody has renewed it."""
        return self._pulses.silence(token, expires)

    def over(self, token: str, expires: datetime.datetime | None) -> bool:
        """Look at a lock; tell whether its lease has ended, or its holder has given it up."""
        silent = self.silence(token, expires)
        return expires == nodes.ENDED or (
            silent >= self._timeout and not self._kept(self._steady())
        )

    def renewed(self) -> None:
        """Note that our own leases have been renewed; after a while in which they could not be, the
        others have the whole time anew.
        """
        now = self._steady()
        if self._kept(now):
            self._pulses.keep(())
        self._renewed = now

    def _kept(self, now: float) -> bool:
        """Tell whether we ourselves were kept from renewing; one that never began is not."""
        return self._renewed is not None and now - self._renewed >= self._lately

    def keep(self, tokens: Collection[str]) -> None:
        """Forget all locks but these."""
        self._pulses.keep(tokens)
