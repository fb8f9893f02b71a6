"""Response bodies of lists (documents and the link to the next page) and of single members."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ironic_lite.api.resources import queries, views
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import fields


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
    last = rows[-1][shown.key] if rows else ""
    linker = views.linker(shown, request.base)
    return body(request, query, shown.listed, shown.show_all(list(rows), linker), last)


def body(request: Request, query: queries.Query, name: str, shown: list[Json], last: str) -> Json:
    """Return the body of a list, with the link to the next page unless this is the last.

    :param name: of the collection.
    :param last: the identifier of the last of the documents ``shown``: the next page's marker.
    """
    link = queries.next_link(f"{request.base}/v1{request.path}", query, len(shown), last)
    return {name: shown, "next": link} if link else {name: shown}
