"""Heartbeats of ramdisk agents: POST /v1/heartbeat/{node}, without authentication.

The conductor accepts only the agent that has the node's token, and only at the address of its first
heartbeat. This module checks that the address can be that of a machine.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import ipaddress
import re
import time
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.auth import rate_limit, refused_agents
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose, refusals
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.rpc import interface

_SINCE = 22
LIMIT = 64
"""Largest heartbeat in KiB: it is stored with the node; a certificate has about one KiB."""
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
_SHOWN = 64  # characters of an unauthenticated caller's node name in logs and messages
_NEEDED = ("uuid", "driver", "conductor_group")
_MOST_ROUTES = 100_000
_LONGEST_URL = 2048  # characters


_ARGUMENTS = (types.word,) * 7
_route = functools.partial(
    expose.expose,
    "POST",
    since=_SINCE,
    status=HTTPStatus.ACCEPTED,
    body=expose.TYPED,
    limit=LIMIT,
)


class Heartbeat(rate_limit.Unauthenticated):
    """Heartbeats: the only requests that an agent starts by itself after its lookup."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        # UUID -> end of validity, and the columns that determine the node's conductor.
        self._routes: dict[str, tuple[float, Json]] = {}

    @rate_limit.counted
    @_route("/heartbeat/{ident}", *_ARGUMENTS)
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
        """Check a heartbeat and pass it to the node's conductor.

        The response is the same for a missing node, a node without a conductor and a wrong token.
        """
        values = agent_version, agent_token, agent_verify_ca, agent_status, agent_status_message
        self._accept_heartbeat(request, ident, callback_url, values)

    @rate_limit.counted
    @_route("/heartbeat", *_ARGUMENTS)
    def beat_named(  # noqa: PLR0917  # the keys of the body; called by name
        self,
        request: Request,
        node_ident: str,
        callback_url: str | None,
        agent_version: str | None = None,
        agent_token: str | None = None,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Accept a heartbeat of the node that the body names."""
        values = agent_version, agent_token, agent_verify_ca, agent_status, agent_status_message
        self._accept_heartbeat(request, node_ident, callback_url, values)

    def _accept_heartbeat(
        self,
        request: Request,
        ident: str,
        callback_url: str | None,
        values: tuple[str | None, ...],
    ) -> None:
        """Accept a heartbeat with the values of `_NEWER`."""
        given = dict(zip(_NEWER, values, strict=True))
        if callback_url is None:
            raise errors.MissingParameter(path="callback_url")
        _check_body(request, given)
        self._check_url(callback_url)
        try:
            self._hand_on(request, ident, callback_url=callback_url, **given)
        except errors.NotFound as why:
            missing = isinstance(why, errors.NodeNotFound)
            reason = refused_agents.Reason(
                f"its heartbeat: {'there is no such node' if missing else why}"
            )
            raise errors.InvalidParameter(
                path="agent_token", reason=interface.WRONG_TOKEN
            ) from reason

    def named(self, request: Request, *words: str) -> str:
        """Return the node of the path, or else that of the body or the query.

        A UUID has many forms, such as in capitals; they are one node.
        """
        found = words[0] if words else _ident_beside(request)
        return rules.uuid(found, "node") if rules.uuid_like(found) else found

    def concerned(self, _request: Request, name: str) -> str | None:
        """Return the node of the path or of the body."""
        return name or None

    def doubt(self, request: Request, name: str) -> None:
        """Refuse a wrong token by one read, before all other work."""
        body = request.json
        given = body.get("agent_token") if isinstance(body, dict) else None
        row = node_lookup.fetch(self.service, request, name, ("driver_internal_info",))
        known = (row["driver_internal_info"] or {}).get(interface.TOKEN_NOTE)
        if (
            not isinstance(given, str)
            or not isinstance(known, str)
            or not _same_token(given, known)
        ):
            raise errors.InvalidParameter(path="agent_token", reason=interface.WRONG_TOKEN)

    def _hand_on(self, request: Request, ident: str, **given: Any) -> None:
        row = self._route(request, ident)
        conductor = self.service.conductor_of(row)
        try:
            conductor.heartbeat(request.who, node_uuid=row["uuid"], **given)
        except errors.Error:
            self._routes.pop(ident, None)
            raise

    def _route(self, request: Request, ident: str) -> Json:
        """Return the columns that determine a node's conductor, cached as long as the ring.

        Heartbeats are the most frequent requests, and these columns rarely change. A conductor
        that receives a heartbeat of another conductor's node handles it too.
        """
        now = time.monotonic()
        known = self._routes.get(ident)
        if known is not None and now < known[0]:
            return known[1]
        try:
            row = node_lookup.fetch(self.service, request, ident, _NEEDED)
        except errors.InvalidParameter:  # not a valid name; reported as a missing node
            raise errors.NodeNotFound(node=ident[:_SHOWN]) from None
        if len(self._routes) >= _MOST_ROUTES:
            self._routes.clear()
        if ident == row["uuid"]:
            keep = self.service.conf.conductor.hash_ring_reset_interval
            self._routes[ident] = now + keep, row
        return row

    def _check_url(self, url: str) -> None:
        """Refuse a URL other than http, https, or empty (an agent without commands)."""
        if not url:
            return
        if len(url) > _LONGEST_URL:
            reason = f"has more than {_LONGEST_URL} characters"
            raise errors.InvalidParameter(path="callback_url", reason=reason)
        if not _URL.fullmatch(url):
            raise errors.InvalidParameter(
                path="callback_url", reason="is not a URL of http or https"
            )
        if self.service.conf.agent.require_tls and not url.startswith("https://"):
            raise errors.InvalidParameter(
                path="callback_url",
                reason="must be https; [agent]require_tls = false would allow http",
            )
        _check_host(url)


def _ident_beside(request: Request) -> str:
    """Return the node that the body or the query names, "" without one."""
    with contextlib.suppress(errors.InvalidRequest, refusals.Refusal):  # the method refuses it
        body = request.json
        given = {**request.query, **(body if isinstance(body, dict) else {})}
        found = given.get("node_ident")
        return found if isinstance(found, str) else ""
    return ""


def _same_token(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())


def _check_host(url: str) -> None:
    """Refuse addresses that cannot belong to a machine.

    Over TLS the conductor sends only to the owner of the certificate in the heartbeat. Plain http
    has no such check, so there names are refused, which may resolve to any address, and loopback
    addresses, where other services of the conductor's host listen.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        nowhere = parts.port == 0
    except ValueError as why:
        raise errors.InvalidParameter(path="callback_url", reason=f"is not a URL: {why}") from None
    if nowhere:
        raise errors.InvalidParameter(path="callback_url", reason="must have a port other than 0")
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
            "Missing mandatory parameter: agent_token, which GET /v1/lookup returns.",
            path="agent_token",
        )
    if given["agent_status"] is not None and given["agent_status"] not in _STATUSES:
        reason = f"must be one of {', '.join(_STATUSES)}"
        raise errors.InvalidParameter(path="agent_status", reason=reason)
