"""Where a ramdisk agent reports that it lives: POST /v1/heartbeat/{node}, without authentication.

Only the agent that got the node's token is believed; the conductor compares it, and sees to it
that an agent stays where it was first heard. Here its address is looked at: it must be one that a
machine can have.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import re
import time
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.login import strangers
from ironic_lite.api.resources import idents
from ironic_lite.api.service import Service
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.rpc import interface

LOG = logging.getLogger(__name__)

_SINCE = 22
LIMIT = 64
"""KiB of a heartbeat: what it says is kept with the node; a certificate has about one."""
_VERSION_SINCE = 36
_NEWER: Mapping[str, int] = {
    "agent_version": _VERSION_SINCE,
    "agent_token": 62,
    "agent_verify_ca": 68,
    "agent_status": 72,
    "agent_status_message": 72,
}
_STATUSES = ("start", "end", "error")
_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]{1,5})?(/[!-~]*)?", re.ASCII)
_SHOWN = 64  # characters of a stranger's name for a node that a log is given
_NEEDED = ("uuid", "driver", "conductor_group")
_MOST_ROUTES = 100_000
_MOST_ADDRESSES = 10_000  # that are known to be a machine's: an agent says the same again and again


class Heartbeat(strangers.Open):
    """The only thing an agent ever tells us by itself."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        # By UUID: until when it holds, and what leads to the node's conductor.
        self._routes: dict[str, tuple[float, dict[str, Any]]] = {}

    @strangers.counted
    @expose.expose(
        "POST",
        "/heartbeat/{ident}",
        *(types.word,) * 7,
        since=_SINCE,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
        limit=LIMIT,
    )
    def beat(  # noqa: PLR0917  # the keys of the body; called by name
        self,
        request: Request,
        ident: str,
        callback_url: str | None,
        agent_version: str | None = None,
        agent_token: str | None = None,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Take a heartbeat in and hand it to the node's conductor.

        A node that is not there, one that nobody could drive, and a token that is not the node's
        get the same answer.
        """
        if callback_url is None:
            raise errors.MissingParameter(path="callback_url")
        given: dict[str, Any] = {
            "agent_version": agent_version,
            "agent_token": agent_token,
            "agent_verify_ca": agent_verify_ca,
            "agent_status": agent_status,
            "agent_status_message": agent_status_message,
        }
        _check_body(request, given)
        self._check_url(callback_url)
        try:
            self._hand_on(request, ident, callback_url=callback_url, **given)
        except errors.NotFound as why:
            LOG.info("A heartbeat of %s was refused: %s", ascii(ident[:_SHOWN]), why)
            raise errors.InvalidParameter(
                path="agent_token", reason=interface.WRONG_TOKEN
            ) from None

    def _hand_on(self, request: Request, ident: str, **given: str | None) -> None:
        row = self._route(request, ident)
        conductor: Any = self.service.conductor_of(row)
        try:
            conductor.heartbeat(request.who, node_uuid=row["uuid"], **given)
        except errors.Error:
            self._routes.pop(ident, None)
            raise

    def _route(self, request: Request, ident: str) -> dict[str, Any]:
        """Return what leads to a node's conductor; remembered for as long as the fleet is.

        Heartbeats are the most frequent request of all, and these facts hardly ever change. One
        that goes to the wrong conductor for a while is dealt with there as well.
        """
        now = time.monotonic()
        known = self._routes.get(ident)
        if known is not None and now < known[0]:
            return known[1]
        row = idents.fetch(self.service, request, ident, _NEEDED)
        if len(self._routes) >= _MOST_ROUTES:
            self._routes.clear()
        if ident == row["uuid"]:
            keep = self.service.conf.conductor.hash_ring_reset_interval
            self._routes[ident] = now + keep, row
        return row

    def _check_url(self, url: str) -> None:
        """Refuse a URL that is neither empty (an agent without commands) nor of http or https."""
        if not url:
            return
        if not _URL.fullmatch(url):
            raise errors.InvalidParameter(
                path="callback_url", reason="is not a URL of http or https"
            )
        if self.service.conf.agent.require_tls and not url.startswith("https://"):
            raise errors.InvalidParameter(
                path="callback_url",
                reason="must be https; [agent]require_tls = false would let it be http",
            )
        _check_host(url)


@functools.lru_cache(maxsize=_MOST_ADDRESSES)
def _check_host(url: str) -> None:
    """Refuse addresses that are no machine's.

    Over TLS nothing is sent to whoever has not the certificate that comes with the heartbeat. Plain
    http would be sent to anybody, so there a name, which may lead anywhere, is refused as well, and
    so is what listens beside the conductor.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        nowhere = parts.port == 0
    except ValueError as why:
        raise errors.InvalidParameter(path="callback_url", reason=f"is no URL: {why}") from None
    if nowhere:
        raise errors.InvalidParameter(path="callback_url", reason="needs another port than 0")
    try:
        address = ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        if parts.scheme == "http":
            raise errors.InvalidParameter(
                path="callback_url", reason="must have an IP address, or be https"
            ) from None
        return
    address = getattr(address, "ipv4_mapped", None) or address
    local = parts.scheme == "http" and address.is_loopback
    if local or address.is_unspecified or address.is_multicast or address.is_link_local:
        raise errors.InvalidParameter(
            path="callback_url", reason=f"{address} is not an address of a machine"
        )


def _check_body(request: Request, given: Mapping[str, str | None]) -> None:
    for name, since in _NEWER.items():
        if given[name] is not None and request.version < since:
            raise errors.InvalidParameter(path=name, reason=f"needs API version 1.{since} or newer")
    if given["agent_version"] is None and request.version >= _VERSION_SINCE:
        raise errors.MissingParameter(path="agent_version")
    if not given["agent_token"]:
        raise errors.MissingParameter(
            "Missing mandatory parameter: agent_token, which the lookup has handed out.",
            path="agent_token",
        )
    if given["agent_status"] is not None and given["agent_status"] not in _STATUSES:
        reason = f"must be one of {', '.join(_STATUSES)}"
        raise errors.InvalidParameter(path="agent_status", reason=reason)
