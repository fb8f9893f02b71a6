"""Requests of ramdisk agents, without authentication: GET /v1/lookup, POST /v1/heartbeat/{node}."""

from __future__ import annotations

import contextlib
import functools
import hmac
import ipaddress
import re
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.auth import failed_attempts
from ironic_lite.api.http import expose, refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import node_lookup, queries, views
from ironic_lite.api.validation import rules
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, ports
from ironic_lite.db.queries.resources import is_uuid
from ironic_lite.domain import erasure_results, fast_track, states, vocabulary, waiting
from ironic_lite.domain.states import Kind, State
from ironic_lite.rpc import contract

LOOKUP_SINCE = 22
_LOOKUP_ARGUMENTS = ("addresses", "node_uuid")
_TOKEN_SINCE = 62
_MOST_LISTED = 5  # nodes
_AGENT_FIELDS = ("uuid", "properties", "instance_info", "driver_internal_info")
_NOTES = "driver_notes"  # key of driver_internal_info where drivers store their notes
_OF_INSTANCE = ("root_device", "capabilities", "deploy_boot_mode")
"""Keys of instance_info that an agent reads before a command sends it the node."""
_BY_REDFISH = ("redfish", "idrac-redfish")
"""Management interfaces that use the BMC out-of-band."""
_OF_NOTES = (
    *("agent_continue_if_", "agent_enable_", "agent_erase_", "disk_erasure_concurrency"),
    vocabulary.DEPLOYED_MODE,
)
"""Prefixes of keys of driver_internal_info for agents: erasing, and the boot mode."""
LOOKUP_COLUMNS = (
    *(*_AGENT_FIELDS, "driver", "driver_info", "conductor_group"),
    *("provision_state", "management_interface", "reservation", "generation"),
)
"""Columns of a node that a lookup reads."""


class Lookup(failed_attempts.Unauthenticated):
    """The document with an agent's node, its settings and, once, its token."""

    @failed_attempts.counted
    @expose.expose("GET", "/lookup", since=LOOKUP_SINCE, raw_query=True)
    def find(self, request: Request) -> Json:
        """Find the node that has one of these MAC addresses, or this UUID.

        The response is the same for an unknown node and for a node where no agent may run, so that
        unauthenticated callers cannot find out existing addresses.
        """
        given = request.query
        queries.refuse_unknown(given, _LOOKUP_ARGUMENTS)
        macs = [part.strip().lower() for part in given.get("addresses", "").split(",")]
        macs = [mac for mac in macs if rules.is_mac(mac)]
        uuid = rules.uuid(given["node_uuid"], "node_uuid") if given.get("node_uuid") else None
        if not macs and uuid is None:
            raise errors.InvalidRequest(
                "At least one of addresses (MAC addresses) and node_uuid must be given."
            )
        try:
            row = self.service.database.read(lambda conn: _find_node(conn, macs, uuid))
            self._check_state(row)
        except failed_attempts.RefusalReason as why:
            raise _no_such_node(uuid or ",".join(macs)) from why
        try:
            token = self._token_for(request, row) if request.version >= _TOKEN_SINCE else None
        except errors.NodeNotFound:  # the node has changed state or was deleted meanwhile
            reason = failed_attempts.RefusalReason(
                "the node changed its state meanwhile", [row["uuid"]]
            )
            raise _no_such_node(uuid or ",".join(macs)) from reason
        return self.document(request, row, token)

    def document(self, request: Request, row: Json, token: str | None) -> Json:
        """Return the document for an agent: its node and its settings.

        :param row: the node's ``COLUMNS``.
        """
        return {"node": _agent_view(request, row), "config": self._agent_config(row, token)}

    def _check_state(self, row: Json) -> None:
        """Refuse an agent where none may run; with fast track it may also run between two verbs.

        :raises failed_attempts.RefusalReason: no agent may run.
        """
        conf, state = self.service.conf, State(row["provision_state"])
        if not conf.api.restrict_lookup or state in states.LOOKUP_ALLOWED:
            return
        fast = fast_track.wanted(row["driver_info"] or {}, conf.deploy.fast_track)
        if not (fast and state in states.FAST_TRACK_LOOKUP):
            reason = f'its lookup: no ramdisk is expected in state "{state}"'
            raise failed_attempts.RefusalReason(reason, [row["uuid"]])

    def _token_for(self, request: Request, row: Json) -> str:
        """Return the token at the first request, and a mask afterwards.

        A conductor makes it if the node is locked, is at rest, where holds decide, or changes
        meanwhile. If the reply to the write was lost, the token that it finds may be this one.
        """
        token, free = None, row["reservation"] is None
        if free and contract.TOKEN_NOTE in (row["driver_internal_info"] or {}):
            return masking.MASK
        if free and states.kind(State(row["provision_state"])) not in (Kind.STABLE, Kind.FAIL):
            token, notes = waiting.with_new_token(row)
            change, known = {"driver_internal_info": notes}, row["generation"]
            with contextlib.suppress(errors.Error):
                self.service.database.write(
                    lambda conn: nodes.edit(conn, row["uuid"], change, generation=known)
                )
                return token
        conductor = self.service.conductor_of(row)
        found = conductor.get_node_with_token(request.who, node_uuid=row["uuid"])
        fresh = found["fresh"] or found["agent_token"] == token
        return str(found["agent_token"]) if fresh else masking.MASK

    def _agent_config(self, row: Json, token: str | None) -> Json:
        conf = self.service.conf
        containers = conf.agent_containers
        return {
            "metrics": {
                "backend": "noop",
                "prepend_host": False,
                "prepend_uuid": False,
                "prepend_host_reverse": True,
                "global_prefix": None,
            },
            "metrics_statsd": {"statsd_host": "localhost", "statsd_port": 8125},
            "heartbeat_timeout": conf.api.ramdisk_heartbeat_timeout,
            "agent_containers": {
                "allow_arbitrary_containers": containers.allow_arbitrary_containers,
                "allowed_containers": list(containers.allowed_containers),
                "container_steps_file": containers.container_steps_file,
                "runner": containers.runner,
                "pull_options": list(containers.pull_options),
                "run_options": list(containers.run_options),
            },
            "agent_token": token,
            "agent_token_required": True,
            "agent_md5_checksum_enable": conf.agent.allow_md5_checksum,
            "disable_deep_image_inspection": conf.conductor.disable_deep_image_inspection,
            "permitted_image_formats": list(conf.conductor.permitted_image_formats),
            # Probing for a BMC in-band is slow, and useless if the driver uses it out-of-band.
            "agent_skip_bmc_detect": row["management_interface"] in _BY_REDFISH,
            "enable_bios_bootloader_install": conf.agent.enable_bios_bootloader_install,
            "tls_min_version": None,
            "tls_cipher_suites": conf.agent.tls_ciphers,
        }


def _find_node(conn: Connection, macs: list[str], uuid: str | None) -> Json:
    """Return the node.

    :raises failed_attempts.RefusalReason: no node, or several nodes, have the addresses.
    """
    if uuid is None:
        owners = sorted(set(ports.by_addresses(conn, macs)))
        if not owners:
            raise failed_attempts.RefusalReason(
                "its lookup: no node has a port with one of its addresses"
            )
        if len(owners) > 1:
            listed = ", ".join(owners[:_MOST_LISTED])
            reason = f"its lookup: its addresses are those of ports of several nodes: {listed}"
            raise failed_attempts.RefusalReason(reason, owners)
        uuid = owners[0]
    try:
        return nodes.get(conn, uuid, LOOKUP_COLUMNS)
    except errors.NodeNotFound:
        raise failed_attempts.RefusalReason("its lookup: there is no such node") from None


def _no_such_node(asked: str) -> errors.NodeNotFound:
    """Return the error for every unsuccessful lookup; it repeats only the request."""
    return errors.NodeNotFound(f"Node {asked} was not found.", node=asked)


def _agent_view(request: Request, row: Json) -> Json:
    """Return only the data of a node that agents read, because the caller is unauthenticated."""
    plan = views.plan(views.NODES, _AGENT_FIELDS, request.version, full=False)
    kept = {column: row.get(column) for column in plan.columns}
    asked = kept.get("instance_info") or {}
    kept["instance_info"] = {name: asked[name] for name in _OF_INSTANCE if name in asked}
    notes = row["driver_internal_info"] or {}
    shown_notes = {name: held for name, held in notes.items() if name.startswith(_OF_NOTES)}
    mode = (notes.get(_NOTES) or {}).get(vocabulary.DEPLOYED_MODE)
    if mode is not None:
        # An agent that makes partitions prefers this key to the boot mode of its ramdisk.
        shown_notes[vocabulary.DEPLOYED_MODE] = mode
    shown_notes[erasure_results.READER] = True
    kept["driver_internal_info"] = shown_notes
    shown = plan.show(kept, views.linker(plan, request.base))
    return {name: masking.masked_without_login(held) for name, held in shown.items()}


# Heartbeats of ramdisk agents: POST /v1/heartbeat/{node}, without authentication.
#
# The conductor accepts only the agent that has the node's token, and only at the address of its
# first heartbeat. This module checks that the address can be that of a machine.

_HEARTBEAT_SINCE = 22
HEARTBEAT_LIMIT = 64
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
_LONGEST_URL = 2048  # characters


class Heartbeat(failed_attempts.Unauthenticated):
    """Heartbeats: the only requests that an agent starts by itself after its lookup."""

    @failed_attempts.counted
    @expose.expose(
        "POST",
        ("/heartbeat/{ident}", "/heartbeat"),
        since=_HEARTBEAT_SINCE,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
        limit=HEARTBEAT_LIMIT,
    )
    def beat(  # noqa: PLR0917  # the keys of the body; called by name
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
        """Check a heartbeat, and record it or pass it to the node's conductor.

        The response is the same for a missing node, a node without a conductor and a wrong token.
        """
        values = agent_version, agent_token, agent_verify_ca, agent_status, agent_status_message
        given = dict(zip(_NEWER, values, strict=True))
        if callback_url is None:
            raise errors.MissingParameter(path="callback_url")
        _check_body(request, given)
        self._check_url(callback_url)
        try:
            self._hand_on(request, node_ident, callback_url=callback_url, **given)
        except errors.NotFound as why:
            missing = isinstance(why, errors.NodeNotFound)
            reason = failed_attempts.RefusalReason(
                f"its heartbeat: {'there is no such node' if missing else why}"
            )
            raise errors.InvalidParameter(
                path="agent_token", reason=contract.WRONG_TOKEN
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
        known = (row["driver_internal_info"] or {}).get(contract.TOKEN_NOTE)
        if (
            not isinstance(given, str)
            or not isinstance(known, str)
            or not _same_token(given, known)
        ):
            raise errors.InvalidParameter(path="agent_token", reason=contract.WRONG_TOKEN)

    def _hand_on(self, request: Request, ident: str, **given: Any) -> None:
        """Record the heartbeat of a pinned agent, or else pass it to the node's conductor.

        A conductor that receives a heartbeat of another conductor's node handles it too.
        """
        about = ("callback_url", "agent_token", "agent_verify_ca", "agent_version")
        pin = waiting.agent_pin(*(given[name] for name in about))
        record = functools.partial(nodes.record_heartbeat, uuid=ident, pin=pin)
        if is_uuid(ident) and self.service.database.write(record):  # agents use UUIDs
            return
        try:
            row = node_lookup.fetch(self.service, request, ident, _NEEDED)
        except errors.InvalidParameter:  # not a valid name; reported as a missing node
            raise errors.NodeNotFound(node=ident[:_SHOWN]) from None
        self.service.conductor_of(row).heartbeat(request.who, node_uuid=row["uuid"], **given)

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
