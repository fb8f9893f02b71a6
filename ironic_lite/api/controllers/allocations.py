"""Allocations: requests for a node, for which a conductor chooses one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import OWNERS, target
from ironic_lite.api.resources import (
    crud,
    guards,
    idempotency,
    node_lookup,
    queries,
    views,
)
from ironic_lite.api.resources.patches import Operations
from ironic_lite.api.validation import rules
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import allocations, events, nodes
from ironic_lite.domain import allocations as allocation_rules
from ironic_lite.domain import history, node_locks
from ironic_lite.domain.allocations import AllocationState

_SINCE = 52
_BACKFILL_SINCE = 58
_LIST = "baremetal:allocation:list"
_GET = "baremetal:allocation:get"
_RESTRICTED = "baremetal:allocation:create_restricted"
_STANDING = (
    *node_locks.COLUMNS,
    *("target_provision_state", "maintenance", "generation", "allocation_uuid", "instance_uuid"),
    *masking.TEXT_FIELDS,
    *OWNERS,
)
_FILLED = (*_STANDING, "resource_class")


class _Base(crud.NamedResourceController):
    """Shared methods of /v1/allocations and of the allocation of a node."""

    family = allocations.FAMILY
    word = "allocation"
    shown = views.ALLOCATIONS
    asked = queries.ALLOCATIONS

    def look(self, _conn: Connection, request: Request, row: Json) -> None:
        """Refuse an allocation that the caller may not see, or may not use in this way."""
        request.access.owned(policy.ALLOCATION, row, self.family.absent(row["uuid"]))

    def take_away(self, request: Request, row: Json) -> None:
        """Remove an allocation and free its node, in one transaction.

        :raises errors.Conflict: the state of the node does not allow the removal.
        :raises errors.NodeLocked: a conductor holds the lock of the node.
        """
        event: Json | None = None

        def write(conn: Connection) -> tuple[list[Json], Json | None]:
            nonlocal event
            known = allocations.get(conn, row["uuid"], lock_row=True)
            node = None
            if known["node_uuid"] is not None:
                node = nodes.get(conn, known["node_uuid"], self._returned_columns())
                event = self._free_node(conn, request, node, known["owner"])
            allocations.delete(conn, known["uuid"])
            return self.record(conn, request, "deleted", known), node

        told, node = idempotency.write_change(self.service, request, write)
        if self.service.notifier.on:
            self.tell(request, told, row)
            if node is not None and event is not None:
                self.service.notifier.tell(request.who, [event], node)

    def _returned_columns(self) -> tuple[str, ...] | None:
        return None if self.service.notifier.on else _STANDING

    def _free_node(
        self, conn: Connection, request: Request, node: Json, project: str | None
    ) -> Json:
        """Free the node of an allocation in the database and in ``node``; return the event.

        A caller whose project has lost the node ends the allocation, and no instance of others.
        """
        hands = (node["owner"], node["lessee"])
        columns = {}
        if request.access.limited and project == request.access.project and any(hands):
            columns = allocation_rules.left(node, project, (project, None), hands)
        if not columns:
            allocation_rules.check_removable(node)
            columns = allocation_rules.freed(node)
        guards.check_unlocked(node)
        event = _node_event(request, node, columns)
        nodes.edit(
            conn,
            node["uuid"],
            {**columns, "updated_at": event["at"]},
            generation=node["generation"],
        )
        events.add(conn, [event])
        node.update(columns, updated_at=event["at"])
        return event


class Allocations(_Base, since=_SINCE, patched=57, below=HTTPStatus.METHOD_NOT_ALLOWED):
    """The allocations.

    Inherited: GET, POST /v1/allocations;
    GET, PATCH, DELETE /v1/allocations/{ident}.

    A conductor chooses the node of a new allocation, unless the body names a node that an instance
    already uses (backfill).
    """

    def narrow(self, request: Request, where: Json) -> Json:
        """Return the filters of a list, narrowed to the allocations that the caller may list."""
        owner = request.access.only(where.get("owner"))
        if owner is not None:
            if where.get("owner") == "":  # an owner that is not the caller, too
                raise errors.Forbidden(what=f"{_LIST}_all")
            where["project"] = owner
        if "node" in where:
            where["node_uuid"] = self._named_node(request, where.pop("node"), ("uuid",))["uuid"]
        return where

    def page(self, request: Request, *, detail: bool = False) -> Json:
        """Return a page of allocations that the caller may also see one by one.

        :raises errors.Forbidden: the caller passes the rule of lists, but not that of members.
        """
        answer = super().page(request, detail=detail)
        if answer["allocations"] and not request.access.allows(f"{_LIST}_all"):
            own = target(policy.ALLOCATION, {"owner": request.access.project})
            request.access.demand(_GET, own)
        return answer

    def add(self, request: Request, given: Json) -> Json:
        """Assign the named node, or have a conductor choose one; return the allocation's row."""
        node = given.pop("node")
        row = self._new_row(request, given, node)
        created = history.resource_event_row(request.who, "allocation_created", row)
        if node is None:
            self._request_node(request, row)
        else:
            self._backfill_node(request, row, node, created)
        self.tell(request, [created], row)
        return row

    def judge(self, conn: Connection, request: Request, before: Json, patch: Operations) -> Json:
        """Return the changes of an allocation, or refuse them."""
        self.look(conn, request, before)
        return super().judge(conn, request, before, patch)

    def remove(self, request: Request, ident: str) -> None:
        """Remove an allocation and free its node."""
        self.take_away(request, self.find(request, ident))

    def read(self, request: Request, body: object) -> Json:
        """Return the column values of a POST, and under ``node`` the named node or None."""
        rest, node = self._split_backfill(request, body)
        given = super().read(request, rest)
        given["resource_class"] = given.get("resource_class") or (node and node["resource_class"])
        if not given["resource_class"]:
            reason = "is mandatory, because nodes are chosen by their resource class"
            raise errors.InvalidParameter(path="resource_class", reason=reason)
        given["owner"] = _new_owner(request, given.get("owner"))
        return {**given, "node": node}

    # -- nodes that a request names ----------------------------------------------------------

    def _named_node(
        self,
        request: Request,
        ident: str,
        columns: tuple[str, ...] | None,
        *,
        with_traits: bool = False,
    ) -> Json:
        """Return the node that a body or query names; a missing node is an InvalidParameter."""
        try:
            return node_lookup.fetch(self.service, request, ident, columns, with_traits=with_traits)
        except errors.NodeNotFound as why:
            raise errors.InvalidParameter(path="node", reason=why.message) from None

    def _split_backfill(self, request: Request, body: object) -> tuple[Any, Json | None]:
        """Return the body without its key ``node``, and the node of that key or None."""
        ident = body.get("node") if isinstance(body, dict) else None
        if not isinstance(body, dict) or "node" not in body:
            return body, None
        rest = {key: value for key, value in body.items() if key != "node"}
        if ident is None:
            return rest, None
        if request.version < _BACKFILL_SINCE:
            reason = f"needs API version 1.{_BACKFILL_SINCE} or newer"
            raise errors.InvalidParameter(path="node", reason=reason)
        rules.text(ident, "node", least=1, length=crud.LONGEST)
        columns = None if self.service.notifier.on else _FILLED
        return rest, self._named_node(request, ident, columns, with_traits=True)

    def _new_row(self, request: Request, given: Json, node: Json | None) -> Json:
        """Return the columns of a new allocation.

        Candidates that the caller's project may not request count as missing.
        """
        project = _only_project(request)
        row = {
            **dict.fromkeys(name for name in allocations.COLUMNS if name != "id"),
            "extra": {},
            **given,
            "state": AllocationState.ALLOCATING.value,
            "created_at": clock.now(),
        }
        row["uuid"] = (
            row["uuid"] or (node and node["instance_uuid"]) or idempotency.subject_uuid(request)
        )
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

    # -- assignment of a node ----------------------------------------------------------------

    def _request_node(self, request: Request, row: Json) -> None:
        sent = {**row, "created_at": row["created_at"].isoformat()}
        del sent["updated_at"]
        self.service.database.read(lambda conn: self._admit(conn, request, row))
        conductor = self.service.reach(self.service.fleet.some_host)
        conductor.create_allocation(request.who, allocation=sent)

    def _admit(self, conn: Connection, request: Request, row: Json) -> None:
        crud.check_project_limit(self.service, request, conn, self.family.table.name, row)

    def _backfill_node(self, request: Request, row: Json, node: Json, created: Json) -> None:
        allocation_rules.check_backfill(node, row)
        guards.check_unlocked(node)
        row.update(node_uuid=node["uuid"], state=AllocationState.ACTIVE.value)
        columns = allocation_rules.taken(node, row)
        event = _node_event(request, node, columns)
        edited = {**columns, "updated_at": event["at"]}

        def write(conn: Connection) -> None:
            self._admit(conn, request, row)
            allocations.insert(conn, row)
            nodes.edit(conn, node["uuid"], edited, generation=node["generation"])
            events.add(conn, [created, event])

        idempotency.write_change(self.service, request, write)
        if self.service.notifier.on:
            self.service.notifier.tell(request.who, [event], {**node, **edited})


class NodeAllocation(_Base):
    """The allocation of a node, under the path of the node."""

    @expose.expose("GET", "/nodes/{ident}/allocation", since=_SINCE, raw_query=True)
    def show_of_node(self, request: Request, ident: str) -> Json:
        """Return the allocation of a node: all fields, or the requested ones."""
        queries.refuse_unknown(request.query, ("fields",))
        try:
            row = self._allocation_of(request, ident)
        except errors.NodeNotFound as why:  # 400 as in Ironic, because clients expect it
            raise errors.InvalidParameter(path="node", reason=why.message) from None
        chosen = queries.one(self.asked, request.query, version=request.version)
        return self.document(request, row, chosen)

    @expose.expose(
        "DELETE",
        "/nodes/{ident}/allocation",
        since=_SINCE,
        status=HTTPStatus.NO_CONTENT,
        waits=True,
    )
    def delete_of_node(self, request: Request, ident: str) -> None:
        """Remove the allocation of a node and free the node."""
        self.take_away(request, self._allocation_of(request, ident))

    def _allocation_of(self, request: Request, ident: str) -> Json:
        node = node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"]

        row = self.service.database.read(lambda conn: allocations.of_node(conn, node))
        # The node shows that it has an allocation, so 403 reveals nothing.
        request.access.owned(policy.ALLOCATION, row, errors.Forbidden(what=_GET))
        return row


def _new_owner(request: Request, asked: str | None) -> str | None:
    """Return the owner of a new allocation: the caller's project, or one that the caller may name.

    :raises errors.Forbidden: the caller may not name another owner.
    """
    project = _only_project(request)
    if project is None:
        return asked
    if asked and asked != project:
        raise errors.Forbidden(what=_RESTRICTED)
    return project


def _only_project(request: Request) -> str | None:
    """Return the only project for which the caller may request nodes, or None for any project.

    :raises errors.Forbidden: the caller has no project, and may not name an owner.
    """
    access = request.access
    if not access.limited or access.allows(_RESTRICTED):
        return None
    if not access.project:
        raise errors.Forbidden(what=_RESTRICTED)
    return access.project


def _node_event(request: Request, node: Json, columns: Json) -> Json:
    data = {"fields": sorted(columns), "changes": history.changes(node, columns)}
    return history.event_row(request.who, node["uuid"], "node_updated", data)
