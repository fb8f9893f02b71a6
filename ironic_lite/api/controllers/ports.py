"""Ports: network cards of nodes, listed at /v1/ports and below nodes and portgroups."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api.controllers import portgroups
from ironic_lite.api.resources import crud, node_owned, patches, queries, views
from ironic_lite.api.validation import rules, schemas, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import ports

_BELOW = 24
_GROUP_HAS_NETWORK = 102


class Ports(node_owned.NodeOwnedController, crud.NamedResourceController, since=1, detail=True):
    """The ports, also those of one node or portgroup.

    Inherited: GET, POST /v1/ports, GET /v1/ports/detail;
    GET, PATCH, DELETE /v1/ports/{ident}.
    """

    family = ports.FAMILY
    word = "port"
    shown = views.PORTS
    asked = queries.PORTS
    roots_first = True
    facts = ("address",)
    kind = "port"

    # -- lists -------------------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/ports", types.word, raw_query=True)
    def index_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's ports."""
        return self.page(request, node=ident)

    @expose.expose("GET", "/nodes/{ident}/ports/detail", types.word, raw_query=True)
    def index_detail_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's ports with all fields."""
        return self.page(request, detail=True, node=ident)

    @expose.expose("GET", "/portgroups/{ident}/ports", types.word, since=_BELOW, raw_query=True)
    def index_of_portgroup(self, request: Request, ident: str) -> Json:
        """Return a page of one portgroup's ports."""
        return self.page(request, portgroup=ident)

    @expose.expose(
        "GET", "/portgroups/{ident}/ports/detail", types.word, since=_BELOW, raw_query=True
    )
    def index_detail_of_portgroup(self, request: Request, ident: str) -> Json:
        """Return a page of one portgroup's ports with all fields."""
        return self.page(request, detail=True, portgroup=ident)

    def resolve(self, request: Request, where: Json) -> None:
        """Replace the names of nodes and portgroups by their UUIDs."""
        super().resolve(request, where)
        if "portgroup" in where:
            group = portgroups.find(self.service, request, where.pop("portgroup"))
            where["portgroup_uuid"] = group["uuid"]

    # -- one port ----------------------------------------------------------------------------

    def ident(self, request: Request, ident: str) -> str:
        """Return the identifier from a path: a UUID or a name; DELETE accepts only a UUID."""
        if request.method == "DELETE":
            return rules.uuid(ident, "port_uuid")
        return super().ident(request, ident)

    def outline(self, request: Request, body: object) -> Json:
        """Return the column values of a POST."""
        return schemas.port(body, version=request.version)

    def admit(self, conn: Connection, given: Json) -> None:
        """Check that a new port fits its portgroup: the same node and network."""
        portgroups.join(conn, given, frozenset(given))

    def changes(self, request: Request, before: Json, patch: object, owner: Json) -> Json:
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
        portgroups.join(conn, {**before, **changes}, frozenset(changes))

    def release(self, conn: Connection, owner: Json, row: Json) -> None:
        """Refuse to remove a port with a VIF."""
        del conn
        portgroups.check_unplugged(owner, row)
