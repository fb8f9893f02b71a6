"""Response bodies of lists (documents and the link to the next page) and of single members."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Sequence

from ironic_lite.api.http import refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import node_lookup, queries, run_documents, views
from ironic_lite.api.service import Service
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import paging
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
    if "cause" in where:
        where = {**where, **node_lookup.own_filters(request, run_documents.READ_OF_FLEET)}
    project = request.access.only(where.get("project"), kind=kind)
    return {**where, "project": project} if project else dict(where)


def read(
    service: Service,
    request: Request,
    query: queries.Query,
    resource: views.Resource,
    listing: paging.Listing,
    *,
    where: JsonView,
    complete: Callable[[list[Json]], None],
) -> Json:
    """Return the body of a list, read by one statement.

    The resource must have no computed fields except links.

    :param listing: of the resource's table.
    :param where: the filters, which may differ from ``query.where``.
    :param complete: changes documents in place, after their columns and links are set.
    :raises errors.NotFound: the marker is not a row.
    """
    shown = plan(resource, request, query)
    linker = views.linker(shown, request.base)

    def show(rows: list[Json]) -> list[Json]:
        documents = shown.show_all(rows, linker)
        complete(documents)
        return documents

    def read_page(conn: Connection) -> Page:
        parts = listing.parts(
            conn, columns=shown.columns, where=where, sort=query.sort, **query.place
        )
        return fill(parts, shown.key, show)

    return filled(request, query, shown.listed, service.database.read(read_page))


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


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """The documents of a page as texts of one or more; ``cut`` if it ends early, being large."""

    texts: list[bytes]
    count: int
    last: str
    cut: bool


def fill(parts: Generator[list[Json]], key: str, show: Callable[[list[Json]], list[Json]]) -> Page:
    """Return a page of `MOST_BYTES` at most; rows that it has no room for are not received.

    :param key: the column of markers.
    :param show: returns the documents of rows.
    """
    done: list[bytes] = []
    count, last, used = 0, "", 0
    with contextlib.closing(parts):
        for rows in parts:
            keys = [row[key] for row in rows]
            documents = show(rows)
            text = refusals.items(documents)
            if used + len(text) > MOST_BYTES:
                some = fitting(documents, used)
                last = keys[len(some) - 1] if some else last
                return Page([*done, *some], count + len(some), last, len(some) < len(keys))
            count, last, used = count + len(keys), keys[-1], used + len(text)
            done.append(text)
    return Page(done, count, last, False)


def filled(request: Request, query: queries.Query, name: str, page: Page) -> Json:
    """Return the body of a page, as `body`."""
    url = f"{request.base}/v1{request.path}"
    link = queries.next_link(url, query, page.count, page.last, cut=page.cut)
    found: Json = {name: refusals.joined(page.texts) if page.count else []}
    return {**found, "next": link} if link else found


def body(
    request: Request, query: queries.Query, name: str, shown: list[Json], keys: Sequence[str]
) -> Json:
    """Return the body of a list, with the link to the next page unless this is the last.

    A page ends early, with a link, when its documents have `MOST_BYTES`.

    :param name: of the collection.
    :param keys: the identifiers of the documents ``shown``: markers of following pages.
    """
    count = len(shown)
    if len(refusals.items(shown)) > MOST_BYTES:
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
        text = refusals.items([one])
        used += len(text)
        if used > MOST_BYTES and used > len(text):
            break
        texts.append(text)
    return texts
