"""Logins at BMCs, by classes of sushy.

A module of its own, loaded with sushy at the first login, or at the first answer that is not a JSON
object (`transport.not_json`).
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import sushy
import sushy.auth
import sushy.exceptions

from ironic_lite.core.json_types import Json
from ironic_lite.drivers.redfish.bmc import faults, info, transport

LOG = logging.getLogger(__name__)


class NotJson(sushy.exceptions.SushyError):  # type: ignore[misc]  # sushy ships no types
    """A successful answer is not a JSON object. ``what`` says what it is instead."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


_LONGEST_PATH = 2048


class ServiceRoot(sushy.Sushy):  # type: ignore[misc]  # sushy ships no types
    """A service root that does not log out on garbage collection, which may run in any thread."""

    def __del__(self) -> None:
        pass


class Login(sushy.auth.AuthBase):  # type: ignore[misc]  # sushy ships no types
    """Login at one BMC; sushy calls it after reading the service root."""

    def __init__(self, node: info.RedfishInfo, wire: transport.Wire) -> None:
        super().__init__(node.username, node.password)
        self.session: tuple[str, str] | None = None
        """Path and token of the session, if the BMC returned its path."""
        self.tried_session = False
        self._node, self._wire = node, wire
        self._root: Json = {}

    @property
    def has_root(self) -> bool:
        """Return whether the service root has been read."""
        return bool(self._root)

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
        except sushy.exceptions.ConnectionError as why:
            # A session service that redirects elsewhere is no reason to do without the BMC.
            if node.auth_type == "session" or not isinstance(why.__cause__, transport.WrongTurn):
                raise
            self._wire.use_password(node.username, node.password or "")
        except sushy.exceptions.SushyError as why:
            if node.auth_type == "session" or self._is_wrong_password(why) or _is_early(why):
                raise
            LOG.debug("The BMC at %s opens no session; using passwords.", node.address)
            self._wire.use_password(node.username, node.password or "")

    def _open_session(self, username: str, password: str) -> None:
        """Open a session at the place that the service root names (DSP0266, 13.3.4)."""
        self.tried_session = True
        place = self._named_sessions() or f"{self._node.root_prefix}SessionService/Sessions"
        login = {"UserName": username, "Password": password}
        response = self._wire.send_of_session("POST", place, login)
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

    def _named_sessions(self) -> str | None:
        links = self._root.get("Links")
        sessions = links.get("Sessions") if isinstance(links, dict) else None
        place = sessions.get("@odata.id") if isinstance(sessions, dict) else None
        return place if isinstance(place, str) and place else None


def _is_early(why: sushy.exceptions.SushyError) -> bool:
    """Return whether the BMC wants the login later; too many sessions may last for hours."""
    return faults.retry_after(why) is not None and "SessionLimitExceeded" not in str(
        getattr(why, "body", None)
    )


def _own_path(response: transport.Response) -> str | None:
    try:
        path = response.mapping().get("@odata.id")
    except NotJson:
        return None
    # It is kept with the login.
    return path if isinstance(path, str) and len(path) <= _LONGEST_PATH else None
