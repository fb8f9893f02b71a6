"""Remote volumes: connectors (a node's initiator addresses) and targets (the volumes)."""

from __future__ import annotations

from typing import TypedDict

from ironic_lite.api.http import expose, refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import crud, guards, queries, views
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import resources
from ironic_lite.domain import states

_SINCE = 32
_PROPERTIES = "baremetal:volume:view_target_properties"
_GET = "baremetal:volume:get"


class _Volumes(crud.NodeOwnedController):
    """Shared checks: volumes do not change while a running machine may use them."""

    kind = "volume"

    def permit(self, conn: Connection, owner: Json, before: Json, changes: Json) -> None:
        """Refuse changes while the machine may be using the volume."""
        del conn, before, changes
        guards.check_switched_off(owner, f"{self.what} update")

    def release(self, conn: Connection, owner: Json, row: Json) -> None:
        """Refuse the removal while an instance may be using the volume."""
        del conn, row
        if owner["provision_state"] not in states.VOLUMES_REMOVABLE:
            guards.check_switched_off(owner, f"{self.what} deletion")


class Connectors(_Volumes, since=_SINCE):
    """The volume connectors, also those of one node.

    Inherited: GET, POST /v1/volume/connectors;
    GET, PATCH, DELETE /v1/volume/connectors/{ident}.
    """

    family = resources.VOLUME_CONNECTORS
    word = "volume_connector"
    shown = views.VOLUME_CONNECTORS
    asked = queries.VOLUME_CONNECTORS
    facts = ("type", "connector_id")

    @expose.expose("GET", "/nodes/{ident}/volume/connectors", since=_SINCE, raw_query=True)
    def index_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's connectors."""
        return self.page(request, node=ident)


class Targets(_Volumes, since=_SINCE):
    """The volume targets, also those of one node.

    Inherited: GET, POST /v1/volume/targets;
    GET, PATCH, DELETE /v1/volume/targets/{ident}.
    """

    family = resources.VOLUME_TARGETS
    word = "volume_target"
    shown = views.VOLUME_TARGETS
    asked = queries.VOLUME_TARGETS
    facts = ("boot_index", "volume_id")

    @expose.expose("GET", "/nodes/{ident}/volume/targets", since=_SINCE, raw_query=True)
    def index_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's targets."""
        return self.page(request, node=ident)

    def complete(self, request: Request, documents: list[Json]) -> None:
        """Hide properties from callers who may not see them."""
        if not request.access.allows(_PROPERTIES):
            for one in documents:
                _redact_secrets(one)

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Return the document of a row; hide properties from callers who may not see them."""
        shown = super().document(request, row, chosen)
        if not request.access.allows(_PROPERTIES):
            _redact_secrets(shown)
        return shown


class VolumeLinks(TypedDict):
    """Links to the lists of volumes."""

    links: refusals.LinkList
    connectors: refusals.LinkList
    targets: refusals.LinkList


class Volume(expose.Controller):
    """The documents with links to the lists."""

    @expose.expose("GET", "/volume", since=_SINCE)
    def root(self, request: Request) -> VolumeLinks:
        """Return links to the lists of connectors and targets."""
        request.access.demand(_GET)
        request.access.only(None, kind="volume")
        return _links_document(request.base, "volume/")

    @expose.expose("GET", "/nodes/{ident}/volume", since=_SINCE)
    def of_node(self, request: Request, ident: str) -> VolumeLinks:
        """Return links to the connectors and targets of one node."""
        request.access.demand(_GET)
        request.access.settle()  # the document is the same for every node
        return _links_document(request.base, f"nodes/{ident}/volume/")


def _links_document(base: str, place: str) -> VolumeLinks:
    return {
        "links": refusals.link_pair(base, place),
        "connectors": refusals.link_pair(base, f"{place}connectors"),
        "targets": refusals.link_pair(base, f"{place}targets"),
    }


def _redact_secrets(document: Json) -> None:
    if "properties" in document:
        said = f"** Value redacted: it requires the permission {_PROPERTIES}. **"
        document["properties"] = {"redacted_contents": said}
