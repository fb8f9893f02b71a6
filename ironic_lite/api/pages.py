"""Answer a list request: the rows shown, under their collection's name, and the link to go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ironic_lite.api import documents, queries
from ironic_lite.api.exchange import Request

Json = dict[str, Any]


def plan(resource: documents.Resource, request: Request, query: queries.Query) -> documents.Plan:
    """Return how the rows of a list are fetched and shown; only details have link lists."""
    return documents.plan(resource, query.fields, request.version, full=query.detail)


def answer(
    request: Request, query: queries.Query, shown: documents.Plan, rows: Sequence[Json]
) -> Json:
    """Return the body of a list: rows of ``shown.columns`` become documents in place.

    For resources without computed fields but links.
    """
    last = rows[-1][shown.key] if rows else ""
    linker = documents.linker(shown, request.base)
    found: Json = {shown.collection: shown.show_all(list(rows), linker)}
    link = queries.next_link(f"{request.base}/v1{request.path}", query, len(rows), last)
    return {**found, "next": link} if link else found
