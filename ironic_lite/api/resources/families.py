"""The six acts on the members of a family: list, show, create, change, remove, and lists in detail.

A family is a subclass of `Controller`, which gets its routes when it says since which version it
exists; what is special to a family overrides one of the small methods. What else hangs below its
members is a subclass without routes of the family's own.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import FunctionType
from typing import Any

from ironic_lite import clock, fields
from ironic_lite.api.resources import documents, happenings, pages, patches, queries
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, schemas, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db.families import Family
from ironic_lite.db.session import Connection

Json = dict[str, Any]
Written = tuple[Json, list[Json]]
"""A member as it is after a change (or was before it was removed), and the events of it."""

LONGEST = 255


class Controller(expose.Controller):
    """One family.

    Its events are ``<word>_created``, ``_updated`` and ``_deleted``. ``shown`` and ``asked`` say
    how its members are shown, and what lists can be asked for.

    :param since: the minor version from which on the family exists; it gets its routes by this.
    :param patched: that from which on members can be changed, if it is a later one.
    :param detail: there is a path ``/detail``, too.
    """

    family: Family
    word: str
    shown: documents.Resource
    asked: queries.Resource

    def __init_subclass__(
        cls, *, since: int | None = None, patched: int | None = None, detail: bool = False
    ) -> None:
        """Expose the acts of a family."""
        super().__init_subclass__()
        if since is None:
            return
        for method, more, act, kinds, told in _ACTS:
            if detail or more != "/detail":
                path = f"/{cls.shown.collection}{more}"
                own = patched if patched and method == "PATCH" else since
                handler = expose.expose(method, path, *kinds, since=own, **told)(_copied(act, cls))
                setattr(cls, f"act{act.__name__}", handler)

    @property
    def what(self) -> str:
        """What a member is called in a sentence."""
        return self.word.replace("_", " ")

    # -- reading -----------------------------------------------------------------------------

    def page(self, request: Request, *, detail: bool = False) -> Json:
        """Return a page of the family."""
        query = pages.query(self.service, request, self.asked, detail=detail)
        where = self.narrow(request, dict(query.where))
        page = self.family.page
        return pages.read(self.service, request, query, self.shown, page, where=where)

    def narrow(self, _request: Request, where: Json) -> Json:
        """Return the filters of a list, narrowed to what the caller may list."""
        return where

    def one(self, request: Request, ident: str) -> Json:
        """Return one member, whole or the fields asked for."""
        chosen = queries.one(self.asked, request.query, version=request.version)
        return self.document(request, self.find(request, ident), chosen)

    def find(self, request: Request, ident: str) -> Json:
        """Return the row of a member that the caller may see."""
        found = self.ident(request, ident)

        def look(conn: Connection, row: Json) -> None:
            self.look(conn, request, row)

        return fetch(self.service, self.family, found, look)

    def look(self, conn: Connection, request: Request, row: Json) -> None:
        """Refuse a member that the caller may not see, or have as the route says."""

    def ident(self, _request: Request, ident: str) -> str:
        """Return what stands for a member in a path, as the database knows it.

        :raises errors.InvalidParameter: no UUID, and there are no names.
        """
        return rules.uuid(ident, self.word)

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Show a row with all columns."""
        return pages.member(request, self.shown, row, chosen)

    # -- writing, each act in one transaction -------------------------------------------------

    def create(self, request: Request) -> Json:
        """Add a member, tell of it, and return it."""
        row = self.add(request, self.read(request, request.json))
        location = f"{request.base}/v1/{self.shown.collection}/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return self.document(request, row)

    def add(self, request: Request, given: Json) -> Json:
        """Add a member of these values, tell of it, and return its row."""
        given["uuid"] = given.get("uuid") or str(uuid.uuid4())
        return self._write(request, lambda conn: self.insert(conn, request, dict(given)))

    def change(self, request: Request, ident: str) -> Json:
        """Change a member by a JSON PATCH, and return it as it is now."""
        found, patch = self.ident(request, ident), request.json

        def judge(conn: Connection, before: Json) -> Json:
            return self.judge(conn, request, before, patch)

        return self.document(request, self.alter(request, found, judge))

    def alter(
        self, request: Request, ident: str, judge: Callable[[Connection, Json], Json]
    ) -> Json:
        """Change a member, and return its row as it is now.

        :param judge: returns the changes of the row, which is held, or refuses them.
        """

        def work(conn: Connection) -> Written:
            # Held, so that of two patches that add to the same value none is lost.
            before = self.family.get(conn, ident, hold=True)
            changes = judge(conn, before)
            if not changes:
                return before, []
            named = sorted(changes)
            changes["updated_at"] = clock.now()
            self.family.update(conn, before["uuid"], changes)
            row = {**before, **changes}
            return row, self.record(conn, request, "updated", row, changed=named)

        with _as_called(self.family, ident):
            return self._write(request, work)

    def remove(self, request: Request, ident: str) -> None:
        """Remove a member."""
        found = self.ident(request, ident)
        with _as_called(self.family, found):
            self._write(request, lambda conn: self.drop(conn, request, found))

    def _write(self, request: Request, work: Callable[[Connection], Written]) -> Json:
        row, told = self.service.database.write(work)
        if told:
            self.tell(request, told, row)
        return row

    def tell(self, request: Request, told: list[Json], row: Json) -> None:
        """Tell listeners of the events of a member."""
        self.service.notifier.tell(request.who, told, row)

    # -- what a family may have otherwise ----------------------------------------------------

    def read(self, request: Request, body: Any) -> Json:
        """Return the column values of a POST, only those given."""
        table, version = self.shown.table, request.version
        return schemas.resource(table, body, version=version, what=self.what, needs=_needed(table))

    def insert(self, conn: Connection, request: Request, given: Json) -> Written:
        """Add a member of these values, which are the caller's to change."""
        row = {**fields.blank(self.shown.table), **given, "created_at": clock.now()}
        self.family.insert(conn, row)
        return row, self.record(conn, request, "created", row)

    def judge(self, conn: Connection, request: Request, before: Json, patch: Any) -> Json:
        """Return the changes of the row, which is held, or refuse them."""
        del conn  # asked by those whose rules depend on other rows
        table, version = self.shown.table, request.version
        return patches.resource(table, before, patch, version=version, what=self.what)

    def drop(self, conn: Connection, request: Request, ident: str) -> Written:
        """Remove a member; it is read before only if somebody listens."""
        listened = self.service.notifier.on
        gone = self.family.get(conn, ident) if listened else {}
        self.family.delete(conn, ident)
        return gone, self.record(conn, request, "deleted", gone) if listened else []

    def record(
        self, conn: Connection, request: Request, what: str, row: Json, **more: Any
    ) -> list[Json]:
        """Return the events of a change. History is of nodes, and keeps nothing of these."""
        del conn, row, more
        return [happenings.of(request.who, None, f"{self.word}_{what}")]


class Named(Controller):
    """A family whose members have names, too."""

    def ident(self, _request: Request, ident: str) -> str:
        """Return what stands for a member in a path: its UUID, or its name."""
        return known(self.family, self.word, ident)


def fetch(
    service: Service, family: Family, ident: str, look: Callable[[Connection, Json], None]
) -> Json:
    """Return a row of a family, once ``look`` has not refused it.

    :param ident: as `known`.
    :raises errors.NotFound: the family's own, also for what the caller may not see.
    """

    def read(conn: Connection) -> Json:
        row = family.get(conn, ident)
        look(conn, row)
        return row

    with _as_called(family, ident):
        return service.database.read(read)


@contextlib.contextmanager
def _as_called(family: Family, ident: str) -> Iterator[None]:
    """Say of a member that is not there what the caller has called it.

    Who asks by name for what they may not see must not learn from its UUID that it is there.
    """
    missing = family.absent(ident)
    try:
        yield
    except type(missing) as why:
        raise missing from why


def known(family: Family, what: str, ident: str) -> str:
    """Return what stands for a member, UUID or name, as the database knows it.

    :raises errors.NotFound: nothing that a member could be called.
    """
    if rules.uuid_like(ident):
        return rules.uuid(ident, what)
    if not ident.isascii() or len(ident) > LONGEST:
        raise family.absent(ident[:LONGEST])
    return ident


@functools.cache
def _needed(table: tuple[fields.Field, ...]) -> tuple[str, ...]:
    """Return the fields that a new member must be given; a UUID can be made up."""
    needed = (field for field in table if field.required and field.default is None)
    return tuple(field.name for field in needed if field.creatable and field.name != "uuid")


def _index(self: Controller, request: Request) -> Json:
    """Return a page of {many}."""
    return self.page(request)


def _index_detail(self: Controller, request: Request) -> Json:
    """Return a page of {many} with all fields."""
    return self.page(request, detail=True)


def _show(self: Controller, request: Request, ident: str) -> Json:
    """Return one {what}, whole or the fields asked for."""
    return self.one(request, ident)


def _post(self: Controller, request: Request) -> Json:
    """Add one {what}."""
    return self.create(request)


def _patch(self: Controller, request: Request, ident: str) -> Json:
    """Change one {what} by a JSON PATCH."""
    return self.change(request, ident)


def _delete(self: Controller, request: Request, ident: str) -> None:
    """Remove one {what}."""
    self.remove(request, ident)


_LIST: Json = {"raw_query": True}
_ONE = (types.word,)
# method, what follows the collection's place, handler, types, and what else expose() is told
_ACTS: tuple[tuple[str, str, Any, tuple[Any, ...], Json], ...] = (
    ("GET", "", _index, (), _LIST),
    ("GET", "/detail", _index_detail, (), _LIST),
    ("GET", "/{ident}", _show, _ONE, _LIST),
    ("POST", "", _post, (), {"status": HTTPStatus.CREATED, "body": expose.WHOLE}),
    ("PATCH", "/{ident}", _patch, _ONE, {"body": expose.WHOLE}),
    ("DELETE", "/{ident}", _delete, _ONE, {"status": HTTPStatus.NO_CONTENT}),
)


def _copied(act: Any, family: type[Controller]) -> Any:
    """Return an act as a family has it: WSME writes into it what it takes, and people read it."""
    copy = FunctionType(act.__code__, act.__globals__, act.__name__)
    copy.__annotations__ = dict(act.__annotations__)
    what = family.word.replace("_", " ")
    many = family.shown.collection.replace("_", " ").replace("/", " ")
    copy.__doc__ = act.__doc__.format(what=what, many=many)
    return copy
