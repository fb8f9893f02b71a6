"""Portgroups: ports of a node that are bonded."""

from __future__ import annotations

from ironic_lite import errors, records
from ironic_lite.api.resources import crud, guards, node_lookup, node_owned, queries, views
from ironic_lite.api.service import Service
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import portgroups

_SINCE = 23
_BELOW = 24
_PLUGGED = frozenset({"portgroup_uuid", "physical_network", "node_uuid"})


class Portgroups(
    node_owned.NodeOwnedController, crud.NamedResourceController, since=_SINCE, detail=True
):
    """The portgroups, also those of one node.

    Inherited: GET, POST /v1/portgroups, GET /v1/portgroups/detail;
    GET, PATCH, DELETE /v1/portgroups/{ident}.
    """

    family = portgroups.FAMILY
    word = "portgroup"
    shown = views.PORTGROUPS
    asked = queries.PORTGROUPS
    facts = ("name", "address")
    kind = "portgroup"

    @expose.expose("GET", "/nodes/{ident}/portgroups", types.word, since=_BELOW, raw_query=True)
    def index_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's portgroups."""
        return self.page(request, node=ident)

    @expose.expose(
        "GET", "/nodes/{ident}/portgroups/detail", types.word, since=_BELOW, raw_query=True
    )
    def index_detail_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's portgroups with all fields."""
        return self.page(request, detail=True, node=ident)

    def admit(self, conn: Connection, given: Json) -> None:
        """Give a new portgroup the default mode if it has none."""
        del conn
        self._fill_mode(given)

    def changes(self, request: Request, before: Json, patch: object, owner: Json) -> Json:
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
        if "node_uuid" in changes and portgroups.members(conn, before["uuid"]):
            raise _not_empty(before["uuid"])
        if "physical_network" in changes:
            network = {"physical_network": changes["physical_network"]}
            portgroups.spread(conn, before["uuid"], network)

    def release(self, conn: Connection, owner: Json, row: Json) -> None:
        """Refuse to remove a portgroup with ports."""
        del owner
        if portgroups.members(conn, row["uuid"]):
            raise _not_empty(row["uuid"])

    def _fill_mode(self, values: Json) -> None:
        values["mode"] = values.get("mode") or self.service.conf.default_portgroup_mode


def find(service: Service, request: Request, ident: str) -> Json:
    """Return the portgroup that a path or a filter names.

    :raises errors.PortgroupNotFound: it does not exist, or the caller may not see it.
    """
    known = crud.known(portgroups.FAMILY, "portgroup", ident)

    def look(conn: Connection, row: Json) -> None:
        missing = errors.PortgroupNotFound(portgroup=row["uuid"])
        node_lookup.judge(conn, request, row["node_uuid"], missing)

    return crud.fetch(service, portgroups.FAMILY, known, look)


def join(conn: Connection, port: Json, changed: frozenset[str]) -> None:
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
        group = portgroups.FAMILY.get(conn, wanted, hold=True)
    except errors.PortgroupNotFound:
        group = None
    if group is None or group["node_uuid"] != port["node_uuid"]:
        # One message for both cases, because the caller may not see the other node.
        reason = f"node {port['node_uuid']} has no portgroup {wanted}"
        raise errors.InvalidParameter(path="portgroup_uuid", reason=reason)
    others = portgroups.members(conn, wanted)
    others.pop(port["uuid"], None)
    there = next(iter(others.values()), group["physical_network"])
    if not others and there is None and network is not None:
        portgroups.FAMILY.update(conn, wanted, {"physical_network": network})
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
