"""Six operations on a resource: list, list in detail, show, create, change and remove.

Each family of resources is a subclass of `ResourceController`. The class argument ``since`` gives
it the routes. A family overrides the small methods where it differs. Paths below a member are
served by a subclass without ``since``, which gets no routes of the family.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import FunctionType
from typing import Any

from ironic_lite.api.resources import (
    changes,
    pages,
    patches,
    project_limits,
    queries,
    views,
)
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, schemas, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events
from ironic_lite.db.queries.resource_table import ResourceTable
from ironic_lite.domain import event_rows, fields

Written = tuple[Json, list[Json]]
"""A member after its change (or before its removal), and the events of the change."""

LONGEST = 255


class ResourceController(expose.Controller):
    """Controller of one family of resources.

    Its events are ``<word>_created``, ``_updated`` and ``_deleted``. ``shown`` describes the
    documents of members, ``asked`` the arguments of lists. With ``roots_first``, fields that PATCH
    cannot change are refused before a missing member, except the fields in ``found_first``.

    :param since: the minor version that introduced the family; None adds no routes.
    :param patched: the minor version that introduced PATCH, if it is later.
    :param detail: adds the path ``/detail``.
    :param below: the status of a write by an older version.
    """

    family: ResourceTable
    word: str
    shown: views.Resource
    asked: queries.Resource
    roots_first = False
    found_first: tuple[str, ...] = ()

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
        for method, more, act, kinds, options in _ACTS:
            if detail or more != "/detail":
                path = f"/{cls.shown.collection}{more}"
                own = patched if patched and method == "PATCH" else since
                older = HTTPStatus.NOT_FOUND if method == "GET" else below
                decorate = expose.expose(method, path, *kinds, since=own, below=older, **options)
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
        given["uuid"] = given.get("uuid") or changes.subject(request)
        return self._write(request, lambda conn: self.insert(conn, request, dict(given)))

    def change(self, request: Request, ident: str) -> Json:
        """Apply a JSON PATCH to a member and return its new document."""
        found, patch = self.ident(request, ident), request.json
        self.check_patch(request)

        def judge(conn: Connection, before: Json) -> Json:
            return self.judge(conn, request, before, patch)

        return self.document(request, self.alter(request, found, judge))

    def check_patch(self, request: Request) -> None:
        """Refuse a patch for faults that do not depend on the member."""
        if self.roots_first:
            table, late = self.shown.table, self.found_first
            patches.check_roots(table, request.json, version=request.version, late=late)
        else:
            patches.check_form(request.json, version=request.version)

    def alter(
        self, request: Request, ident: str, judge: Callable[[Connection, Json], Json]
    ) -> Json:
        """Change a member and return its new row.

        :param judge: returns the changes of the locked row, or refuses them.
        """

        def work(conn: Connection) -> Written:
            # The row is locked, so that two patches that add to the same value are both kept.
            before = self.family.get(conn, ident, hold=True)
            changes = judge(conn, before)
            if not changes:
                return before, []
            named = sorted(changes)
            changes["updated_at"] = clock.now()
            row = {**before, **changes}
            project_limits.admit(
                self.service, request, conn, self.family.table.name, row, before=before
            )
            self.family.update(conn, before["uuid"], changes)
            return row, self.record(conn, request, "updated", row, changed=named)

        with _as_called(self.family, ident):
            return self._write(request, work)

    def remove(self, request: Request, ident: str) -> None:
        """Remove a member."""
        found = self.ident(request, ident)
        with _as_called(self.family, found):
            self._write(request, lambda conn: self.drop(conn, request, found))

    def _write(self, request: Request, work: Callable[[Connection], Written]) -> Json:
        row, told = changes.write(self.service, request, work)
        if told:
            self.tell(request, told, row)
        return row

    def tell(self, request: Request, told: list[Json], row: Json) -> None:
        """Send the events of a member to listeners."""
        self.service.notifier.tell(request.who, told, row)

    # -- methods that a family may override --------------------------------------------------

    def read(self, request: Request, body: object) -> Json:
        """Return the column values that a POST contains."""
        return self.outline(request, body)

    def check_post(self, request: Request) -> None:
        """Refuse the body of a POST for faults that are reported before a missing right."""
        self.outline(request, request.json)

    def outline(self, request: Request, body: object) -> Json:
        """Return the column values that a POST contains, by the schema alone."""
        table, version = self.shown.table, request.version
        return schemas.resource(
            table, body, version=version, what=self.what, needs=_needed_fields(table)
        )

    def insert(self, conn: Connection, request: Request, given: Json) -> Written:
        """Add a member with the values ``given``, which may be changed in place."""
        row = {**fields.blank(self.shown.table), **given, "created_at": clock.now()}
        project_limits.admit(self.service, request, conn, self.family.table.name, row)
        self.family.insert(conn, row)
        return row, self.record(conn, request, "created", row)

    def judge(self, conn: Connection, request: Request, before: Json, patch: object) -> Json:
        """Return the changes of the locked row, or refuse them."""
        del conn  # for families whose rules depend on other rows
        table, version = self.shown.table, request.version
        return patches.resource(table, before, patch, version=version, what=self.what)

    def drop(self, conn: Connection, request: Request, ident: str) -> Written:
        """Remove a member."""
        gone = self.family.get(conn, ident, hold=True)
        self.check_removal(request, gone)
        self.family.delete(conn, gone["uuid"])
        return gone, self.record(conn, request, "deleted", gone)

    def check_removal(self, request: Request, row: Json) -> None:
        """Refuse the removal of a locked row that the caller may not remove."""

    def record(
        self, conn: Connection, request: Request, what: str, row: Json, **more: object
    ) -> list[Json]:
        """Add the event of a change, and return it; it contains no values of fields."""
        rows = [event_rows.of_resource(request.who, f"{self.word}_{what}", row, more)]
        events.add(conn, rows)
        return rows


class NamedResourceController(ResourceController):
    """Controller of a family whose members also have names."""

    def ident(self, _request: Request, ident: str) -> str:
        """Return the UUID or name from a path in the database's form."""
        return known(self.family, self.word, ident)


def fetch(
    service: Service, family: ResourceTable, ident: str, look: Callable[[Connection, Json], None]
) -> Json:
    """Return a row of a family, unless ``look`` refuses it.

    :param ident: as `known`.
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


def known(family: ResourceTable, what: str, ident: str) -> str:
    """Return a UUID or name in the database's form.

    :raises errors.InvalidParameter: neither a UUID nor a valid name.
    """
    return rules.ident(ident, what)


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


def _form_of_list(self: ResourceController, request: Request) -> None:
    queries.check_form(self.asked, request.query)


def _form_of_detail(self: ResourceController, request: Request) -> None:
    queries.check_form(self.asked, request.query, detail=True)


def _form_of_one(self: ResourceController, request: Request) -> None:
    queries.check_form_of_one(self.asked, request.query)


def _form_of_post(self: ResourceController, request: Request) -> None:
    self.check_post(request)


def _form_of_patch(self: ResourceController, request: Request) -> None:
    self.check_patch(request)


_CREATE: Json = {"status": HTTPStatus.CREATED, "body": expose.WHOLE, "waits": True}
_CHANGE: Json = {"body": expose.WHOLE, "waits": True}
_ONE = (types.word,)
# method, path after the collection, handler, argument types, further arguments of expose()
_ACTS: tuple[tuple[str, str, Any, tuple[Any, ...], Json], ...] = (
    ("GET", "", _index, (), {"raw_query": True, "form": _form_of_list}),
    ("GET", "/detail", _index_detail, (), {"raw_query": True, "form": _form_of_detail}),
    ("GET", "/{ident}", _show, _ONE, {"raw_query": True, "form": _form_of_one}),
    ("POST", "", _post, (), {**_CREATE, "form": _form_of_post}),
    ("PATCH", "/{ident}", _patch, _ONE, {**_CHANGE, "form": _form_of_patch}),
    ("DELETE", "/{ident}", _delete, _ONE, {"status": HTTPStatus.NO_CONTENT, "waits": True}),
)


def _copy_handler(act: Any, family: type[ResourceController]) -> Any:
    """Return a copy of a handler for one family: WSME stores the argument types in the handler."""
    copy = FunctionType(act.__code__, act.__globals__, act.__name__)
    copy.__annotations__ = dict(act.__annotations__)
    what = family.word.replace("_", " ")
    many = family.shown.collection.replace("_", " ").replace("/", " ")
    copy.__doc__ = act.__doc__.format(what=what, many=many)
    return copy
