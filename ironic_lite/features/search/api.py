"""The search for nodes, which Ironic does not have."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import OWNERS, Access
from ironic_lite.api.resources import pages
from ironic_lite.api.service import Extension, Service
from ironic_lite.api.validation import types
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.features.search import rows, rules

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

LOG = logging.getLogger(__name__)
MOST = 100
_USUAL = 20
_SETTLED = 5
_RULES = {
    "driver_info": "baremetal:node:get:driver_info",
    "inventory": "baremetal:node:inventory:get",
}
"""Rules for reading a source; a caller who sees a node reads the other sources."""


class Search(expose.Controller):
    """/v1/search."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        rows.attach(service.database.engine)

    @expose.expose("GET", "/search", types.word, types.integer)
    def index(self, request: Request, q: str | None = None, limit: int = _USUAL) -> Json:
        """Return the nodes of which a value, or one of its words, starts with a text."""
        forms = rules.query(q)
        if not 1 <= limit <= MOST:
            raise errors.InvalidParameter(path="limit", reason=f"must be 1 to {MOST}")
        project = pages.narrowed(request, {}, "node").get("project")
        readable = _readable(request.access)
        self._settle()
        hits, more = self.service.database.read(
            lambda conn: rows.search(conn, forms, limit=limit, project=project, readable=readable)
        )
        return {"hits": [hit._asdict() for hit in hits], "more": more}

    def _settle(self) -> None:
        """Make the terms of a few changed nodes, so that a client finds what it has just written.

        Conductors make the others, and those that fail here, of which they write a log.
        """
        database = self.service.database
        some = database.read(lambda conn: rows.changes(conn, _SETTLED))
        if some:
            try:
                database.write(functools.partial(rows.settle, some=some))
            except Exception:  # such as a database that refuses writes, or a missing key
                LOG.debug("The terms of changed nodes are left to conductors", exc_info=True)


def _readable(access: Access) -> dict[str, rows.Sides]:
    """Return the sources that the caller may read only of nodes of a project; and ``port``."""
    limited = {source: access.own_sides(name) for source, name in _RULES.items()}
    if access.allows("baremetal:node:get:filter_threshold"):
        del limited["driver_info"]
    try:
        project = access.only(kind="port")
    except errors.Forbidden:
        limited["port"] = dict.fromkeys(OWNERS)
    else:
        limited["port"] = dict.fromkeys(OWNERS, project) if project else None
    return {source: sides for source, sides in limited.items() if sides is not None}


def serials(conn: Connection, request: Request, nodes: Sequence[str]) -> Mapping[str, str]:
    """Return the serial numbers of the machines of some nodes that the caller may read."""
    return rows.serials(conn, nodes, request.access.own_sides(_RULES["inventory"]))


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


EXTENSION = Extension((Search,), answers=_answers, of_nodes={"serial": serials})
