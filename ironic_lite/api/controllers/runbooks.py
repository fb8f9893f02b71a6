"""Runbooks: lists of steps that nodes may be told to do by name, and the traits of those nodes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import clock, errors, fields, runbooks
from ironic_lite.api import (
    books,
    documents,
    expose,
    members,
    pages,
    patches,
    queries,
    rules,
    schemas,
    step_lists,
    types,
)
from ironic_lite.api.exchange import Request
from ironic_lite.db import runbooks as db
from ironic_lite.db.traits import LIMIT

Json = dict[str, Any]

_SINCE = 92
_PLACE = "/runbooks"
_ONE = f"{_PLACE}/{{ident}}"
_TRAITS = f"{_ONE}/traits"
_UPDATE = "baremetal:runbook:update"


class _Base(members.Controller):
    family = db
    word = "runbook"

    def judged(self, request: Request, ident: str, *, seen: bool = False) -> Json:
        """Return a runbook that the caller may see, and do with what is asked.

        :param seen: it is only looked at, which anybody may do with a public one.
        """
        return books.find(self.service, request, ident, public=seen)


class Runbooks(_Base):
    """The collection /v1/runbooks and its members."""

    @expose.expose("GET", _PLACE, since=_SINCE, raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of runbooks."""
        query = pages.query(self.service, request, queries.RUNBOOKS)
        where = dict(query.where)
        project = request.access.only(where.get("project"))
        if project is not None:
            where["project"] = project
        return pages.read(self.service, request, query, documents.RUNBOOKS, db.page, where=where)

    @expose.expose("GET", _ONE, types.word, since=_SINCE, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one runbook, whole or the fields asked for."""
        chosen = queries.one(queries.RUNBOOKS, request.query, version=request.version)
        return _document(request, self.judged(request, ident, seen=True), chosen)

    @expose.expose("POST", _PLACE, since=_SINCE, status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Add a runbook; which nodes it is for is said by its traits."""
        needs = ("name", "steps")
        given = schemas.resource(
            fields.RUNBOOK, request.json, version=request.version, what="runbook", needs=needs
        )
        self._refuse_disallowed(given)
        row = {
            **dict.fromkeys(name for name in db.COLUMNS if name != "id"),
            **{"uuid": str(uuid.uuid4()), "extra": {}, "disable_ramdisk": False, "public": False},
            **given,
            "created_at": clock.now(),
        }
        row["owner"] = _owner(request, row)
        if row["public"] and row["owner"]:
            raise errors.InvalidParameter(path="owner", reason="a public runbook has no owner")
        self.service.database.write(lambda conn: db.insert(conn, row))
        self.tell(request, "created", row)
        location = f"{request.base}/v1{_PLACE}/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return _document(request, row)

    @expose.expose("PATCH", _ONE, types.word, since=_SINCE, body=expose.WHOLE)
    def update(self, request: Request, ident: str) -> Json:
        """Change a runbook by a JSON PATCH; runs under way go on as they began."""
        known, patch = books.ident(ident), request.json

        def change(before: Json) -> Json:
            books.judge(request, before, *_rules(patch))
            changes = patches.runbook(before, patch, version=request.version)
            self._refuse_disallowed(changes)
            return changes

        return _document(request, self.change(request, known, change))

    @expose.expose("DELETE", _ONE, types.word, since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Remove a runbook; runs under way go on as they began."""
        known = books.ident(ident)
        if request.access.limited:
            self.judged(request, ident)
        self.remove(request, known)

    def _refuse_disallowed(self, values: Mapping[str, Any]) -> None:
        """Refuse what neither cleaning nor service would do."""
        api = self.service.conf.api
        disallowed = set(api.disallow_clean_steps) & set(api.disallow_service_steps)
        lead = "Schema error for runbook"
        step_lists.refuse_disallowed(values.get("steps", ()), disallowed, "steps", lead)


class Traits(_Base):
    """The traits of a runbook: a node with one of them may be told to do its steps."""

    @expose.expose("GET", _TRAITS, types.word, since=runbooks.TRAITS_SINCE)
    def index_of_runbook(self, request: Request, ident: str) -> Json:
        """Return all traits of a runbook, sorted."""
        return {"traits": self.judged(request, ident, seen=True)["traits"] or []}

    @expose.expose(
        "PUT",
        _TRAITS,
        types.word,
        since=runbooks.TRAITS_SINCE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
    )
    def replace(self, request: Request, ident: str) -> None:
        """Set all traits of a runbook."""
        wanted = schemas.trait_list(request.json)
        self._set(request, ident, lambda _held: wanted)

    @expose.expose(
        "DELETE",
        _TRAITS,
        types.word,
        since=runbooks.TRAITS_SINCE,
        status=HTTPStatus.NO_CONTENT,
    )
    def clear(self, request: Request, ident: str) -> None:
        """Take all traits from a runbook, which is for no node then."""
        self._set(request, ident, lambda _held: [])

    @expose.expose(
        "PUT",
        f"{_TRAITS}/{{trait}}",
        types.word,
        types.word,
        since=runbooks.TRAITS_SINCE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
    )
    def add(self, request: Request, ident: str, trait: str) -> None:
        """Give a runbook one more trait; one it has already is no fault."""
        if request.json:
            raise errors.InvalidRequest(
                "A single trait is set without a body. To set all, PUT a list to "
                f"/v1/runbooks/{ident}/traits."
            )
        wanted = rules.trait(trait)
        self._set(request, ident, lambda held: sorted({*held, wanted}))
        location = f"{request.base}/v1/runbooks/{ident}/traits/{wanted}"
        request.answer.headers.append(("Location", location))

    @expose.expose(
        "DELETE",
        f"{_TRAITS}/{{trait}}",
        types.word,
        types.word,
        since=runbooks.TRAITS_SINCE,
        status=HTTPStatus.NO_CONTENT,
    )
    def drop(self, request: Request, ident: str, trait: str) -> None:
        """Take one trait from a runbook; one it has not is no fault."""
        self._set(request, ident, lambda held: [one for one in held if one != trait])

    def _set(self, request: Request, ident: str, change: Callable[[list[str]], list[str]]) -> None:
        def judged(before: Json) -> Json:
            books.judge(request, before)
            held = before["traits"] or []
            after = change(held)
            if len(after) > LIMIT:
                reason = f"a runbook has {LIMIT} traits at most, this would make {len(after)}"
                raise errors.InvalidParameter(path="traits", reason=reason)
            return {} if after == held else {"traits": after}

        self.change(request, books.ident(ident), judged)


def _rules(patch: Any) -> tuple[str, ...]:
    """Return the names of the rules that a caller must pass for a PATCH, of whatever form."""
    paths = [each.get("path") for each in patch if isinstance(each, dict)] if patch else []
    owns = {"/owner": f"{_UPDATE}:owner", "/public": f"{_UPDATE}:public"}
    return tuple(dict.fromkeys(owns.get(str(path), _UPDATE) for path in paths)) or (_UPDATE,)


def _owner(request: Request, row: Json) -> str | None:
    """Return whose a new runbook is: of who speaks for one project, that project's.

    :raises errors.InvalidParameter: another's, or a public one.
    """
    access = request.access
    asked: str | None = row["owner"]
    if not access.limited or access.system:
        return asked
    if row["public"]:
        reason = "only who speaks for the whole system makes runbooks public"
        raise errors.InvalidParameter(path="public", reason=reason)
    if asked and asked != access.project:
        reason = "only who speaks for the whole system makes runbooks for other projects"
        raise errors.InvalidParameter(path="owner", reason=reason)
    return access.project


def _document(request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
    return pages.member(request, documents.RUNBOOKS, row, chosen)
