"""How to log in to a BMC, and which logins it has refused of late."""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import sushy
import sushy.auth

from ironic_lite import errors
from ironic_lite.drivers.redfish import info

LOG = logging.getLogger(__name__)

REFUSED_SECONDS, REFUSED_LONGEST = 60.0, 300.0
"""A login that was refused is not tried again for so long; this doubles with each refusal. BMCs
lock a user, or our address, out after three to five wrong passwords within a minute or more."""

_REMEMBERED = 10_000
"""Refused logins that are remembered."""


_THREADS = 32


class Root(sushy.Sushy):  # type: ignore[misc]  # sushy ships no types
    """A service root that does not log out when it is collected, in whichever thread that is."""

    def __del__(self) -> None:
        pass


class _NoLogin(sushy.auth.AuthBase):  # type: ignore[misc]  # sushy ships no types
    """For BMCs and emulators without users."""

    def _do_authenticate(self) -> None:
        pass

    def can_refresh_session(self) -> bool:
        return False


def auth(node: info.Info) -> Any:
    """Return what sushy logs in by."""
    if node.username is None:
        return _NoLogin()
    kinds = {
        "auto": sushy.auth.SessionOrBasicAuth,
        "basic": sushy.auth.BasicAuth,
        "session": sushy.auth.SessionAuth,
    }
    return kinds[node.auth_type](node.username, node.password or "")


def warn(node: info.Info) -> None:
    """Say once of each BMC that anybody may pass for it."""
    if node.verify is False and node.address.startswith("https:"):
        _warn_of(node.address)


@functools.lru_cache(maxsize=100_000)
def _warn_of(address: str) -> None:
    LOG.warning("The certificate of the BMC at %s is not verified.", address)


class Refusals:
    """Logins that were refused; for a while, whoever asks is told again without asking the BMC."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` tells seconds."""
        self._clock = clock
        self._guard = threading.Lock()
        # What identifies a login: (when it may be tried again, pause before that, the error)
        self._refused: collections.OrderedDict[Hashable, tuple[float, float, errors.Error]] = (
            collections.OrderedDict()
        )

    def check(self, login: Hashable) -> None:
        """Let a login pass unless it was refused of late.

        :raises errors.BmcAccessDenied: it was; says when it may be tried again.
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
                f"{why.message} It is not asked again for {max(1, round(left))} s with these, lest "
                "it locks that user out.",
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
        """The login works."""
        if self._refused:
            with self._guard:
                self._refused.pop(login, None)


def together(acts: Iterable[Callable[[], object]], seconds: float) -> None:
    """Do things side by side, and return when all are done or the time is over."""
    left = collections.deque(acts)

    def work() -> None:
        with contextlib.suppress(IndexError):
            while time.monotonic() < end:
                left.popleft()()

    end = time.monotonic() + seconds
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_THREADS, len(left)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
