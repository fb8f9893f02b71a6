"""Inspection rules: what is made of what an inspection has found, besides its hooks."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Any

from ironic_lite import clock, errors, fields
from ironic_lite.api import (
    documents,
    expose,
    members,
    pages,
    patches,
    queries,
    rules,
    schemas,
    types,
)
from ironic_lite.api.exchange import Request
from ironic_lite.db import inspection_rules as db

Json = dict[str, Any]

_SINCE = 96
_PLACE = "/inspection_rules"
_ONE = f"{_PLACE}/{{ident}}"
_WHAT = "inspection rule"


class InspectionRules(members.Controller):
    """The collection /v1/inspection_rules and its members."""

    family = db
    word = "inspection_rule"

    @expose.expose("GET", _PLACE, since=_SINCE, raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of inspection rules."""
        query = pages.query(self.service, request, queries.INSPECTION_RULES)
        return pages.read(self.service, request, query, documents.INSPECTION_RULES, db.page)

    @expose.expose("GET", _ONE, types.word, since=_SINCE, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one inspection rule, whole or the fields asked for."""
        chosen = queries.one(queries.INSPECTION_RULES, request.query, version=request.version)
        known = rules.uuid(ident, _WHAT)
        row = self.service.database.read(lambda conn: db.get(conn, known))
        return _document(request, row, chosen)

    @expose.expose("POST", _PLACE, since=_SINCE, status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Add an inspection rule, for all inspections that end from now on."""
        table, needs = fields.INSPECTION_RULE, ("actions",)
        given = schemas.resource(
            table, request.json, version=request.version, what=_WHAT, needs=needs
        )
        row = {
            "uuid": str(uuid.uuid4()),
            **{"description": None, "phase": "main", "priority": 0, "sensitive": False},
            **{"conditions": [], "updated_at": None},
            **given,
            "created_at": clock.now(),
        }
        self.service.database.write(lambda conn: db.insert(conn, row))
        self.tell(request, "created", row)
        location = f"{request.base}/v1{_PLACE}/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return _document(request, row)

    @expose.expose("PATCH", _ONE, types.word, since=_SINCE, body=expose.WHOLE)
    def update(self, request: Request, ident: str) -> Json:
        """Change an inspection rule by a JSON PATCH; one that is sensitive stays so."""
        known, patch = rules.uuid(ident, _WHAT), request.json

        def judge(before: Json) -> Json:
            changes = patches.resource(
                fields.INSPECTION_RULE, before, patch, version=request.version, what=_WHAT
            )
            if before["sensitive"] and changes.get("sensitive") is False:
                reason = "a sensitive rule stays so: remove it, and make another one"
                raise errors.InvalidParameter(path="sensitive", reason=reason)
            return changes

        return _document(request, self.change(request, known, judge))

    @expose.expose("DELETE", _ONE, types.word, since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Remove an inspection rule."""
        self.remove(request, rules.uuid(ident, _WHAT))

    @expose.expose("DELETE", _PLACE, since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def delete_all(self, request: Request) -> None:
        """Remove all inspection rules."""
        self.service.database.write(db.clear)

    def tell(self, request: Request, what: str, row: Json) -> None:
        """Tell listeners, who do not hear what a sensitive rule does either."""
        super().tell(request, what, _hidden(row))


def _hidden(row: Json) -> Json:
    return {**row, "actions": None, "conditions": None} if row["sensitive"] else row


def _document(request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
    return pages.member(request, documents.INSPECTION_RULES, _hidden(row), chosen)
