"""Ports: the network cards of nodes, as a collection of their own and below each node."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import clock, errors, fields
from ironic_lite.api import (
    documents,
    expose,
    happenings,
    idents,
    pages,
    patches,
    queries,
    rules,
    schemas,
    types,
)
from ironic_lite.api.access import OWNERS
from ironic_lite.api.exchange import Request
from ironic_lite.db import events, nodes, ports
from ironic_lite.db.session import Connection

Json = dict[str, Any]
Written = tuple[Json, list[Json]]
"""A port as it is after a change (or was before it was deleted), and the events of it."""

_NAMES_SINCE = 88
_LONGEST = 255
# What is asked of a port's node before the port may change.
_OWNER = ("uuid", "reservation", "provision_state", "maintenance", "instance_uuid", *OWNERS)
_VIF = "tenant_vif_port_id"
_BLANK: Mapping[str, Any] = {
    field.stored: field.default for field in fields.PORT if field.stored is not None
}


class Ports(expose.Controller):
    """The collection /v1/ports, its members, and /v1/nodes/{node}/ports."""

    @expose.expose("GET", "/ports", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of ports."""
        return self._page(request, _narrowed(request, self._query(request)))

    @expose.expose("GET", "/ports/detail", raw_query=True)
    def index_detail(self, request: Request) -> Json:
        """Return a page of ports with all fields."""
        return self._page(request, _narrowed(request, self._query(request, detail=True)))

    @expose.expose("GET", "/nodes/{ident}/ports", types.word, raw_query=True)
    def index_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's ports."""
        query = self._query(request)
        owner = idents.fetch(self.service, request, ident, ("uuid",))
        return self._page(request, query, node_uuid=owner["uuid"])

    @expose.expose("GET", "/nodes/{ident}/ports/detail", types.word, raw_query=True)
    def index_detail_of_node(self, request: Request, ident: str) -> Json:
        """Return a page of one node's ports with all fields."""
        query = self._query(request, detail=True)
        owner = idents.fetch(self.service, request, ident, ("uuid",))
        return self._page(request, query, node_uuid=owner["uuid"])

    @expose.expose("GET", "/ports/{ident}", types.word, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one port, whole or the fields asked for."""
        chosen = queries.one(queries.PORTS, request.query, version=request.version)
        known = _ident(request, ident)

        def read(conn: Connection) -> Json:
            row = ports.get(conn, known)
            idents.judge(conn, request, row["node_uuid"], errors.PortNotFound(port=known))
            return row

        return _document(request, self.service.database.read(read), chosen)

    @expose.expose("POST", "/ports", status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Add a port to a node that nobody works on."""
        given = schemas.port(request.json, version=request.version)
        _refuse_portgroup(given)
        given["uuid"] = given.get("uuid") or str(uuid.uuid4())
        row = self._write(request, lambda conn: _insert(conn, request, given))
        location = f"{request.base}/v1/ports/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return _document(request, row)

    @expose.expose("PATCH", "/ports/{ident}", types.word, body=expose.WHOLE)
    def update(self, request: Request, ident: str) -> Json:
        """Change a port by a JSON PATCH."""
        known, patch = _ident(request, ident), request.json
        row = self._write(request, lambda conn: _update(conn, request, known, patch))
        return _document(request, row)

    @expose.expose("DELETE", "/ports/{ident}", types.word, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Take a port away from its node."""
        known = _ident(request, ident)
        self._write(request, lambda conn: _delete(conn, request, known))

    def _write(self, request: Request, work: Callable[[Connection], Written]) -> Json:
        """Carry out ``work`` in one transaction, tell of it, and return the port."""
        row, told = self.service.database.write(work)
        self.service.notifier.tell(request.who, told, row)
        return row

    # -- lists -------------------------------------------------------------------------------

    def _query(self, request: Request, *, detail: bool = False) -> queries.Query:
        return pages.query(self.service, request, queries.PORTS, detail=detail)

    def _page(self, request: Request, query: queries.Query, **more: Any) -> Json:
        where = {**query.where, **more}
        owner = where.pop("node", None)
        if owner is not None and "node_uuid" not in where:  # which says it, or the path does
            where["node_uuid"] = idents.fetch(self.service, request, owner, ("uuid",))["uuid"]
        if "portgroup" in where:
            raise errors.NotFound(what="Portgroup", ident=where["portgroup"])
        answer = pages.read(self.service, request, query, documents.PORTS, ports.page, where=where)
        if not answer["ports"] and "node_uuid" in query.where:
            # An empty list would hide a mistyped UUID; only then is it worth a statement.
            idents.fetch(self.service, request, query.where["node_uuid"], ("uuid",))
        return answer


def _ident(request: Request, ident: str) -> str:
    """Return what stands for a port in a path: its UUID, or since 1.88 its name."""
    if rules.uuid_like(ident):
        return rules.uuid(ident, "port")
    if request.version < _NAMES_SINCE or not ident.isascii() or len(ident) > _LONGEST:
        raise errors.PortNotFound(port=ident[:_LONGEST])
    return ident


def _narrowed(request: Request, query: queries.Query) -> queries.Query:
    return dataclasses.replace(query, where=pages.narrowed(request, query.where, "port"))


def _document(request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
    return pages.member(request, documents.PORTS, row, chosen)


# -- writing, each inside one transaction ----------------------------------------------------


def _insert(conn: Connection, request: Request, given: Json) -> Written:
    values = dict(given)
    owner = _owner(conn, request, values.pop("node_ident", None) or values["node_uuid"])
    row = {**_BLANK, **values, "node_uuid": owner["uuid"], "created_at": clock.now()}
    with _addresses_worded():
        ports.insert(conn, row)
    return row, _record(conn, request, "port_created", row)


def _update(conn: Connection, request: Request, ident: str, patch: Any) -> Written:
    before = ports.get(conn, ident, hold=True)
    owner = _of(conn, request, before, ident)
    changes = patches.port(before, patch, version=request.version, owner=owner)
    if not changes:
        return before, []
    _refuse_portgroup(changes)
    if "node_uuid" in changes:
        _owner(conn, request, changes["node_uuid"])
    row = {**before, **changes, "updated_at": clock.now()}
    with _addresses_worded():
        ports.update(conn, before["uuid"], {**changes, "updated_at": row["updated_at"]})
    return row, _record(conn, request, "port_updated", row, changed=sorted(changes))


def _delete(conn: Connection, request: Request, ident: str) -> Written:
    row = ports.get(conn, ident, hold=True)
    owner = _of(conn, request, row, ident)
    if (row["internal_info"] or {}).get(_VIF) and not owner["maintenance"]:
        reason = f"a VIF is attached to port {row['uuid']}; detach it first"
        raise errors.Conflict(node=owner["uuid"], reason=reason)
    ports.delete(conn, row["uuid"])
    return row, _record(conn, request, "port_deleted", row)


def _of(conn: Connection, request: Request, row: Json, ident: str) -> Json:
    """Return the node of a port that the caller may change."""
    owner = nodes.get(conn, row["node_uuid"], _OWNER, hold=True)
    request.access.node(owner, errors.PortNotFound(port=ident))
    return _free(owner)


def _owner(conn: Connection, request: Request, ident: str) -> Json:
    """Return the node that a body names; one that is not there is the body's fault."""
    if not rules.uuid_like(ident) and request.version < idents.NAMES_SINCE:
        raise errors.InvalidParameter(path="node_ident", reason="names need API version 1.5")
    try:
        owner = nodes.get(conn, ident, _OWNER, hold=True)
        request.access.node(owner, errors.NodeNotFound(node=ident))
        return _free(owner)
    except errors.NodeNotFound as why:
        raise errors.InvalidParameter(
            why.message, path="node_uuid", reason="no such node"
        ) from None


def _free(owner: Json) -> Json:
    if owner["reservation"] is not None:
        raise errors.NodeLocked(node=owner["uuid"], host=owner["reservation"])
    return owner


def _refuse_portgroup(values: Mapping[str, Any]) -> None:
    """Refuse what this service has none of."""
    wanted = values.get("portgroup_uuid")
    if wanted is not None:
        raise errors.InvalidParameter(
            f"Portgroup {wanted} could not be found.", path="portgroup_uuid", reason="no such"
        )


@contextlib.contextmanager
def _addresses_worded() -> Iterator[None]:
    """Call the taken address what clients look for in the sentence."""
    try:
        yield
    except errors.Duplicate as why:
        if why.facts.get("key") != "address":
            raise
        raise errors.Duplicate(**{**why.facts, "key": "MAC address"}) from None


def _record(conn: Connection, request: Request, kind: str, row: Json, **more: Any) -> list[Json]:
    about = {"port": row["uuid"], "address": row["address"], **more}
    told = [happenings.of(request.who, row["node_uuid"], kind, about)]
    events.add(conn, told)
    return told
