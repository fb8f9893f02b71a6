"""Ports, portgroups and virtual interfaces (VIFs) of nodes."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from ironic_lite import errors, records
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import (
    bmc_orders,
    crud,
    guards,
    idempotency,
    node_lookup,
    patches,
    queries,
    views,
)
from ironic_lite.api.resources.patches import Operations
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, schemas, shapes
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, ports
from ironic_lite.domain import history

# Portgroups: ports of a node that are bonded.

_PORTGROUPS_SINCE = 23
_PORTGROUPS_BELOW = 24
_PLUGGED = frozenset({"portgroup_uuid", "physical_network", "node_uuid"})


class Portgroups(
    crud.NodeOwnedController, crud.NamedResourceController, since=_PORTGROUPS_SINCE, detail=True
):
    """The portgroups, also those of one node.

    Inherited: GET, POST /v1/portgroups, GET /v1/portgroups/detail;
    GET, PATCH, DELETE /v1/portgroups/{ident}.
    """

    family = ports.PORTGROUPS
    word = "portgroup"
    shown = views.PORTGROUPS
    asked = queries.PORTGROUPS
    facts = ("name", "address")
    kind = "portgroup"

    @expose.expose("GET", "/nodes/{ident}/portgroups", since=_PORTGROUPS_BELOW, raw_query=True)
    def index_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's portgroups."""
        return self.page(request, node=ident)

    @expose.expose(
        "GET",
        "/nodes/{ident}/portgroups/detail",
        since=_PORTGROUPS_BELOW,
        raw_query=True,
    )
    def index_detail_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's portgroups with all fields."""
        return self.page(request, detail=True, node=ident)

    def admit(self, conn: Connection, given: Json) -> None:
        """Give a new portgroup the default mode if it has none."""
        del conn
        self._fill_mode(given)

    def changes(self, request: Request, before: Json, patch: Operations, owner: Json) -> Json:
        """Return what a patch changes, if the state of the node allows it."""
        found = super().changes(request, before, patch, owner)
        if found:
            guards.check_portgroup(frozenset(found), owner, version=request.version)
        if "mode" in found:
            self._fill_mode(found)
        return found

    def permit(self, conn: Connection, owner: Json, before: Json, changes: Json) -> None:
        """Copy a physical network to all ports; refuse a new node for a portgroup with ports."""
        del owner
        if "node_uuid" in changes and ports.portgroup_members(conn, before["uuid"]):
            raise _not_empty(before["uuid"])
        if "physical_network" in changes:
            network = {"physical_network": changes["physical_network"]}
            ports.update_members(conn, before["uuid"], network)

    def release(self, conn: Connection, owner: Json, row: Json) -> None:
        """Refuse to remove a portgroup with ports."""
        del owner
        if ports.portgroup_members(conn, row["uuid"]):
            raise _not_empty(row["uuid"])

    def _fill_mode(self, values: Json) -> None:
        values["mode"] = values.get("mode") or self.service.conf.default_portgroup_mode


def find_portgroup(service: Service, request: Request, ident: str) -> Json:
    """Return the portgroup that a path or a filter names.

    :raises errors.PortgroupNotFound: it does not exist, or the caller may not see it.
    """

    def look(conn: Connection, row: Json) -> None:
        missing = errors.PortgroupNotFound(portgroup=row["uuid"])
        node_lookup.judge(conn, request, row["node_uuid"], missing)

    return crud.fetch(service, ports.PORTGROUPS, rules.ident(ident, "portgroup"), look)


def join_portgroup(conn: Connection, port: Json, changed: frozenset[str]) -> None:
    """Check that a port fits its portgroup; the first member sets the portgroup's network.

    :param port: the new columns of the port.
    :param changed: names of the changed columns.
    :raises errors.InvalidParameter: the port's node has no such portgroup.
    :raises errors.Conflict: the portgroup is on another physical network.
    """
    wanted, network = port.get("portgroup_uuid"), port.get("physical_network")
    if wanted is None or not _PLUGGED & changed:
        return
    try:
        group = ports.PORTGROUPS.get(conn, wanted, lock_row=True)
    except errors.PortgroupNotFound:
        group = None
    if group is None or group["node_uuid"] != port["node_uuid"]:
        # One message for both cases, because the caller may not see the other node.
        reason = f"node {port['node_uuid']} has no portgroup {wanted}"
        raise errors.InvalidParameter(path="portgroup_uuid", reason=reason)
    others = ports.portgroup_members(conn, wanted)
    others.pop(port["uuid"], None)
    there = next(iter(others.values()), group["physical_network"])
    if not others and there is None and network is not None:
        ports.PORTGROUPS.update(conn, wanted, {"physical_network": network})
    elif (others or there is not None) and there != network:
        reason = (
            f"a port of the physical network {network} cannot become a member of portgroup "
            f"{wanted}, which is on {there}"
        )
        raise errors.Conflict(node=port["node_uuid"], reason=reason)


def check_unplugged(owner: Json, row: Json) -> None:
    """Refuse to remove a port with a VIF, unless its node is in maintenance.

    :raises errors.Conflict: a VIF is attached.
    """
    if (row["internal_info"] or {}).get(records.VIF) and not owner["maintenance"]:
        reason = f"a VIF is attached to port {row['uuid']}; detach it first"
        raise errors.Conflict(node=owner["uuid"], reason=reason)


def _not_empty(uuid: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        f"Portgroup {uuid} contains ports; remove or reassign the ports first."
    )


_BELOW = 24
_GROUP_HAS_NETWORK = 102


class Ports(crud.NodeOwnedController, crud.NamedResourceController, since=1, detail=True):
    """The ports, also those of one node or portgroup.

    Inherited: GET, POST /v1/ports, GET /v1/ports/detail;
    GET, PATCH, DELETE /v1/ports/{ident}.
    """

    family = ports.FAMILY
    word = "port"
    shown = views.PORTS
    asked = queries.PORTS
    facts = ("address",)
    kind = "port"

    # -- lists -------------------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/ports", raw_query=True)
    def index_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's ports."""
        return self.page(request, node=ident)

    @expose.expose("GET", "/nodes/{ident}/ports/detail", raw_query=True)
    def index_detail_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's ports with all fields."""
        return self.page(request, detail=True, node=ident)

    @expose.expose("GET", "/portgroups/{ident}/ports", since=_BELOW, raw_query=True)
    def index_of_portgroup(self, request: Request, ident: str) -> Json:
        """Return a page of one portgroup's ports."""
        return self.page(request, portgroup=ident)

    @expose.expose("GET", "/portgroups/{ident}/ports/detail", since=_BELOW, raw_query=True)
    def index_detail_of_portgroup(self, request: Request, ident: str) -> Json:
        """Return a page of one portgroup's ports with all fields."""
        return self.page(request, detail=True, portgroup=ident)

    def resolve(self, request: Request, where: Json) -> None:
        """Replace the names of nodes and portgroups by their UUIDs."""
        super().resolve(request, where)
        if "portgroup" in where:
            group = find_portgroup(self.service, request, where.pop("portgroup"))
            where["portgroup_uuid"] = group["uuid"]

    # -- one port ----------------------------------------------------------------------------

    def ident(self, request: Request, ident: str) -> str:
        """Return the identifier from a path: a UUID or a name; DELETE accepts only a UUID."""
        if request.method == "DELETE":
            return rules.uuid(ident, "port_uuid")
        return super().ident(request, ident)

    def read(self, request: Request, body: object) -> Json:
        """Return the column values of a POST."""
        return schemas.port(body, version=request.version)

    def admit(self, conn: Connection, given: Json) -> None:
        """Check that a new port fits its portgroup: the same node and network."""
        join_portgroup(conn, given, frozenset(given))

    def changes(self, request: Request, before: Json, patch: Operations, owner: Json) -> Json:
        """Return what a patch changes, if the state of the node allows it."""
        found = patches.port(before, patch, version=request.version, owner=owner)
        grouped = before["portgroup_uuid"] is not None and "portgroup_uuid" not in found
        if "physical_network" in found and grouped and request.version >= _GROUP_HAS_NETWORK:
            reason = "cannot be changed while the port belongs to a portgroup; patch the portgroup"
            raise errors.InvalidParameter(path="physical_network", reason=reason)
        return found

    def permit(self, conn: Connection, owner: Json, before: Json, changes: Json) -> None:
        """Check that the new portgroup, network and node of a port fit together."""
        del owner
        join_portgroup(conn, {**before, **changes}, frozenset(changes))

    def release(self, conn: Connection, owner: Json, row: Json) -> None:
        """Refuse to remove a port with a VIF."""
        del conn
        check_unplugged(owner, row)


# Virtual interfaces (VIFs): the networks that a client attaches to the ports of a node.

_VIFS_SINCE = 28
_PLACES_SINCE = 67
_PLACES = ("port_uuid", "portgroup_uuid")


class Vifs(expose.Controller):
    """The VIFs of one node, through its conductor."""

    @expose.expose("GET", "/nodes/{ident}/vifs", since=_VIFS_SINCE)
    def index(self, request: Request, ident: str) -> Json:
        """List the attached VIFs."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        return {"vifs": conductor.vif_list(request.who, node_uuid=uuid)}

    @expose.expose(
        "POST",
        "/nodes/{ident}/vifs",
        since=_VIFS_SINCE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
    )
    def attach(self, request: Request, ident: str) -> None:
        """Attach a VIF to a named or a free port or portgroup."""
        vif = _read_vif(request.json, version=request.version)
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        conductor.vif_attach(request.who, node_uuid=uuid, vif_info=vif)

    @expose.expose(
        "DELETE",
        "/nodes/{ident}/vifs/{vif}",
        since=_VIFS_SINCE,
        status=HTTPStatus.NO_CONTENT,
    )
    def detach(self, request: Request, ident: str, vif: str) -> None:
        """Detach a VIF."""
        known = _read_vif_id(vif, "vif", version=request.version)
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        conductor.vif_detach(request.who, node_uuid=uuid, vif_id=known)


def _read_vif(body: object, *, version: int) -> Json:
    """Return the checked VIF of a body; unknown keys are passed on to the network interface.

    :raises errors.InvalidParameter: no ID, or both a port and a portgroup.
    :raises errors.NotAcceptable: a port or portgroup before 1.67.
    """
    if not isinstance(body, dict) or body.get("id") is None:
        message = "Schema error for vif: id: is required"
        raise errors.InvalidParameter(message, path="id", reason="is required")
    named = [name for name in _PLACES if body.get(name) is not None]
    if named and version < _PLACES_SINCE:
        raise errors.NotAcceptable(what=named[0], since=_PLACES_SINCE)
    if len(named) > 1:
        reason = "give one of port_uuid and portgroup_uuid"
        raise errors.InvalidParameter(path=named[1], reason=reason)
    rest = {name: value for name, value in body.items() if name not in _PLACES}
    places = {name: rules.uuid(body[name], name) for name in named}
    return {**rest, **places, "id": _read_vif_id(body["id"], "id", version=version)}


def _read_vif_id(value: object, path: str, *, version: int) -> str:
    """Return the name or UUID of a VIF."""
    given = rules.text(value, path)
    return given if rules.uuid_like(given) else rules.name(given, path, version=version)


# Events that the network service of OpenStack reports.

LOG = logging.getLogger(__name__)

_SINCE = 54
_KEPT = ("port_id", "mac_address", "status", "device_id")


class NetworkEvents(expose.Controller):
    """The events of ports; clients read them in the history of the nodes."""

    @expose.expose("POST", "/events", since=_SINCE, status=HTTPStatus.NO_CONTENT, body=expose.WHOLE)
    def tell(self, request: Request) -> None:
        """Record events with the nodes of their ports.

        Nothing waits for these events yet. Events of unknown ports are only logged.
        """
        reported = _read_events(request.json)
        macs = {one["mac_address"] for one in reported}

        def write(conn: Connection) -> dict[str, str]:
            owners = ports.owners(conn, macs)
            known = [one for one in reported if one["mac_address"] in owners]
            events.add(
                conn, [_event_row(request, owners[one["mac_address"]], one) for one in known]
            )
            return owners

        owners = idempotency.write_change(self.service, request, write)
        for one in reported:
            node = owners.get(one["mac_address"], "none")
            LOG.info("Event %s of port %s: node %s", one["event"], one["port_id"], node)


def _event_row(request: Request, node_uuid: str, one: Json) -> Json:
    data = {name: one[name] for name in _KEPT if one.get(name) is not None}
    row = history.event_row(request.who, node_uuid, "network", data)
    return {**row, "event": one["event"].partition(".")[2]}


def _read_events(body: Any) -> list[Json]:
    """Return the events of a body, checked.

    :raises errors.InvalidParameter: with the path of the invalid value.
    """
    shapes.check("events", body, "", "Invalid events")
    reported: list[Json] = []
    for place, one in enumerate(body["events"]):
        path = f"events/{place}"
        read = {**one, "port_id": rules.uuid(one["port_id"], f"{path}/port_id")}
        read["mac_address"] = rules.mac(one["mac_address"], f"{path}/mac_address")
        if one.get("device_id") is not None:
            read["device_id"] = rules.uuid(one["device_id"], f"{path}/device_id")
        rules.text(one["status"], f"{path}/status")
        reported.append(read)
    return reported
