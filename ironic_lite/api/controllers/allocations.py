"""Allocations: requests for a node, which a conductor looks for; and the one of a node."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Any

from ironic_lite import allocations as core
from ironic_lite import clock, errors
from ironic_lite.allocations import State
from ironic_lite.api import policy
from ironic_lite.api.policy.access import target
from ironic_lite.api.resources import documents, families, guards, happenings, idents, queries
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import allocations, events, nodes
from ironic_lite.db.session import Connection

Json = dict[str, Any]

_SINCE = 52
_BACKFILL_SINCE = 58
_OF_NODE = "/nodes/{ident}/allocation"
_LIST = "baremetal:allocation:list"
_GET = "baremetal:allocation:get"
_RESTRICTED = "baremetal:allocation:create_restricted"
_STANDING = (
    *("uuid", "provision_state", "target_provision_state", "maintenance", "reservation"),
    *("generation", "instance_info", "allocation_uuid"),
)
_FILLED = (*_STANDING, "resource_class", "instance_uuid")


class _Base(families.Named):
    """What both paths to an allocation have in common."""

    family = allocations.FAMILY
    word = "allocation"
    shown = documents.ALLOCATIONS
    asked = queries.ALLOCATIONS

    def look(self, _conn: Connection, request: Request, row: Json) -> None:
        """Refuse an allocation that the caller may not see, or do with what is asked."""
        request.access.owned(policy.ALLOCATION, row, self.family.absent(row["uuid"]))

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
            self.tell(request, [self._event(request, "deleted")], row)
            if node is not None and told is not None:
                self.service.notifier.tell(request.who, [told], node)

    def _event(self, request: Request, what: str) -> Json:
        return happenings.of(request.who, None, f"{self.word}_{what}")

    def _columns(self) -> tuple[str, ...] | None:
        return None if self.service.notifier.on else _STANDING

    def _free(self, conn: Connection, request: Request, node: Json) -> Json:
        core.check_removable(node)
        guards.check_unlocked(node)
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


class Allocations(_Base, since=_SINCE, patched=57):
    """The collection /v1/allocations and its members.

    A new one asks for a node, which a conductor looks for; or says which an instance has already.
    """

    def narrow(self, request: Request, where: Json) -> Json:
        """Return the filters of a list, narrowed to what the caller may list."""
        owner = request.access.only(where.get("owner"))
        if owner is not None:
            where["project"] = owner
        if "node" in where:
            where["node_uuid"] = self._named(request, where.pop("node"), ("uuid",))["uuid"]
        return where

    def page(self, request: Request, *, detail: bool = False) -> Json:
        """Return a page of allocations, each of which the caller may also see by itself.

        :raises errors.Forbidden: the rule of lists lets the caller pass, that of members does not.
        """
        answer = super().page(request, detail=detail)
        if answer["allocations"] and not request.access.allows(f"{_LIST}_all"):
            own = target(policy.ALLOCATION, {"owner": request.access.project})
            request.access.demand(_GET, own)
        return answer

    def add(self, request: Request, given: Json) -> Json:
        """Give an allocation its node, or send a conductor to look for one; return its row."""
        node = given.pop("node")
        row = self._row(given, node, _bound(request))
        if node is None:
            self._seek(request, row)
        else:
            self._backfill(request, row, node)
        self.tell(request, [self._event(request, "created")], row)
        return row

    def judge(self, conn: Connection, request: Request, before: Json, patch: Any) -> Json:
        """Return the changes of an allocation, or refuse them."""
        self.look(conn, request, before)
        return super().judge(conn, request, before, patch)

    def remove(self, request: Request, ident: str) -> None:
        """Remove an allocation; its node is free again."""
        self.take_away(request, self.find(request, ident))

    def read(self, request: Request, body: Any) -> Json:
        """Return the column values of a POST, and under ``node`` the node that it names."""
        rest, node = self._backfilled(request, body)
        given = super().read(request, rest)
        given["resource_class"] = given.get("resource_class") or (node and node["resource_class"])
        if not given["resource_class"]:
            reason = "is mandatory: a node is looked for by its resource class"
            raise errors.InvalidParameter(path="resource_class", reason=reason)
        given["owner"] = _owner(request, given.get("owner"))
        return {**given, "node": node}

    # -- what a request names ----------------------------------------------------------------

    def _named(
        self,
        request: Request,
        ident: str,
        columns: tuple[str, ...] | None,
        *,
        with_traits: bool = False,
    ) -> Json:
        """Return the node that a request names beside its path: none is the request's fault."""
        try:
            return idents.fetch(self.service, request, ident, columns, with_traits=with_traits)
        except errors.NodeNotFound as why:
            raise errors.InvalidParameter(path="node", reason=why.message) from None

    def _backfilled(self, request: Request, body: Any) -> tuple[Any, Json | None]:
        """Return the body without its key ``node``, and the node that it names."""
        ident = body.get("node") if isinstance(body, dict) else None
        if not isinstance(body, dict) or "node" not in body:
            return body, None
        rest = {key: value for key, value in body.items() if key != "node"}
        if ident is None:
            return rest, None
        if request.version < _BACKFILL_SINCE:
            reason = f"needs API version 1.{_BACKFILL_SINCE} or newer"
            raise errors.InvalidParameter(path="node", reason=reason)
        rules.text(ident, "node", least=1, length=families.LONGEST)
        columns = None if self.service.notifier.on else _FILLED
        return rest, self._named(request, ident, columns, with_traits=True)

    def _row(self, given: Json, node: Json | None, project: str | None) -> Json:
        """Return the columns of a new allocation.

        :param project: whose nodes alone may be candidates; others are not there.
        """
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
            known = self.service.database.read(
                lambda conn: allocations.uuids_of(conn, named, project)
            )
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
        guards.check_unlocked(node)
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
        chosen = queries.one(self.asked, request.query, version=request.version)
        return self.document(request, self._of(request, ident), chosen)

    @expose.expose("DELETE", _OF_NODE, types.word, since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def delete_of_node(self, request: Request, ident: str) -> None:
        """Remove the allocation of a node, which is free again."""
        self.take_away(request, self._of(request, ident))

    def _of(self, request: Request, ident: str) -> Json:
        node = idents.fetch(self.service, request, ident, ("uuid",))["uuid"]

        row = self.service.database.read(lambda conn: allocations.of_node(conn, node))
        # The node shows that it has one: that it may not be seen is no secret.
        request.access.owned(policy.ALLOCATION, row, errors.Forbidden(what=_GET))
        return row


def _owner(request: Request, asked: str | None) -> str | None:
    """Return whose a new allocation is: the own project's, but for who may name another.

    :raises errors.Forbidden: the caller may not.
    """
    project = _bound(request)
    if project is None:
        return asked
    if asked and asked != project:
        raise errors.Forbidden(what=_RESTRICTED)
    return project


def _bound(request: Request) -> str | None:
    """Return the project for which alone the caller may ask for nodes, None if there is none.

    :raises errors.Forbidden: the caller has no project, and may not ask for others.
    """
    access = request.access
    if not access.limited or access.allows(_RESTRICTED):
        return None
    if not access.project:
        raise errors.Forbidden(what=_RESTRICTED)
    return access.project


def _told(request: Request, node_uuid: str, columns: Json) -> Json:
    return happenings.of(request.who, node_uuid, "node_updated", {"fields": sorted(columns)})
