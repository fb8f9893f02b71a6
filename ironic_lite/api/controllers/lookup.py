"""Where a ramdisk agent asks who it is: GET /v1/lookup, without authentication."""

from __future__ import annotations

from typing import Any

from ironic_lite import capabilities, errors, fast_track, masking, states
from ironic_lite.api.login import strangers
from ironic_lite.api.resources import documents, queries
from ironic_lite.api.validation import rules
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import nodes, ports
from ironic_lite.db.session import Connection
from ironic_lite.states import State

Json = dict[str, Any]

SINCE = 22
_TOKEN_SINCE = 62
_SHOWN = ("uuid", "properties", "instance_info", "driver_internal_info")
_NOTES = "driver_notes"  # of driver_internal_info: what drivers keep
COLUMNS = (
    *(*_SHOWN, "driver", "driver_info", "conductor_group"),
    *("provision_state", "management_interface"),
)
"""Of a node that is to be looked up."""


class Lookup(strangers.Open):
    """The document that tells an agent its node, its settings and, once, its token."""

    @strangers.counted
    @expose.expose("GET", "/lookup", since=SINCE, raw_query=True)
    def find(self, request: Request) -> Json:
        """Find the node that has one of these MAC addresses, or this UUID.

        An unknown node and one in which no agent may run get the same answer, so that nobody learns
        from here which addresses there are.
        """
        given = request.query
        queries.refuse_unknown(given, ("addresses", "node_uuid"))
        macs = [part.strip().lower() for part in given.get("addresses", "").split(",")]
        macs = [mac for mac in macs if rules.is_mac(mac)]
        uuid = rules.uuid(given["node_uuid"], "node_uuid") if given.get("node_uuid") else None
        if not macs and uuid is None:
            raise errors.InvalidRequest(
                "At least one of addresses (MAC addresses) and node_uuid must be given."
            )
        row = self.service.database.read(lambda conn: _find(conn, macs, uuid))
        if row is None or not self._allowed(row):
            raise _unknown(uuid or ",".join(macs))
        try:
            token = self._token(request, row) if request.version >= _TOKEN_SINCE else None
        except errors.NodeNotFound:  # it has gone on, or away, since we looked
            raise _unknown(uuid or ",".join(macs)) from None
        return self.document(request, row, token)

    def document(self, request: Request, row: Json, token: str | None) -> Json:
        """Return what an agent is told of its node and its settings.

        :param row: the node's ``COLUMNS``.
        """
        return {"node": _document(request, row), "config": self._config(row, token)}

    def _allowed(self, row: Json) -> bool:
        """Tell whether an agent may run: on the fast track it may between two verbs, too."""
        conf, state = self.service.conf, State(row["provision_state"])
        if not conf.api.restrict_lookup or state in states.LOOKUP_ALLOWED:
            return True
        fast = fast_track.wanted(row["driver_info"] or {}, conf.deploy.fast_track)
        return fast and state in states.FAST_TRACK_LOOKUP

    def _token(self, request: Request, row: Json) -> str:
        """Return the token the first time, and afterwards only that there is one."""
        conductor = self.service.conductor_of(row)
        found = conductor.get_node_with_token(request.who, node_uuid=row["uuid"])
        return str(found["agent_token"]) if found["fresh"] else masking.MASK

    def _config(self, row: Json, token: str | None) -> Json:
        conf = self.service.conf
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
            "agent_containers": {},
            "agent_token": token,
            "agent_token_required": True,
            "agent_md5_checksum_enable": conf.agent.allow_md5_checksum,
            "disable_deep_image_inspection": conf.conductor.disable_deep_image_inspection,
            "permitted_image_formats": list(conf.conductor.permitted_image_formats),
            # Probing for a BMC from inside is slow, and pointless when we talk to it from outside.
            "agent_skip_bmc_detect": row["management_interface"] == "redfish",
            "enable_bios_bootloader_install": conf.agent.enable_bios_bootloader_install,
            "tls_min_version": None,
            "tls_cipher_suites": None,
        }


def _find(conn: Connection, macs: list[str], uuid: str | None) -> Json | None:
    """Return the one node meant; addresses of several nodes mean none."""
    if uuid is None:
        owners = set(ports.by_addresses(conn, macs))
        if len(owners) != 1:
            return None
        uuid = owners.pop()
    try:
        return nodes.get(conn, uuid, COLUMNS)
    except errors.NodeNotFound:
        return None


def _unknown(asked: str) -> errors.NodeNotFound:
    """Return the one answer to all that are not waited for: it tells what was asked, no more."""
    return errors.NodeNotFound(f"Node {asked} was not found.", node=asked)


def _document(request: Request, row: Json) -> Json:
    """Return the node as a stranger may see it: also without what drivers keep, and without what
    follows ``?`` in addresses, where signed ones have their key; an agent needs neither.
    """
    plan = documents.plan(documents.NODES, _SHOWN, request.version, full=False)
    kept = {column: row.get(column) for column in plan.columns}
    told = dict(row["driver_internal_info"] or {})
    mode = (told.pop(_NOTES, None) or {}).get(capabilities.DEPLOYED_MODE)
    if mode is not None:
        # An agent reads it there, before its own ramdisk's, when it makes partitions.
        told[capabilities.DEPLOYED_MODE] = mode
    kept["driver_internal_info"] = told
    shown = plan.show(kept, documents.linker(plan, request.base))
    return {**shown, "instance_info": _without_keys(shown["instance_info"])}


def _without_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_keys(held) for name, held in value.items()}
    if isinstance(value, list):
        return [_without_keys(held) for held in value]
    return masking.address(value) if isinstance(value, str) and "://" in value else value
