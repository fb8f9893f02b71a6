"""Allocations: requests for a node, which a conductor looks for; and the one of a node."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Any

from ironic_lite import allocations as core
from ironic_lite import clock, errors, fields
from ironic_lite.allocations import State
from ironic_lite.api import (
    documents,
    expose,
    happenings,
    idents,
    members,
    pages,
    patches,
    policy,
    queries,
    rules,
    schemas,
    types,
)
from ironic_lite.api.exchange import Request
from ironic_lite.db import allocations, events, nodes
from ironic_lite.db.session import Connection

Json = dict[str, Any]

_SINCE = 52
_UPDATE_SINCE = 57
_BACKFILL_SINCE = 58
_PLACE = "/allocations"
_ONE = f"{_PLACE}/{{ident}}"
_OF_NODE = "/nodes/{ident}/allocation"
_LONGEST = 255
_WHAT = "allocation"
_STANDING = (
    *("uuid", "provision_state", "target_provision_state", "maintenance", "reservation"),
    *("generation", "instance_info", "allocation_uuid"),
)
_FILLED = (*_STANDING, "resource_class", "instance_uuid")


class _Base(members.Controller):
    """What both paths to an allocation have in common."""

    family = allocations
    word = "allocation"

    def take_away(self, request: Request, row: Json) -> None:
        """Remove an allocation, and give its node free, by one transaction.

        :raises errors.Conflict: the node needs it.
        :raises errors.NodeLocked: somebody works on the node.
        """
        told: Json | None = None

        def write(conn: Connection) -> Json | None:
            nonlocal told
            known = allocations.get(conn, row["uuid"], hold=True)
            node = None
            if known["node_uuid"] is not None:
                node = nodes.get(conn, known["node_uuid"], self._columns())
                told = self._free(conn, request, node)
                node.update(core.freed(node), updated_at=told["at"])
            allocations.delete(conn, known["uuid"])
            return node

        node = self.service.database.write(write)
        if self.service.notifier.on:
            self.tell(request, "deleted", row)
            if node is not None and told is not None:
                self.service.notifier.tell(request.who, [told], node)

    def _columns(self) -> tuple[str, ...] | None:
        return None if self.service.notifier.on else _STANDING

    def _free(self, conn: Connection, request: Request, node: Json) -> Json:
        core.check_removable(node)
        if node["reservation"] is not None:
            raise errors.NodeLocked(node=node["uuid"], host=node["reservation"])
        columns = core.freed(node)
        told = _told(request, node["uuid"], columns)
        nodes.edit(
            conn,
            node["uuid"],
            {**columns, "updated_at": told["at"]},
            generation=node["generation"],
        )
        events.add(conn, [told])
        return told


class Allocations(_Base):
    """The collection /v1/allocations and its members."""

    @expose.expose("GET", _PLACE, since=_SINCE, raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of allocations."""
        query = pages.query(self.service, request, queries.ALLOCATIONS)
        where = dict(query.where)
        if "node" in where:
            where["node_uuid"] = self._node_asked_for(request, where.pop("node"))
        owner = request.access.only(where.get("owner"))
        if owner is not None:
            where["owner"] = owner
        return pages.read(
            self.service,
            request,
            query,
            documents.ALLOCATIONS,
            allocations.page,
            where=where,
        )

    @expose.expose("GET", _ONE, types.word, since=_SINCE, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one allocation, whole or the fields asked for."""
        chosen = queries.one(queries.ALLOCATIONS, request.query, version=request.version)
        known = _ident(ident)
        return _document(request, self._judged(request, known), chosen)

    @expose.expose("POST", _PLACE, since=_SINCE, status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Ask for a node: a conductor looks for it; or say which node an instance has already."""
        body, node = self._backfilled(request)
        given = schemas.resource(fields.ALLOCATION, body, version=request.version, what=_WHAT)
        given["resource_class"] = given.get("resource_class") or (node and node["resource_class"])
        if not given["resource_class"]:
            reason = "is mandatory: a node is looked for by its resource class"
            raise errors.InvalidParameter(path="resource_class", reason=reason)
        given["owner"] = _owner(request, given.get("owner"))
        row = self._row(given, node)
        if node is None:
            self._seek(request, row)
        else:
            self._backfill(request, row, node)
        self.tell(request, "created", row)
        location = f"{request.base}/v1{_PLACE}/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return _document(request, row)

    @expose.expose("PATCH", _ONE, types.word, since=_UPDATE_SINCE, body=expose.WHOLE)
    def update(self, request: Request, ident: str) -> Json:
        """Change the name of an allocation, or what is noted on it, by a JSON PATCH."""
        known, patch = _ident(ident), request.json

        def judge(before: Json) -> Json:
            _judge(request, before)
            return patches.resource(
                fields.ALLOCATION, before, patch, version=request.version, what=_WHAT
            )

        return _document(request, self.change(request, known, judge))

    @expose.expose("DELETE", _ONE, types.word, since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Remove an allocation; its node is free again."""
        self.take_away(request, self._judged(request, _ident(ident)))

    def _judged(self, request: Request, known: str) -> Json:
        row = self.service.database.read(lambda conn: allocations.get(conn, known))
        return _judge(request, row)

    # -- what a request names ----------------------------------------------------------------

    def _node_asked_for(self, request: Request, ident: str) -> str:
        try:
            return str(idents.fetch(self.service, request, ident, ("uuid",))["uuid"])
        except errors.NodeNotFound as why:
            raise errors.InvalidParameter(path="node", reason=why.message) from None

    def _backfilled(self, request: Request) -> tuple[Any, Json | None]:
        """Return the body without its key ``node``, and the node that it names."""
        body = request.json
        ident = body.get("node") if isinstance(body, dict) else None
        if not isinstance(body, dict) or "node" not in body:
            return body, None
        rest = {key: value for key, value in body.items() if key != "node"}
        if ident is None:
            return rest, None
        if request.version < _BACKFILL_SINCE:
            reason = f"needs API version 1.{_BACKFILL_SINCE} or newer"
            raise errors.InvalidParameter(path="node", reason=reason)
        rules.text(ident, "node", least=1, length=_LONGEST)
        columns = None if self.service.notifier.on else _FILLED
        try:
            return rest, idents.fetch(self.service, request, ident, columns, with_traits=True)
        except errors.NodeNotFound as why:
            raise errors.InvalidParameter(path="node", reason=why.message) from None

    def _row(self, given: Json, node: Json | None) -> Json:
        """Return the columns of a new allocation."""
        row = {
            **dict.fromkeys(name for name in allocations.COLUMNS if name != "id"),
            "extra": {},
            **given,
            "state": State.ALLOCATING.value,
            "created_at": clock.now(),
        }
        row["uuid"] = row["uuid"] or (node and node["instance_uuid"]) or str(uuid.uuid4())
        if row["candidate_nodes"]:
            named = row["candidate_nodes"]
            known = self.service.database.read(lambda conn: allocations.uuids_of(conn, named))
            missing = [ident for ident in named if ident not in known]
            if missing:
                reason = f"Nodes cannot be found: {', '.join(missing)}"
                raise errors.InvalidParameter(path="candidate_nodes", reason=reason)
            row["candidate_nodes"] = list(dict.fromkeys(known[ident] for ident in named))
        return row

    # -- how it comes to its node ------------------------------------------------------------

    def _seek(self, request: Request, row: Json) -> None:
        sent = {**row, "created_at": row["created_at"].isoformat()}
        del sent["updated_at"]
        conductor = self.service.reach(self.service.fleet.some_host)
        conductor.create_allocation(request.who, allocation=sent)

    def _backfill(self, request: Request, row: Json, node: Json) -> None:
        core.check_backfill(node, row)
        if node["reservation"] is not None:
            raise errors.NodeLocked(node=node["uuid"], host=node["reservation"])
        row.update(node_uuid=node["uuid"], state=State.ACTIVE.value)
        columns = core.taken(node, row)
        told = _told(request, node["uuid"], columns)
        edited = {**columns, "updated_at": told["at"]}

        def write(conn: Connection) -> None:
            allocations.insert(conn, row)
            nodes.edit(conn, node["uuid"], edited, generation=node["generation"])
            events.add(conn, [told])

        self.service.database.write(write)
        if self.service.notifier.on:
            self.service.notifier.tell(request.who, [told], {**node, **edited})


class NodeAllocation(_Base):
    """The allocation that a node is of, below the node."""

    @expose.expose("GET", _OF_NODE, types.word, since=_SINCE, raw_query=True)
    def show_of_node(self, request: Request, ident: str) -> Json:
        """Return the allocation of a node, whole or the fields asked for."""
        chosen = queries.one(queries.ALLOCATIONS, request.query, version=request.version)
        return _document(request, self._of(request, ident), chosen)

    @expose.expose("DELETE", _OF_NODE, types.word, since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def delete_of_node(self, request: Request, ident: str) -> None:
        """Remove the allocation of a node, which is free again."""
        self.take_away(request, self._of(request, ident))

    def _of(self, request: Request, ident: str) -> Json:
        node = idents.fetch(self.service, request, ident, ("uuid",))["uuid"]
        row = self.service.database.read(lambda conn: allocations.of_node(conn, node))
        return _judge(request, row)


def _judge(request: Request, row: Json) -> Json:
    """Return an allocation that the caller may see, and do with what is asked."""
    missing = errors.AllocationNotFound(allocation=row["uuid"])
    request.access.owned(policy.ALLOCATION, row, missing)
    return row


def _owner(request: Request, asked: str | None) -> str | None:
    """Return whose a new allocation is: the own project's, but for who may name another.

    :raises errors.Forbidden: the caller may not.
    """
    access = request.access
    if not access.limited or access.allows("baremetal:allocation:create_restricted"):
        return asked
    if not access.project or (asked and asked != access.project):
        raise errors.Forbidden(what="baremetal:allocation:create_restricted")
    return access.project


def _told(request: Request, node_uuid: str, columns: Json) -> Json:
    return happenings.of(request.who, node_uuid, "node_updated", {"fields": sorted(columns)})


def _ident(ident: str) -> str:
    """Return what stands for an allocation in a path: its UUID, or its name.

    :raises errors.AllocationNotFound: nothing that an allocation could be called.
    """
    if rules.uuid_like(ident):
        return rules.uuid(ident, "allocation")
    if not ident.isascii() or len(ident) > _LONGEST:
        raise errors.AllocationNotFound(allocation=ident[:_LONGEST])
    return ident


def _document(request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
    return pages.member(request, documents.ALLOCATIONS, row, chosen)
