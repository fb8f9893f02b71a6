"""Six operations on a resource: list, list in detail, show, create, change and remove.

Each family of resources is a subclass of `ResourceController`. The class argument ``since`` gives
it the routes. A family overrides the small methods where it differs. Paths below a member are
served by a subclass without ``since``, which gets no routes of the family.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from types import FunctionType
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import (
    guards,
    idempotency,
    node_lookup,
    pages,
    patches,
    queries,
    views,
)
from ironic_lite.api.resources.patches import Operations
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, schemas
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, limits, nodes
from ironic_lite.db.queries.resources import ResourceTable
from ironic_lite.domain import fields, history, node_locks

# Limits of what the callers of one project may add, so that the others keep room.
#
# Callers with system scope, and logins without projects, have no limit. The limits are not exact:
# requests that are processed at once may each add a row. Open batches have a limit of their own.

_MIB = 1024 * 1024
_SMALL = 16 * 1024
"""Bytes of a row that is accepted without a look at the others."""


class Limit(NamedTuple):
    """The limit of a table: its option in [api], and the column by which rows are counted."""

    option: str
    column: str
    what: str
    schema: tuple[fields.Field, ...]

    @property
    def written(self) -> frozenset[str]:
        """The columns that clients write; what the service writes itself is no reason to refuse."""
        ours = fields.FieldAccess.READ
        return frozenset(one.stored for one in self.schema if one.stored and one.access is not ours)


_OWNER_COLUMN, _LESSEE, _NODE = "owner", "lessee", "node_uuid"
_PARTS = "project_max_node_parts"
PROJECT_LIMITS: Mapping[str, Limit] = {
    "nodes": Limit("project_max_nodes", _OWNER_COLUMN, "nodes", fields.NODE),
    "allocations": Limit(
        "project_max_allocations", _OWNER_COLUMN, "allocations", fields.ALLOCATION
    ),
    "runbooks": Limit("project_max_runbooks", _OWNER_COLUMN, "runbooks", fields.RUNBOOK),
    "ports": Limit(_PARTS, _NODE, "ports", fields.PORT),
    "portgroups": Limit(_PARTS, _NODE, "portgroups", fields.PORTGROUP),
    "volume_connectors": Limit(_PARTS, _NODE, "volume connectors", fields.VOLUME_CONNECTOR),
    "volume_targets": Limit(_PARTS, _NODE, "volume targets", fields.VOLUME_TARGET),
}
"""Table of the database -> its limit; other tables have none."""


def check_project_limit(
    service: Service,
    request: Request,
    conn: Connection,
    table: str,
    row: RowView,
    *,
    before: RowView | None = None,
) -> None:
    """Refuse a row that would be beyond a limit: one statement, and one more for a large row.

    A change of a node by its lessee counts for the nodes that the lessee leases.

    :param row: with the column of the limit.
    :param before: the row that it replaces, None for a new one.
    :raises errors.ProjectLimit: the project, or its node, has as many rows or bytes as it may have.
    """
    limit, project = PROJECT_LIMITS.get(table), request.access.counted_project
    if limit is None or project is None:
        return
    column = limit.column
    if column == _OWNER_COLUMN and row[_OWNER_COLUMN] != project:
        if before is None or row.get(_LESSEE) != project:
            return
        column = _LESSEE
    whose = row[column]
    owner = f"{'Node' if column == _NODE else 'Project'} {whose}"
    api = service.conf.api
    most, most_mib = int(api[limit.option]), int(api.project_max_mib)
    if before is None and most and limits.reached(conn, table, column, whose, most):
        used = f"{most} {limit.what}"
        raise errors.ProjectLimit(whose=owner, used=used, limit=most, option=limit.option)
    large = limits.Large(table, limit.written)
    added = large.size_of(row)
    if added <= _SMALL or not most_mib:
        return
    added -= large.size_of(before or {})
    if added > 0 and large.size(conn, column, whose) + added > most_mib * _MIB:
        used = f"{limit.what} of nearly {most_mib} MiB, to which this request adds {added} bytes"
        most_text = f"{most_mib} MiB"
        raise errors.ProjectLimit(whose=owner, used=used, limit=most_text, option="project_max_mib")


Written = tuple[Json, list[Json]]
"""A member after its change (or before its removal), and the events of the change."""

LONGEST = 255


class ResourceController(expose.Controller):
    """Controller of one family of resources.

    Its events are ``<word>_created``, ``_updated`` and ``_deleted``. ``shown`` describes the
    documents of members, ``asked`` the arguments of lists.

    :param since: the minor version that introduced the family; None adds no routes.
    :param patched: the minor version that introduced PATCH, if it is later.
    :param detail: adds the path ``/detail``.
    :param below: the status of a write by an older version.
    """

    family: ResourceTable
    word: str
    shown: views.Resource
    asked: queries.Resource

    def __init_subclass__(
        cls,
        *,
        since: int | None = None,
        patched: int | None = None,
        detail: bool = False,
        below: HTTPStatus = HTTPStatus.NOT_FOUND,
    ) -> None:
        """Expose the routes of a family."""
        super().__init_subclass__()
        if since is None:
            return
        for method, more, act, options in _ACTS:
            if detail or more != "/detail":
                path = f"/{cls.shown.collection}{more}"
                own = patched if patched and method == "PATCH" else since
                older = HTTPStatus.NOT_FOUND if method == "GET" else below
                decorate = expose.expose(method, path, since=own, below=older, **options)
                handler = decorate(_copy_handler(act, cls))
                setattr(cls, f"act{act.__name__}", handler)

    @property
    def what(self) -> str:
        """The name of a member in messages."""
        return self.word.replace("_", " ")

    # -- reading -----------------------------------------------------------------------------

    def page(self, request: Request, *, detail: bool = False) -> Json:
        """Return a page of the family."""
        query = pages.query(self.service, request, self.asked, detail=detail)
        where = self.narrow(request, dict(query.where))
        return self.read_page(request, query, where)

    def read_page(self, request: Request, query: queries.Query, where: Json) -> Json:
        """Return a page of the rows that match these filters."""
        complete = functools.partial(self.complete, request)
        listing = self.family.listing
        return pages.read(
            self.service, request, query, self.shown, listing, where=where, complete=complete
        )

    def complete(self, _request: Request, _documents: list[Json]) -> None:
        """Change the documents of a list in place, for a family that needs it."""

    def narrow(self, _request: Request, where: Json) -> Json:
        """Return the filters of a list, narrowed to the rows that the caller may list."""
        return where

    def one(self, request: Request, ident: str) -> Json:
        """Return one member: all fields, or the requested ones."""
        chosen = queries.one(self.asked, request.query, version=request.version)
        return self.document(request, self.find(request, ident), chosen)

    def find(self, request: Request, ident: str) -> Json:
        """Return the row of a member that the caller may see."""
        found = self.ident(request, ident)

        def look(conn: Connection, row: Json) -> None:
            self.look(conn, request, row)

        return fetch(self.service, self.family, found, look)

    def look(self, conn: Connection, request: Request, row: Json) -> None:
        """Refuse a member that the caller may not see, or may not use in this way."""

    def ident(self, _request: Request, ident: str) -> str:
        """Return the identifier from a path in the database's form.

        :raises errors.InvalidParameter: not a UUID; members of this family have no names.
        """
        return rules.uuid(ident, self.word)

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Return the document of a row, which has all columns."""
        return pages.member(request, self.shown, row, chosen)

    # -- writing, each operation in one transaction -------------------------------------------

    def create(self, request: Request) -> Json:
        """Add a member, send its events, and return its document."""
        row = self.add(request, self.read(request, request.json))
        location = f"{request.base}/v1/{self.shown.collection}/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return self.document(request, row)

    def add(self, request: Request, given: Json) -> Json:
        """Add a member with these values, send its events, and return its row."""
        given["uuid"] = given.get("uuid") or idempotency.subject_uuid(request)
        return self._write(request, lambda conn: self.insert(conn, request, dict(given)))

    def change(self, request: Request, ident: str) -> Json:
        """Apply a JSON PATCH to a member and return its new document."""
        found = self.ident(request, ident)
        patch = patches.read(self.shown.table, request.json, version=request.version)

        def judge(conn: Connection, before: Json) -> Json:
            return self.judge(conn, request, before, patch)

        return self.document(request, self.alter(request, found, judge))

    def alter(
        self, request: Request, ident: str, judge: Callable[[Connection, Json], Json]
    ) -> Json:
        """Change a member and return its new row.

        :param judge: returns the changes of the locked row, or refuses them.
        """

        def work(conn: Connection) -> Written:
            # The row is locked, so that two patches that add to the same value are both kept.
            before = self.family.get(conn, ident, lock_row=True)
            changes = judge(conn, before)
            if not changes:
                return before, []
            named = sorted(changes)
            changes["updated_at"] = clock.now()
            row = {**before, **changes}
            check_project_limit(
                self.service, request, conn, self.family.table.name, row, before=before
            )
            self.family.update(conn, before["uuid"], changes, before)
            return row, self.record(conn, request, "updated", row, changed=named)

        with _as_called(self.family, ident):
            return self._write(request, work)

    def remove(self, request: Request, ident: str) -> None:
        """Remove a member."""
        found = self.ident(request, ident)
        with _as_called(self.family, found):
            self._write(request, lambda conn: self.drop(conn, request, found))

    def _write(self, request: Request, work: Callable[[Connection], Written]) -> Json:
        row, told = idempotency.write_change(self.service, request, work)
        if told:
            self.tell(request, told, row)
        return row

    def tell(self, request: Request, told: list[Json], row: Json) -> None:
        """Send the events of a member to listeners."""
        self.service.notifier.tell(request.who, told, row)

    # -- methods that a family may override --------------------------------------------------

    def read(self, request: Request, body: object) -> Json:
        """Return the column values that a POST contains."""
        table, version = self.shown.table, request.version
        return schemas.resource(
            table, body, version=version, what=self.what, needs=_needed_fields(table)
        )

    def insert(self, conn: Connection, request: Request, given: Json) -> Written:
        """Add a member with the values ``given``, which may be changed in place."""
        row = {**fields.blank(self.shown.table), **given, "created_at": clock.now()}
        check_project_limit(self.service, request, conn, self.family.table.name, row)
        self.family.insert(conn, row)
        return row, self.record(conn, request, "created", row)

    def judge(self, conn: Connection, request: Request, before: Json, patch: Operations) -> Json:
        """Return the changes of the locked row, or refuse them."""
        del conn  # for families whose rules depend on other rows
        table, version = self.shown.table, request.version
        return patches.resource(table, before, patch, version=version, what=self.what)

    def drop(self, conn: Connection, request: Request, ident: str) -> Written:
        """Remove a member."""
        gone = self.family.get(conn, ident, lock_row=True)
        self.check_removal(conn, request, gone)
        self.family.delete(conn, gone["uuid"])
        return gone, self.record(conn, request, "deleted", gone)

    def check_removal(self, conn: Connection, request: Request, row: Json) -> None:
        """Refuse the removal of a locked row that the caller may not remove."""

    def record(
        self, conn: Connection, request: Request, what: str, row: Json, **more: object
    ) -> list[Json]:
        """Add the event of a change, and return it; it contains no values of fields."""
        rows = [history.resource_event_row(request.who, f"{self.word}_{what}", row, more)]
        events.add(conn, rows)
        return rows


class NamedResourceController(ResourceController):
    """Controller of a family whose members also have names."""

    def ident(self, _request: Request, ident: str) -> str:
        """Return the UUID or name from a path in the database's form."""
        return rules.ident(ident, self.word)


def fetch(
    service: Service, family: ResourceTable, ident: str, look: Callable[[Connection, Json], None]
) -> Json:
    """Return a row of a family, unless ``look`` refuses it.

    :param ident: a UUID or name in the database's form.
    :raises errors.NotFound: the family's own error, also if the caller may not see the row.
    """

    def read(conn: Connection) -> Json:
        row = family.get(conn, ident)
        look(conn, row)
        return row

    with _as_called(family, ident):
        return service.database.read(read)


@contextlib.contextmanager
def _as_called(family: ResourceTable, ident: str) -> Iterator[None]:
    """Report a missing member under the identifier that the caller used.

    The UUID in a message would reveal to an unauthorised caller that the name exists.
    """
    missing = family.absent(ident)
    try:
        yield
    except type(missing) as why:
        raise missing from why


@functools.cache
def _needed_fields(table: tuple[fields.Field, ...]) -> tuple[str, ...]:
    """Return the fields that a POST must contain; a missing UUID is generated."""
    needed = (field for field in table if field.required and field.default is None)
    return tuple(field.name for field in needed if field.creatable and field.name != "uuid")


def _index(self: ResourceController, request: Request) -> Json:
    """Return a page of {many}."""
    return self.page(request)


def _index_detail(self: ResourceController, request: Request) -> Json:
    """Return a page of {many} with all fields."""
    return self.page(request, detail=True)


def _show(self: ResourceController, request: Request, ident: str) -> Json:
    """Return one {what}, whole or the fields asked for."""
    return self.one(request, ident)


def _post(self: ResourceController, request: Request) -> Json:
    """Add one {what}."""
    return self.create(request)


def _patch(self: ResourceController, request: Request, ident: str) -> Json:
    """Change one {what} by a JSON PATCH."""
    return self.change(request, ident)


def _delete(self: ResourceController, request: Request, ident: str) -> None:
    """Remove one {what}."""
    self.remove(request, ident)


_CREATE: Json = {"status": HTTPStatus.CREATED, "body": expose.WHOLE, "waits": True}
_CHANGE: Json = {"body": expose.WHOLE, "waits": True}
# method, path after the collection, handler, further arguments of expose()
_ACTS: tuple[tuple[str, str, Any, Json], ...] = (
    ("GET", "", _index, {"raw_query": True}),
    ("GET", "/detail", _index_detail, {"raw_query": True}),
    ("GET", "/{ident}", _show, {"raw_query": True}),
    ("POST", "", _post, _CREATE),
    ("PATCH", "/{ident}", _patch, _CHANGE),
    ("DELETE", "/{ident}", _delete, {"status": HTTPStatus.NO_CONTENT, "waits": True}),
)


def _copy_handler(act: Any, family: type[ResourceController]) -> Any:
    """Return a copy of a handler for one family: each has its own docstring."""
    copy = FunctionType(act.__code__, act.__globals__, act.__name__)
    copy.__annotations__ = dict(act.__annotations__)
    what = family.word.replace("_", " ")
    many = family.shown.collection.replace("_", " ").replace("/", " ")
    copy.__doc__ = act.__doc__.format(what=what, many=many)
    return copy


# Families whose members belong to a node: they change only while the node is not locked.
#
# Each operation holds the node's row lock, so the state cannot change before the member is written.
# The API writes these members itself and asks neither machine nor driver.

# Columns of a node that the checks of its members read.
_OWNER = (
    *node_locks.COLUMNS,
    *("power_state", "maintenance", "instance_uuid"),
    *OWNERS,
)


class NodeOwnedController(ResourceController):
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

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Return the document of a row, and add its entity tag to the answer."""
        request.answer.headers.append(("ETag", _tag(row)))
        return super().document(request, row, chosen)

    # -- writing -----------------------------------------------------------------------------

    def insert(self, conn: Connection, request: Request, given: Json) -> Written:
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

    def judge(self, conn: Connection, request: Request, before: Json, patch: Operations) -> Json:
        """Return the changes of a member, checked against the state of its node."""
        owner = self._lock_owner(conn, request, before)
        changes = self.changes(request, before, patch, owner)
        if changes:
            if "node_uuid" in changes:
                other = _named_node(conn, request, changes["node_uuid"])
                guards.check_unlocked(other)
                guards.check_one_owner(owner, other, "node_uuid")
            self.permit(conn, owner, before, changes)
        return changes

    def changes(self, request: Request, before: Json, patch: Operations, owner: Json) -> Json:
        """Return what a patch changes, if the state of ``owner`` allows it."""
        del owner  # for families whose rules depend on the node
        table, version = self.shown.table, request.version
        return patches.resource(table, before, patch, version=version, what=self.what)

    def check_removal(self, conn: Connection, request: Request, row: Json) -> None:
        """Refuse the removal of a member that is still in use, or whose node is locked."""
        self.release(conn, self._lock_owner(conn, request, row), row)

    def _lock_owner(self, conn: Connection, request: Request, row: Json) -> Json:
        """Lock and return the node of a member that the caller may change.

        :raises errors.PreconditionFailed: the member has changed since the tag in If-Match.
        """
        owner = nodes.get(conn, row["node_uuid"], _OWNER, lock_row=True)
        request.access.node(owner, self.family.absent(row["uuid"]))
        wanted, tag = request.if_match, _tag(row)
        if wanted and not wanted & {"*", tag}:
            what = f"{self.what.capitalize()} {row['uuid']}"
            text = f"{what} has changed: its ETag is {tag} now. Read it again."
            raise errors.PreconditionFailed(text, **{self.word: row["uuid"]})
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
        rows = [history.event_row(request.who, row["node_uuid"], f"{self.word}_{what}", about)]
        events.add(conn, rows)
        return rows


def _tag(row: Json) -> str:
    """Return the entity tag of a member: the time of its last change."""
    return f'"{(row["updated_at"] or row["created_at"]).isoformat()}"'


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
        owner = nodes.get(conn, ident, _OWNER, lock_row=True)
        request.access.node(owner, errors.NodeNotFound(node=ident))
    except errors.NodeNotFound as why:
        raise errors.InvalidParameter(
            why.message, path="node_uuid", reason="no such node"
        ) from None
    return owner
