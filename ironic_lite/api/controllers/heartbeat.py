"""Where a ramdisk agent reports that it lives: POST /v1/heartbeat/{node}, without authentication.

Only the agent that got the node's token is believed; the conductor compares it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api import expose, idents, types
from ironic_lite.api.exchange import Request

_SINCE = 22
_VERSION_SINCE = 36
_NEWER: Mapping[str, int] = {
    "agent_version": _VERSION_SINCE,
    "agent_token": 62,
    "agent_verify_ca": 68,
    "agent_status": 72,
    "agent_status_message": 72,
}
_STATUSES = ("start", "end", "error")
_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]{1,5})?(/[^\s]*)?", re.ASCII)
_NEEDED = ("uuid", "driver", "conductor_group", "driver_internal_info")


class Heartbeat(expose.Controller):
    """The only thing an agent ever tells us by itself."""

    @expose.expose(
        "POST",
        "/heartbeat/{ident}",
        *(types.word,) * 7,
        since=_SINCE,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
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
        """Take a heartbeat in and hand it to the node's conductor."""
        if not self.service.conf.api.enable_ramdisk_endpoints:
            raise errors.Forbidden(what="the endpoints of ramdisk agents")
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
        row = idents.fetch(self.service, request, ident, _NEEDED)
        _check_unmoved(row["driver_internal_info"], callback_url)
        conductor = self.service.client.conductor(self.service.fleet.host_for(row))
        conductor.heartbeat(request.who, node_uuid=row["uuid"], callback_url=callback_url, **given)

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


def _check_unmoved(notes: Mapping[str, Any] | None, url: str) -> None:
    """Refuse another agent than the one known until its machine has been started anew."""
    known = (notes or {}).get("agent_url")
    if known and url and url != known:
        reason = "is not the one this node's agent has given before"
        raise errors.InvalidParameter(path="callback_url", reason=reason)


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
