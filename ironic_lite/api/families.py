"""The six acts on the members of a family: list, show, create, change, remove, and lists in detail.

A family is a subclass of `Controller`, which gets its routes when it says since which version it
exists; what is special to a family overrides one of the small methods.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import FunctionType
from typing import Any

from ironic_lite import clock, fields
from ironic_lite.api import (
    documents,
    expose,
    happenings,
    pages,
    patches,
    queries,
    rules,
    schemas,
    types,
)
from ironic_lite.api.exchange import Request
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
    :param detail: there is a path ``/detail``, too.
    """

    family: Family
    word: str
    shown: documents.Resource
    asked: queries.Resource

    def __init_subclass__(cls, *, since: int | None = None, detail: bool = False) -> None:
        """Expose the acts of a family."""
        super().__init_subclass__()
        if since is not None:
            for name, handler in _handlers(f"/{cls.shown.collection}", since, detail=detail):
                setattr(cls, name, handler)

    @property
    def what(self) -> str:
        """What a member is called in a sentence."""
        return self.word.replace("_", " ")

    # -- reading -----------------------------------------------------------------------------

    def page(self, request: Request, *, detail: bool = False) -> Json:
        """Return a page of the family."""
        query = pages.query(self.service, request, self.asked, detail=detail)
        return pages.read(self.service, request, query, self.shown, self.family.page)

    def one(self, request: Request, ident: str) -> Json:
        """Return one member, whole or the fields asked for."""
        chosen = queries.one(self.asked, request.query, version=request.version)
        found = self.ident(request, ident)
        row = self.service.database.read(lambda conn: self.family.get(conn, found))
        return self.document(request, row, chosen)

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
        given = self.read(request)
        given["uuid"] = given.get("uuid") or str(uuid.uuid4())
        row = self._write(request, lambda conn: self.insert(conn, request, dict(given)))
        location = f"{request.base}/v1/{self.shown.collection}/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return self.document(request, row)

    def change(self, request: Request, ident: str) -> Json:
        """Change a member by a JSON PATCH, and return it as it is now."""
        found, patch = self.ident(request, ident), request.json
        row = self._write(request, lambda conn: self._change(conn, request, found, patch))
        return self.document(request, row)

    def remove(self, request: Request, ident: str) -> None:
        """Remove a member."""
        found = self.ident(request, ident)
        self._write(request, lambda conn: self.drop(conn, request, found))

    def _write(self, request: Request, work: Callable[[Connection], Written]) -> Json:
        row, told = self.service.database.write(work)
        if told:
            self.service.notifier.tell(request.who, told, row)
        return row

    def _change(self, conn: Connection, request: Request, ident: str, patch: Any) -> Written:
        # Held, so that of two patches that add to the same value none is lost.
        before = self.family.get(conn, ident, hold=True)
        changes = self.judge(conn, request, before, patch)
        if not changes:
            return before, []
        named = sorted(changes)
        changes["updated_at"] = clock.now()
        self.family.update(conn, before["uuid"], changes)
        row = {**before, **changes}
        return row, self.record(conn, request, "updated", row, changed=named)

    # -- what a family may have otherwise ----------------------------------------------------

    def read(self, request: Request) -> Json:
        """Return the column values of a POST, only those given."""
        table, version = self.shown.table, request.version
        needs = _needed(table)
        return schemas.resource(table, request.json, version=version, what=self.what, needs=needs)

    def insert(self, conn: Connection, request: Request, given: Json) -> Written:
        """Add a member of these values, which are the caller's to change."""
        row = {**_blank(self.shown.table), **given, "created_at": clock.now()}
        self.family.insert(conn, row)
        return row, self.record(conn, request, "created", row)

    def judge(self, _conn: Connection, request: Request, before: Json, patch: Any) -> Json:
        """Return the changes of the row, which is held, or refuse them."""
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


@functools.cache
def _blank(table: tuple[fields.Field, ...]) -> Json:
    return {field.stored: field.default for field in table if field.stored is not None}


def _index(self: Controller, request: Request) -> Json:
    """Return a page."""
    return self.page(request)


def _index_detail(self: Controller, request: Request) -> Json:
    """Return a page with all fields."""
    return self.page(request, detail=True)


def _show(self: Controller, request: Request, ident: str) -> Json:
    """Return one, whole or the fields asked for."""
    return self.one(request, ident)


def _post(self: Controller, request: Request) -> Json:
    """Add one."""
    return self.create(request)


def _patch(self: Controller, request: Request, ident: str) -> Json:
    """Change one by a JSON PATCH."""
    return self.change(request, ident)


def _delete(self: Controller, request: Request, ident: str) -> None:
    """Remove one."""
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


def _handlers(place: str, since: int, *, detail: bool) -> Iterator[tuple[str, Any]]:
    """Give the exposed methods of a family whose collection is at ``place``."""
    for method, more, act, kinds, told in _ACTS:
        if detail or more != "/detail":
            own = _copied(act)
            exposed = expose.expose(method, f"{place}{more}", *kinds, since=since, **told)
            yield f"act{act.__name__}", exposed(own)


def _copied(act: Any) -> Any:
    """Return a copy of a function: WSME writes into it what it takes."""
    copy = FunctionType(act.__code__, act.__globals__, act.__name__)
    return functools.update_wrapper(copy, act, updated=())
