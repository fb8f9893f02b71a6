"""Families whose members belong to a node: they change only while the node is not locked.

Each operation holds the node's row lock, so the state cannot change before the member is written.
The API writes these members itself and asks neither machine nor driver.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import (
    crud,
    guards,
    node_lookup,
    ownership,
    pages,
    patches,
)
from ironic_lite.api.validation import rules
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, nodes
from ironic_lite.domain import event_rows, node_locks

# Columns of a node that the checks of its members read.
_OWNER = (
    *node_locks.COLUMNS,
    *("power_state", "maintenance", "instance_uuid"),
    *OWNERS,
)


class NodeOwnedController(crud.ResourceController):
    """Controller of a family whose members belong to nodes.

    ``facts`` are the columns that events contain besides the UUID. ``kind`` is the word in the
    names of the rules for lists, as in ``baremetal:port:list``.
    """

    facts: tuple[str, ...] = ()
    kind: str

    # -- lists -------------------------------------------------------------------------------

    def page(self, request: Request, *, detail: bool = False, **below: str) -> Json:
        """Return a page of the family.

        :param below: filters from the path; they override those of the query.
        """
        query = pages.query(self.service, request, self.asked, detail=detail)
        where = dict(query.where)
        if not below:
            where = pages.narrowed(request, where, self.kind)
            _check_named(request, where)
        where.update(below)
        if "node" in below:
            where.pop("node_uuid", None)
        self.resolve(request, where)
        answer = self.read_page(request, query, where)
        if not answer[self.listed] and "node_uuid" in query.where:
            # An empty list would hide a mistyped UUID, which is worth a statement in this case.
            node_lookup.fetch(self.service, request, query.where["node_uuid"], ("uuid",))
        return answer

    @property
    def listed(self) -> str:
        """The key of a list's body."""
        return self.shown.collection.rpartition("/")[2]

    def resolve(self, request: Request, where: Json) -> None:
        """Replace filters that name other rows by their UUIDs.

        :raises errors.NotFound: the row does not exist.
        """
        owner = where.pop("node", None)
        if owner is not None and "node_uuid" not in where:  # the UUID takes precedence
            where["node_uuid"] = node_lookup.fetch(self.service, request, owner, ("uuid",))["uuid"]

    def look(self, conn: Connection, request: Request, row: Json) -> None:
        """Refuse a member of a node that the caller may not see."""
        node_lookup.judge(conn, request, row["node_uuid"], self.family.absent(row["uuid"]))

    # -- writing -----------------------------------------------------------------------------

    def insert(self, conn: Connection, request: Request, given: Json) -> crud.Written:
        """Add a member to a node."""
        ident = given.pop("node_ident", None) or given["node_uuid"]
        try:
            given["node_uuid"] = _named_node(conn, request, ident)["uuid"]
        except errors.InvalidParameter:
            # Callers who may not add members to any node learn only that.
            request.access.demand(f"baremetal:{self.kind}:create")
            raise
        self.admit(conn, given)
        return super().insert(conn, request, given)

    def judge(self, conn: Connection, request: Request, before: Json, patch: object) -> Json:
        """Return the changes of a member, checked against the state of its node."""
        owner = self._lock_owner(conn, request, before)
        changes = self.changes(request, before, patch, owner)
        if changes:
            if "node_uuid" in changes:
                other = _named_node(conn, request, changes["node_uuid"])
                guards.check_unlocked(other)
                ownership.check_one_owner(owner, other, "node_uuid")
            self.permit(conn, owner, before, changes)
        return changes

    def changes(self, request: Request, before: Json, patch: object, owner: Json) -> Json:
        """Return what a patch changes, if the state of ``owner`` allows it."""
        del owner  # for families whose rules depend on the node
        table, version = self.shown.table, request.version
        return patches.resource(table, before, patch, version=version, what=self.what)

    def drop(self, conn: Connection, request: Request, ident: str) -> crud.Written:
        """Remove a member from a node that is not locked."""
        row = self.family.get(conn, ident, hold=True)
        owner = self._lock_owner(conn, request, row)
        self.release(conn, owner, row)
        self.family.delete(conn, row["uuid"])
        return row, self.record(conn, request, "deleted", row)

    def _lock_owner(self, conn: Connection, request: Request, row: Json) -> Json:
        """Lock and return the node of a member that the caller may change."""
        owner = nodes.get(conn, row["node_uuid"], _OWNER, hold=True)
        request.access.node(owner, self.family.absent(row["uuid"]))
        guards.check_unlocked(owner)
        return owner

    def admit(self, conn: Connection, given: Json) -> None:
        """Refuse an unsuitable new member, or fill in missing values."""

    def permit(self, conn: Connection, owner: Json, before: Json, changes: Json) -> None:
        """Refuse unsuitable changes, or make the changes that follow from them."""

    def release(self, conn: Connection, owner: Json, row: Json) -> None:
        """Refuse the removal of a member that is still in use."""

    def record(
        self, conn: Connection, request: Request, what: str, row: Json, **more: object
    ) -> list[Json]:
        """Add the event of a change to the history of the node, and return it."""
        about = {self.word: row["uuid"], **{name: row[name] for name in self.facts}, **more}
        rows = [event_rows.of(request.who, row["node_uuid"], f"{self.word}_{what}", about)]
        events.add(conn, rows)
        return rows


def _check_named(request: Request, where: Json) -> None:
    """Refuse the name of a node in a query before 1.5; the UUID takes precedence."""
    named = "node" in where and "node_uuid" not in where and not rules.uuid_like(where["node"])
    if named and request.version < node_lookup.NAMES_SINCE:
        raise errors.NotAcceptable(what="The name of a node", since=node_lookup.NAMES_SINCE)


def _named_node(conn: Connection, request: Request, ident: str) -> Json:
    """Return the node that a body names, its row locked; a missing node is an InvalidParameter."""
    if not rules.uuid_like(ident) and request.version < node_lookup.NAMES_SINCE:
        raise errors.InvalidParameter(path="node_ident", reason="names need API version 1.5")
    try:
        owner = nodes.get(conn, ident, _OWNER, hold=True)
        request.access.node(owner, errors.NodeNotFound(node=ident))
    except errors.NodeNotFound as why:
        raise errors.InvalidParameter(
            why.message, path="node_uuid", reason="no such node"
        ) from None
    return owner
