"""Families whose members belong to a node: they change only while nobody works on it.

Each act holds the node's row, so that what its state says is still so when the member is written.
Here the API writes by itself: neither machine nor driver is asked.
"""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import (
    families,
    guards,
    happenings,
    idents,
    ownership,
    pages,
    patches,
)
from ironic_lite.api.validation import rules
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import events, nodes
from ironic_lite.db.session import Connection

Json = dict[str, Any]

# What is asked of a node before what belongs to it may change.
_OWNER = (
    *("uuid", "reservation", "provision_state", "power_state", "maintenance", "instance_uuid"),
    *OWNERS,
)


class Controller(families.Controller):
    """One family of things that belong to nodes.

    ``facts`` are the columns that an event tells of, besides the UUID; ``kind`` is what the rules
    of who may list them say, as in ``baremetal:port:list``.
    """

    facts: tuple[str, ...] = ()
    kind: str

    # -- lists -------------------------------------------------------------------------------

    def page(self, request: Request, *, detail: bool = False, **below: str) -> Json:
        """Return a page of the family.

        :param below: what the path says to be listed, over the filters of the query.
        """
        query = pages.query(self.service, request, self.asked, detail=detail)
        where = dict(query.where)
        if not below:
            where = pages.narrowed(request, where, self.kind)
        where.update(below)
        if "node" in below:
            where.pop("node_uuid", None)
        self.resolve(request, where)
        page = self.family.page
        answer = pages.read(self.service, request, query, self.shown, page, where=where)
        if not answer[self.listed] and "node_uuid" in query.where:
            # An empty list would hide a mistyped UUID; only then is it worth a statement.
            idents.fetch(self.service, request, query.where["node_uuid"], ("uuid",))
        return answer

    @property
    def listed(self) -> str:
        """The key of a list's body."""
        return self.shown.collection.rpartition("/")[2]

    def resolve(self, request: Request, where: Json) -> None:
        """Replace filters that name other rows by their UUIDs.

        :raises errors.NotFound: there is no such row.
        """
        owner = where.pop("node", None)
        if owner is not None and "node_uuid" not in where:  # which says it already
            where["node_uuid"] = idents.fetch(self.service, request, owner, ("uuid",))["uuid"]

    def look(self, conn: Connection, request: Request, row: Json) -> None:
        """Refuse a member of a node that the caller may not see."""
        idents.judge(conn, request, row["node_uuid"], self.family.absent(row["uuid"]))

    # -- writing -----------------------------------------------------------------------------

    def insert(self, conn: Connection, request: Request, given: Json) -> families.Written:
        """Add a member to a node that nobody works on."""
        ident = given.pop("node_ident", None) or given["node_uuid"]
        given["node_uuid"] = _named(conn, request, ident)["uuid"]
        self.admit(conn, given)
        return super().insert(conn, request, given)

    def judge(self, conn: Connection, request: Request, before: Json, patch: Any) -> Json:
        """Return the changes of a member, judged by the state of its node."""
        owner = self._owner(conn, request, before)
        changes = self.changes(request, before, patch, owner)
        if changes:
            if "node_uuid" in changes:
                other = _named(conn, request, changes["node_uuid"])
                ownership.check_one_owner(owner, other, "node_uuid")
            self.permit(conn, owner, before, changes)
        return changes

    def changes(self, request: Request, before: Json, patch: Any, owner: Json) -> Json:
        """Return what a patch changes, if the state of ``owner`` allows it."""
        del owner  # asked by those whose rules depend on more than the values
        table, version = self.shown.table, request.version
        return patches.resource(table, before, patch, version=version, what=self.what)

    def drop(self, conn: Connection, request: Request, ident: str) -> families.Written:
        """Take a member away from a node that nobody works on."""
        row = self.family.get(conn, ident, hold=True)
        owner = self._owner(conn, request, row)
        self.release(conn, owner, row)
        self.family.delete(conn, row["uuid"])
        return row, self.record(conn, request, "deleted", row)

    def _owner(self, conn: Connection, request: Request, row: Json) -> Json:
        """Return the node, held, of a member that the caller may change."""
        owner = nodes.get(conn, row["node_uuid"], _OWNER, hold=True)
        request.access.node(owner, self.family.absent(row["uuid"]))
        guards.check_unlocked(owner)
        return owner

    def admit(self, conn: Connection, given: Json) -> None:
        """Refuse a new member that does not fit, or fill in what is not given."""

    def permit(self, conn: Connection, owner: Json, before: Json, changes: Json) -> None:
        """Refuse changes that do not fit, or carry out what follows from them."""

    def release(self, conn: Connection, owner: Json, row: Json) -> None:
        """Refuse the removal of what is still needed."""

    def record(
        self, conn: Connection, request: Request, what: str, row: Json, **more: Any
    ) -> list[Json]:
        """Add the event of a change to the history of the node, and return it."""
        about = {self.word: row["uuid"], **{name: row[name] for name in self.facts}, **more}
        told = [happenings.of(request.who, row["node_uuid"], f"{self.word}_{what}", about)]
        events.add(conn, told)
        return told


def _named(conn: Connection, request: Request, ident: str) -> Json:
    """Return the node that a body names, held; one that is not there is the body's fault."""
    if not rules.uuid_like(ident) and request.version < idents.NAMES_SINCE:
        raise errors.InvalidParameter(path="node_ident", reason="names need API version 1.5")
    try:
        owner = nodes.get(conn, ident, _OWNER, hold=True)
        request.access.node(owner, errors.NodeNotFound(node=ident))
    except errors.NodeNotFound as why:
        raise errors.InvalidParameter(
            why.message, path="node_uuid", reason="no such node"
        ) from None
    guards.check_unlocked(owner)
    return owner
