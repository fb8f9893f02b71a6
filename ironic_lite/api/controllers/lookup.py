"""Lookup of a ramdisk agent's node: GET /v1/lookup, without authentication."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api.auth import rate_limit
from ironic_lite.api.resources import queries, views
from ironic_lite.api.validation import rules
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, ports
from ironic_lite.domain import capabilities, erasure_results, fast_track, states
from ironic_lite.domain.states import State

SINCE = 22
_ARGUMENTS = ("addresses", "node_uuid")
_TOKEN_SINCE = 62
_SHOWN = ("uuid", "properties", "instance_info", "driver_internal_info")
_NOTES = "driver_notes"  # key of driver_internal_info where drivers store their notes
_OF_INSTANCE = ("root_device", "capabilities", "deploy_boot_mode")
"""Keys of instance_info that an agent reads before a command sends it the node."""
_OF_NOTES = (
    *("agent_continue_if_", "agent_enable_", "agent_erase_", "disk_erasure_concurrency"),
    capabilities.DEPLOYED_MODE,
)
"""Prefixes of keys of driver_internal_info for agents: erasing, and the boot mode."""
COLUMNS = (
    *(*_SHOWN, "driver", "driver_info", "conductor_group"),
    *("provision_state", "management_interface"),
)
"""Columns of a node that a lookup reads."""


def _form(_self: Lookup, request: Request) -> None:
    queries.refuse_unknown(request.query, _ARGUMENTS)
    if "node_uuid" in request.query:
        rules.uuid(request.query["node_uuid"], "node_uuid")


class Lookup(rate_limit.Unauthenticated):
    """The document with an agent's node, its settings and, once, its token."""

    @rate_limit.counted
    @expose.expose("GET", "/lookup", since=SINCE, raw_query=True, form=_form)
    def find(self, request: Request) -> Json:
        """Find the node that has one of these MAC addresses, or this UUID.

        The response is the same for an unknown node and for a node where no agent may run, so that
        unauthenticated callers cannot find out existing addresses.
        """
        given = request.query
        queries.refuse_unknown(given, _ARGUMENTS)
        macs = [part.strip().lower() for part in given.get("addresses", "").split(",")]
        macs = [mac for mac in macs if rules.is_mac(mac)]
        uuid = rules.uuid(given["node_uuid"], "node_uuid") if given.get("node_uuid") else None
        if not macs and uuid is None:
            raise errors.InvalidRequest(
                "At least one of addresses (MAC addresses) and node_uuid must be given."
            )
        row = self.service.database.read(lambda conn: _find_node(conn, macs, uuid))
        if row is None or not self._may_run(row):
            raise _no_such_node(uuid or ",".join(macs))
        try:
            token = self._token_for(request, row) if request.version >= _TOKEN_SINCE else None
        except errors.NodeNotFound:  # the node has changed state or was deleted meanwhile
            raise _no_such_node(uuid or ",".join(macs)) from None
        return self.document(request, row, token)

    def document(self, request: Request, row: Json, token: str | None) -> Json:
        """Return the document for an agent: its node and its settings.

        :param row: the node's ``COLUMNS``.
        """
        return {"node": _agent_view(request, row), "config": self._agent_config(row, token)}

    def _may_run(self, row: Json) -> bool:
        """Return whether an agent may run; with fast track it may also run between two verbs."""
        conf, state = self.service.conf, State(row["provision_state"])
        if not conf.api.restrict_lookup or state in states.LOOKUP_ALLOWED:
            return True
        fast = fast_track.wanted(row["driver_info"] or {}, conf.deploy.fast_track)
        return fast and state in states.FAST_TRACK_LOOKUP

    def _token_for(self, request: Request, row: Json) -> str:
        """Return the token at the first request, and a mask afterwards."""
        conductor = self.service.conductor_of(row)
        found = conductor.get_node_with_token(request.who, node_uuid=row["uuid"])
        return str(found["agent_token"]) if found["fresh"] else masking.MASK

    def _agent_config(self, row: Json, token: str | None) -> Json:
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
            # Probing for a BMC in-band is slow, and useless if the driver uses it out-of-band.
            "agent_skip_bmc_detect": row["management_interface"] == "redfish",
            "enable_bios_bootloader_install": conf.agent.enable_bios_bootloader_install,
            "tls_min_version": None,
            "tls_cipher_suites": None,
        }


def _find_node(conn: Connection, macs: list[str], uuid: str | None) -> Json | None:
    """Return the node, or None; addresses of several nodes match no node."""
    if uuid is None:
        owners = set(ports.by_addresses(conn, macs))
        if len(owners) != 1:
            return None
        uuid = owners.pop()
    try:
        return nodes.get(conn, uuid, COLUMNS)
    except errors.NodeNotFound:
        return None


def _no_such_node(asked: str) -> errors.NodeNotFound:
    """Return the error for every unsuccessful lookup; it repeats only the request."""
    return errors.NodeNotFound(f"Node {asked} was not found.", node=asked)


def _agent_view(request: Request, row: Json) -> Json:
    """Return only the data of a node that agents read, because the caller is unauthenticated."""
    plan = views.plan(views.NODES, _SHOWN, request.version, full=False)
    kept = {column: row.get(column) for column in plan.columns}
    asked = kept.get("instance_info") or {}
    kept["instance_info"] = {name: asked[name] for name in _OF_INSTANCE if name in asked}
    notes = row["driver_internal_info"] or {}
    shown_notes = {name: held for name, held in notes.items() if name.startswith(_OF_NOTES)}
    mode = (notes.get(_NOTES) or {}).get(capabilities.DEPLOYED_MODE)
    if mode is not None:
        # An agent that makes partitions prefers this key to the boot mode of its ramdisk.
        shown_notes[capabilities.DEPLOYED_MODE] = mode
    shown_notes[erasure_results.READER] = True
    kept["driver_internal_info"] = shown_notes
    shown = plan.show(kept, views.linker(plan, request.base))
    return {name: masking.masked_without_login(held) for name, held in shown.items()}
