"""Read a page of nodes by one statement, traits and all.

Only the filter ``conductor`` costs more: which conductor owns a node is computed, not stored, so
the nodes are walked in their order until enough of that conductor's have been met.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ironic_lite import ring
from ironic_lite.api.resources import documents, queries
from ironic_lite.api.service import Service
from ironic_lite.db import nodes
from ironic_lite.db.session import Connection

Row = dict[str, Any]

_OWNED_BY = ("uuid", "driver", "conductor_group")
_STRIDE = 1000


def read(
    conn: Connection, service: Service, query: queries.Query, plan: documents.Plan
) -> Iterator[list[Row]]:
    """Give the rows of a page some at a time, with ``traits`` if the plan shows them.

    :raises errors.NotFound: no node is the marker.
    """
    where = dict(query.where)
    host = where.pop("conductor", None)
    marker = query.marker
    if host is not None:
        where["uuids"] = _owned(conn, service, query, where, host)
        marker = None
    return nodes.parts(
        conn,
        columns=plan.columns,
        where=where,
        marker_id=marker,
        sort=query.sort,
        direction=query.direction,
        limit=query.limit,
        texts=plan.texts,
        with_traits="traits" in plan.computed,
    )


def _owned(
    conn: Connection, service: Service, query: queries.Query, where: Row, host: str
) -> list[str]:
    """Return the UUIDs of the page's nodes that ``host`` owns."""
    members = service.fleet.members()
    mine = [one for one in members if one.host == host]
    if not mine:
        return []
    among = {**where, "conductor_group": mine[0].group}
    if where.get("conductor_group", mine[0].group) != mine[0].group:
        return []
    found: list[str] = []
    marker = query.marker
    while len(found) < query.limit:
        rows = nodes.page(
            conn,
            columns=_OWNED_BY,
            where=among,
            marker_id=marker,
            sort=query.sort,
            direction=query.direction,
            limit=_STRIDE,
        )
        found += [
            row["uuid"]
            for row in rows
            if ring.owner(members, row["conductor_group"], row["driver"], row["uuid"]) == host
        ]
        if len(rows) < _STRIDE:
            break
        marker = rows[-1]["uuid"]
    return found[: query.limit]
