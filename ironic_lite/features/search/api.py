"""The search for nodes, which Ironic does not have."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import pages
from ironic_lite.api.service import Extension, Service
from ironic_lite.api.validation import types
from ironic_lite.core.json_types import Json
from ironic_lite.features.search import rows, rules

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

MOST = 100
_USUAL = 20
_PARTS = 5
_SEES_ALL = "baremetal:node:get:filter_threshold"
_RULES: Mapping[str, tuple[str, ...]] = {
    "driver_info": (_SEES_ALL, "baremetal:node:get:driver_info"),
    "inventory": ("baremetal:node:inventory:get",),
}
"""Rules for reading a source, of which one suffices; who sees a node reads the other sources."""


class Search(expose.Controller):
    """/v1/search."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        rows.attach(service.database.engine)

    @expose.expose("GET", "/search", types.word, types.integer)
    def index(self, request: Request, q: str | None = None, limit: int = _USUAL) -> Json:
        """Return the nodes of which a value, or one of its words, starts with a text."""
        text = rules.query(q)
        if not 1 <= limit <= MOST:
            raise errors.InvalidParameter(path="limit", reason=f"must be 1 to {MOST}")
        project = pages.narrowed(request, {}, "node").get("project")
        readable = _readable(request)
        self._settle()
        hits, more = self.service.database.read(
            lambda conn: rows.search(conn, text, limit=limit, project=project, readable=readable)
        )
        return {"hits": [hit._asdict() for hit in hits], "more": more}

    def _settle(self) -> None:
        """Make the terms of changed nodes; of many at once, conductors make the others.

        While the database refuses writes, these nodes are found by their former values.
        """
        database = self.service.database
        for _ in range(_PARTS):
            some = database.read(lambda conn: rows.changes(conn, rows.TOGETHER))
            if not some:
                return
            try:
                database.write(functools.partial(rows.settle, some=some))
            except errors.Unavailable:
                return


def _readable(request: Request) -> dict[str, rows.Sides]:
    """Return the sources that the caller may read only of nodes of a project."""
    found: dict[str, rows.Sides] = {}
    for source, names in _RULES.items():
        sides = [request.access.own_sides(name) for name in names]
        known = [one for one in sides if one is not None]
        if len(known) == len(sides):
            found[source] = {
                side: next((one[side] for one in known if one[side]), None) for side in OWNERS
            }
    return found


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.answers import TEXT, TEXT_OR_NULL  # noqa: PLC0415
    from ironic_lite.api.openapi.parts import Schemas, object_with_all  # noqa: PLC0415

    hit = object_with_all(
        uuid=TEXT, name=TEXT_OR_NULL, field=TEXT, value=TEXT, provision_state=TEXT
    )
    answer = object_with_all(hits={"type": "array", "items": hit}, more={"type": "boolean"})
    query: Json = {
        "q": {"type": "string", "minLength": rules.SHORTEST, "maxLength": rules.LONGEST},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": _USUAL},
    }
    return {"GET /search": Schemas(answer, query=query)}


EXTENSION = Extension((Search,), answers=_answers)
