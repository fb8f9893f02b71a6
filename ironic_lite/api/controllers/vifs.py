"""Virtual interfaces (VIFs): the networks that a client attaches to the ports of a node."""

from __future__ import annotations

from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.rpc import interface

_SINCE = 28
_PLACES_SINCE = 67
_ROUTED = ("uuid", "driver", "conductor_group")
_PLACES = ("port_uuid", "portgroup_uuid")


class Vifs(expose.Controller):
    """The VIFs of one node, through its conductor."""

    def _conductor_of_node(self, request: Request, ident: str) -> tuple[interface.Conductor, str]:
        row = node_lookup.fetch(self.service, request, ident, _ROUTED)
        return self.service.conductor_of(row), row["uuid"]

    @expose.expose("GET", "/nodes/{ident}/vifs", types.word, since=_SINCE)
    def index(self, request: Request, ident: str) -> Json:
        """List the attached VIFs."""
        conductor, uuid = self._conductor_of_node(request, ident)
        return {"vifs": conductor.vif_list(request.who, node_uuid=uuid)}

    @expose.expose(
        "POST",
        "/nodes/{ident}/vifs",
        types.word,
        since=_SINCE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
    )
    def attach(self, request: Request, ident: str) -> None:
        """Attach a VIF to a named or a free port or portgroup."""
        if request.json is None and request.size:
            node_lookup.present(self.service, request, ident)
        vif = _read_vif(request.json, version=request.version)
        conductor, uuid = self._conductor_of_node(request, ident)
        conductor.vif_attach(request.who, node_uuid=uuid, vif_info=vif)

    @expose.expose(
        "DELETE",
        "/nodes/{ident}/vifs/{vif}",
        types.word,
        types.word,
        since=_SINCE,
        status=HTTPStatus.NO_CONTENT,
    )
    def detach(self, request: Request, ident: str, vif: str) -> None:
        """Detach a VIF."""
        known = _read_vif_id(vif, "vif", version=request.version)
        conductor, uuid = self._conductor_of_node(request, ident)
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
