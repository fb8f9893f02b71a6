"""Response bodies of lists (documents and the link to the next page) and of single members."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ironic_lite.api.resources import queries, views
from ironic_lite.api.service import Service
from ironic_lite.api.wire import render
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields

MOST_BYTES = 8 * 1024 * 1024
"""Bytes of the documents of a page. Without a limit, the rows of a few large nodes would fill the
memory of the API and of its clients.
"""


def query(
    service: Service, request: Request, resource: queries.Resource, *, detail: bool = False
) -> queries.Query:
    """Return the parsed arguments of a list request, as ``queries.listing``.

    :param detail: True for the ``/detail`` paths.
    :raises errors.Error: as ``queries.listing``.
    """
    return queries.listing(
        resource,
        request.query,
        version=request.version,
        max_limit=service.conf.api.max_limit,
        detail=detail,
    )


def narrowed(request: Request, where: JsonView, kind: str) -> Json:
    """Return the filters of a list, narrowed to the project whose ``kind`` the caller may list.

    :param kind: ``node``, ``port`` and so on, as in the rules ``baremetal:<kind>:list``; the
        family's query must have the filter ``project``.
    :raises errors.Forbidden: the caller may list nothing, or not the requested project.
    """
    project = request.access.only(where.get("project"), kind=kind)
    return {**where, "project": project} if project else dict(where)


def read(
    service: Service,
    request: Request,
    query: queries.Query,
    resource: views.Resource,
    page: Callable[..., list[Json]],
    *,
    where: JsonView | None = None,
) -> Json:
    """Return the body of a list, read by one statement.

    :param page: the query of the resource's family, such as ``db.queries.ports.page``.
    :param where: the filters, if they differ from ``query.where``.
    :raises errors.NotFound: the marker is not a row.
    """
    shown = plan(resource, request, query)
    rows = service.database.read(
        lambda conn: page(
            conn,
            columns=shown.columns,
            where=query.where if where is None else where,
            marker_id=query.marker,
            sort=query.sort,
            direction=query.direction,
            limit=query.limit,
        )
    )
    return answer(request, query, shown, rows)


def member(
    request: Request,
    resource: views.Resource,
    row: Json,
    chosen: tuple[str, ...] | None = None,
) -> Json:
    """Return the body for one member.

    :param row: all columns of its table.
    :param chosen: the fields to show; None for all fields of the request's version.
    """
    version = request.version
    names = chosen or tuple(field.name for field in fields.visible(resource.table, version))
    shown = views.plan(resource, names, version, full=chosen is None)
    kept = {column: row[column] for column in shown.columns}
    return shown.show(kept, views.linker(shown, request.base))


def plan(resource: views.Resource, request: Request, query: queries.Query) -> views.Plan:
    """Return the plan of a list; only lists in detail have link lists."""
    return views.plan(resource, query.fields, request.version, full=query.detail)


def answer(request: Request, query: queries.Query, shown: views.Plan, rows: Sequence[Json]) -> Json:
    """Return the body of a list: rows of ``shown.columns`` become documents in place.

    The resource must have no computed fields except links.
    """
    keys = [row[shown.key] for row in rows]
    linker = views.linker(shown, request.base)
    return body(request, query, shown.listed, shown.show_all(list(rows), linker), keys)


def body(
    request: Request, query: queries.Query, name: str, shown: list[Json], keys: Sequence[str]
) -> Json:
    """Return the body of a list, with the link to the next page unless this is the last.

    A page ends early, with a link, when its documents have `MOST_BYTES`.

    :param name: of the collection.
    :param keys: the identifiers of the documents ``shown``: markers of following pages.
    """
    count = len(shown)
    if len(render.items(shown)) > MOST_BYTES:
        count = len(fitting(shown))
    url = f"{request.base}/v1{request.path}"
    last, cut = keys[count - 1] if count else "", count < len(shown)
    link = queries.next_link(url, query, count, last, cut=cut)
    found = shown[:count]
    return {name: found, "next": link} if link else {name: found}


def fitting(shown: Sequence[Json], used: int = 0) -> list[bytes]:
    """Return the texts of the first documents that fit into a page.

    :param used: bytes that the page has already; a page without any has at least one document.
    """
    texts: list[bytes] = []
    for one in shown:
        text = render.items([one])
        used += len(text)
        if used > MOST_BYTES and used > len(text):
            break
        texts.append(text)
    return texts
