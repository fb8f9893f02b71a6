"""Inspection rules: what is made of what an inspection has found, besides its hooks.

A change holds for all inspections that end from then on.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.resources import documents, families, queries
from ironic_lite.api.validation import rules
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import inspection_rules
from ironic_lite.db.session import Connection

Json = dict[str, Any]

_SINCE = 96


class InspectionRules(families.Controller, since=_SINCE):
    """The collection /v1/inspection_rules and its members."""

    family = inspection_rules.FAMILY
    word = "inspection_rule"
    shown = documents.INSPECTION_RULES
    asked = queries.INSPECTION_RULES

    @expose.expose("DELETE", "/inspection_rules", since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def clear(self, request: Request) -> None:
        """Remove all inspection rules."""
        del request
        self.service.database.write(inspection_rules.clear)

    def ident(self, _request: Request, ident: str) -> str:
        """Return the UUID of a rule."""
        return rules.uuid(ident, self.what)

    def document(self, request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
        """Show a row; of a sensitive rule, not what it does."""
        return super().document(request, _hidden(row), chosen)

    def judge(self, conn: Connection, request: Request, before: Json, patch: Any) -> Json:
        """Return the changes of a rule, or refuse them; one that is sensitive stays so."""
        changes = super().judge(conn, request, before, patch)
        if before["sensitive"] and changes.get("sensitive") is False:
            reason = "a sensitive rule stays so: remove it, and make another one"
            raise errors.InvalidParameter(path="sensitive", reason=reason)
        return changes

    def tell(self, request: Request, told: list[Json], row: Json) -> None:
        """Tell listeners, who do not hear what a sensitive rule does either."""
        super().tell(request, told, _hidden(row))


def _hidden(row: Json) -> Json:
    return {**row, "actions": None, "conditions": None} if row["sensitive"] else row
