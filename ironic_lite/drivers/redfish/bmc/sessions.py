"""Login at a BMC by session or password, and the memory of refused logins."""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from http import HTTPStatus
from typing import Any

import sushy
import sushy.auth
import sushy.exceptions

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers.redfish.bmc import info, transport

LOG = logging.getLogger(__name__)

REFUSED_SECONDS, REFUSED_LONGEST = 60.0, 300.0
"""First and longest pause in seconds after a refused login; the pause doubles with each refusal.
BMCs lock a user or our address out after three to five wrong passwords within a minute or more."""

_REMEMBERED = 10_000
"""Limit of remembered refused logins."""
_WARNED = 4096
"""Limit of BMCs whose warning is remembered: 2 MiB, as `info` bounds the length of a host."""

_THREADS = 32


class Root(sushy.Sushy):  # type: ignore[misc]  # sushy ships no types
    """A service root that does not log out on garbage collection, which may run in any thread."""

    def __del__(self) -> None:
        pass


class Login(sushy.auth.AuthBase):  # type: ignore[misc]  # sushy ships no types
    """Login at one BMC; sushy calls it after reading the service root."""

    def __init__(self, node: info.Info, wire: transport.Wire) -> None:
        super().__init__(node.username, node.password)
        self.session: tuple[str, str] | None = None
        """Path and token of the session, if the BMC returned its path."""
        self.tried_session = False
        self._node, self._wire = node, wire
        self._root: Json = {}

    def set_context(self, root_resource: Any, connector: Any) -> None:
        """Take the service root from sushy."""
        super().set_context(root_resource, connector)
        self._root = root_resource.json

    def can_refresh_session(self) -> bool:
        """Return False: `connection` renews logins."""
        return False

    def _do_authenticate(self) -> None:
        """Log in.

        :raises sushy.exceptions.SushyError: no answer, or a refusal.
        """
        node = self._node
        if node.username is None:
            return
        if node.auth_type == "basic":
            self._wire.use_password(node.username, node.password or "")
            return
        try:
            self._open_session(node.username, node.password or "")
        except sushy.exceptions.ConnectionError:
            raise
        except sushy.exceptions.SushyError as why:
            if node.auth_type == "session" or self._is_wrong_password(why):
                raise
            LOG.debug("The BMC at %s opens no session; using passwords.", node.address)
            self._wire.use_password(node.username, node.password or "")

    def _open_session(self, username: str, password: str) -> None:
        """Open a session at the place that the service root names (DSP0266, 13.3.4)."""
        self.tried_session = True
        place = self._sessions_path()
        response = self._wire.post(place, data={"UserName": username, "Password": password})
        token = response.headers.get("X-Auth-Token")
        if token is None:
            raise sushy.exceptions.MissingXAuthToken("POST", response.url, response)
        path = response.headers.get("Location") or _own_path(response)
        self._wire.use_token(token)
        self.session = (path, token) if path else None

    def _is_wrong_password(self, why: sushy.exceptions.SushyError) -> bool:
        """Return whether a session was refused for the password, which is then wrong for all.

        A second refused login would bring a lock-out closer. A service that names no sessions may
        refuse every request without a password.
        """
        named = self._named_sessions() is not None or "SessionService" in self._root
        return named and getattr(why, "status_code", None) == HTTPStatus.UNAUTHORIZED

    def _sessions_path(self) -> str:
        return self._named_sessions() or f"{self._node.root_prefix}SessionService/Sessions"

    def _named_sessions(self) -> str | None:
        links = self._root.get("Links")
        sessions = links.get("Sessions") if isinstance(links, dict) else None
        place = sessions.get("@odata.id") if isinstance(sessions, dict) else None
        return place if isinstance(place, str) and place else None


def _own_path(response: transport.Response) -> str | None:
    try:
        path = response.mapping().get("@odata.id")
    except transport.NotJson:
        return None
    return path if isinstance(path, str) else None


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
    """Run functions in parallel; return when all are done or the time is over."""
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
