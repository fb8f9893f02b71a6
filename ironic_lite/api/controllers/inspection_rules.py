"""Inspection rules: conditions and actions on the data of an inspection, besides its hooks.

A change applies to all inspections that end after it.
"""

from __future__ import annotations

from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import changes, crud, queries, views
from ironic_lite.api.validation import rules
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import inspection_rules

_SINCE = 96


class InspectionRules(crud.ResourceController, since=_SINCE, below=HTTPStatus.METHOD_NOT_ALLOWED):
    """The inspection rules.

    Inherited: GET, POST /v1/inspection_rules;
    GET, PATCH, DELETE /v1/inspection_rules/{ident}.
    """

    family = inspection_rules.FAMILY
    word = "inspection_rule"
    shown = views.INSPECTION_RULES
    asked = queries.INSPECTION_RULES

    @expose.expose(
        "DELETE",
        "/inspection_rules",
        since=_SINCE,
        below=HTTPStatus.METHOD_NOT_ALLOWED,
        status=HTTPStatus.NO_CONTENT,
    )
    def clear(self, request: Request) -> None:
        """Remove all inspection rules; each has an event of its own."""

        def work(conn: Connection) -> list[crud.Written]:
            gone = inspection_rules.clear(conn)
            return [(row, self.record(conn, request, "deleted", row)) for row in gone]

        for row, told in changes.write(self.service, request, work):
            self.tell(request, told, row)

    def ident(self, _request: Request, ident: str) -> str:
        """Return the UUID of a rule."""
        return rules.uuid(ident, self.what)

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Return the document of a row; hide conditions and actions of a sensitive rule."""
        return super().document(request, _hide_sensitive(row), chosen)

    def judge(self, conn: Connection, request: Request, before: Json, patch: object) -> Json:
        """Return the changes of a rule, or refuse them; a sensitive rule stays sensitive."""
        changes = super().judge(conn, request, before, patch)
        if before["sensitive"] and changes.get("sensitive") is False:
            reason = "a sensitive rule stays sensitive; delete it and create a new rule"
            raise errors.InvalidParameter(path="sensitive", reason=reason)
        return changes

    def tell(self, request: Request, told: list[Json], row: Json) -> None:
        """Send events to listeners, without conditions and actions of a sensitive rule."""
        super().tell(request, told, _hide_sensitive(row))


def _hide_sensitive(row: Json) -> Json:
    return {**row, "actions": None, "conditions": None} if row["sensitive"] else row
