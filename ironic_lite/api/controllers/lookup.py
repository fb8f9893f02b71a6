"""Lookup of a ramdisk agent's node: GET /v1/lookup, without authentication."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api.auth import rate_limit, refused_agents
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
_MOST_LISTED = 5  # nodes
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
        try:
            row = self.service.database.read(lambda conn: _find_node(conn, macs, uuid))
            self._check_state(row)
        except refused_agents.Reason as why:
            raise _no_such_node(uuid or ",".join(macs)) from why
        try:
            token = self._token_for(request, row) if request.version >= _TOKEN_SINCE else None
        except errors.NodeNotFound:  # the node has changed state or was deleted meanwhile
            reason = refused_agents.Reason("the node changed its state meanwhile", [row["uuid"]])
            raise _no_such_node(uuid or ",".join(macs)) from reason
        return self.document(request, row, token)

    def document(self, request: Request, row: Json, token: str | None) -> Json:
        """Return the document for an agent: its node and its settings.

        :param row: the node's ``COLUMNS``.
        """
        return {"node": _agent_view(request, row), "config": self._agent_config(row, token)}

    def _check_state(self, row: Json) -> None:
        """Refuse an agent where none may run; with fast track it may also run between two verbs.

        :raises refused_agents.Reason: no agent may run.
        """
        conf, state = self.service.conf, State(row["provision_state"])
        if not conf.api.restrict_lookup or state in states.LOOKUP_ALLOWED:
            return
        fast = fast_track.wanted(row["driver_info"] or {}, conf.deploy.fast_track)
        if not (fast and state in states.FAST_TRACK_LOOKUP):
            reason = f'its lookup: no ramdisk is expected in state "{state}"'
            raise refused_agents.Reason(reason, [row["uuid"]])

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


def _find_node(conn: Connection, macs: list[str], uuid: str | None) -> Json:
    """Return the node.

    :raises refused_agents.Reason: no node, or several nodes, have the addresses.
    """
    if uuid is None:
        owners = sorted(set(ports.by_addresses(conn, macs)))
        if not owners:
            raise refused_agents.Reason("its lookup: no node has a port with one of its addresses")
        if len(owners) > 1:
            listed = ", ".join(owners[:_MOST_LISTED])
            reason = f"its lookup: its addresses are those of ports of several nodes: {listed}"
            raise refused_agents.Reason(reason, owners)
        uuid = owners[0]
    try:
        return nodes.get(conn, uuid, COLUMNS)
    except errors.NodeNotFound:
        raise refused_agents.Reason("its lookup: there is no such node") from None


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
