"""Answer a list request: the rows shown, under their collection's name, and the link to go on; and
a request for one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ironic_lite import fields
from ironic_lite.api.resources import documents, queries
from ironic_lite.api.service import Service
from ironic_lite.api.wire.exchange import Request

Json = dict[str, Any]


def query(
    service: Service, request: Request, resource: queries.Resource, *, detail: bool = False
) -> queries.Query:
    """Return a list request, understood, as ``queries.listing``.

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


def narrowed(request: Request, where: Mapping[str, Any], kind: str) -> Json:
    """Return the filters of a list, narrowed to the project whose ``kind`` the caller may list.

    :param kind: ``node``, ``port`` and so on, as the rules ``baremetal:<kind>:list`` have it; the
        family's query must know the filter ``project``.
    :raises errors.Forbidden: the caller may list none, or not what they ask for.
    """
    project = request.access.only(where.get("project"), kind=kind)
    return {**where, "project": project} if project else dict(where)


def read(
    service: Service,
    request: Request,
    query: queries.Query,
    resource: documents.Resource,
    page: Callable[..., list[Json]],
    *,
    where: Mapping[str, Any] | None = None,
) -> Json:
    """Return the body of a list, read by one statement.

    :param page: the query of the resource's family, such as ``db.ports.page``.
    :param where: what it is asked for, if that is not ``query.where``.
    :raises errors.NotFound: no row is the marker.
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
    resource: documents.Resource,
    row: Json,
    chosen: tuple[str, ...] | None = None,
) -> Json:
    """Return the body for one member.

    :param row: all columns of its table.
    :param chosen: the fields to show; None for all that the request's version has.
    """
    version = request.version
    names = chosen or tuple(field.name for field in fields.visible(resource.table, version))
    shown = documents.plan(resource, names, version, full=chosen is None)
    kept = {column: row[column] for column in shown.columns}
    return shown.show(kept, documents.linker(shown, request.base))


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
    return body(request, query, shown.listed, shown.show_all(list(rows), linker), last)


def body(request: Request, query: queries.Query, name: str, shown: list[Json], last: str) -> Json:
    """Return the body of a list, with the link to go on unless this is the last page.

    :param name: of the collection.
    :param last: what identifies the last of the documents ``shown``, the next page's marker.
    """
    link = queries.next_link(f"{request.base}/v1{request.path}", query, len(shown), last)
    return {name: shown, "next": link} if link else {name: shown}
