"""Memory of refused logins, and work at many BMCs at once."""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable

from ironic_lite import errors
from ironic_lite.drivers.redfish.bmc import info

LOG = logging.getLogger(__name__)

REFUSED_SECONDS, REFUSED_LONGEST = 60.0, 300.0
"""First and longest pause in seconds after a refused login; the pause doubles with each refusal.
BMCs lock a user or our address out after three to five wrong passwords within a minute or more."""

_REMEMBERED = 10_000
"""Limit of remembered refused logins."""
_WARNED = 4096
"""Limit of BMCs whose warning is remembered: 2 MiB, as `info` bounds the length of a host."""

_THREADS = 32


def warn(node: info.Info) -> None:
    """Log once for each BMC that its identity is not verified."""
    if node.verify is False and node.address.startswith("https:"):
        _warn_of(node.address)


@functools.lru_cache(maxsize=_WARNED)
def _warn_of(address: str) -> None:
    LOG.warning("The certificate of the BMC at %s is not verified.", address)


class Refusals:
    """Refused logins, which are refused again for a while without asking the BMC."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds."""
        self._clock = clock
        self._guard = threading.Lock()
        # Login key: (time of the next allowed attempt, last pause, the error)
        self._refused: collections.OrderedDict[Hashable, tuple[float, float, errors.Error]] = (
            collections.OrderedDict()
        )

    def check(self, login: Hashable) -> None:
        """Accept a login unless the BMC refused it recently.

        :raises errors.BmcAccessDenied: the BMC refused it; the message has the time of the next
            try.
        """
        if not self._refused:
            return
        with self._guard:
            found = self._refused.get(login)
        if found is None:
            return
        left = found[0] - self._clock()
        if left > 0:
            why = found[2]
            raise errors.BmcAccessDenied(
                f"{why.message} The service does not retry these credentials for "
                f"{max(1, round(left))} s, because the BMC may lock that user out.",
                **why.facts,
            )

    def note(self, login: Hashable, why: errors.Error) -> None:
        """Remember a refusal."""
        with self._guard:
            known = self._refused.pop(login, None)
            pause = min(known[1] * 2, REFUSED_LONGEST) if known else REFUSED_SECONDS
            self._refused[login] = (self._clock() + pause, pause, why)
            if len(self._refused) > _REMEMBERED:
                self._refused.popitem(last=False)

    def forget(self, login: Hashable) -> None:
        """Forget a refusal, because the login works now."""
        if self._refused:
            with self._guard:
                self._refused.pop(login, None)


def together(acts: Iterable[Callable[[], object]], seconds: float) -> None:
    """Run functions in parallel; return when all are done or the time is over.

    If the system has no more threads, the caller's thread runs them. Then the last function that
    begins in time may exceed it.

    :param seconds: the time.
    """
    left = collections.deque(acts)

    def work() -> None:
        with contextlib.suppress(IndexError):
            while time.monotonic() < end:
                left.popleft()()

    end = time.monotonic() + seconds
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_THREADS, len(left)))]
    started = []
    with contextlib.suppress(RuntimeError):  # the system has no more threads
        for thread in threads:
            thread.start()
            started.append(thread)
    if not started:
        work()
    for thread in started:
        thread.join(max(0.0, end - time.monotonic()))
