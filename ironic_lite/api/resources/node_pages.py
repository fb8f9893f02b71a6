"""Read a page of nodes, including traits, by one statement.

Only the filter ``conductor`` needs more statements. The owner of a node is computed, not stored, so
nodes are read in their order until enough of them belong to that conductor.
"""

from __future__ import annotations

from collections.abc import Generator

from ironic_lite.api.resources import queries, views
from ironic_lite.api.service import Service
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes
from ironic_lite.membership import ring

_OWNED_BY = ("uuid", "driver", "conductor_group")
_STRIDE = 1000


def read(
    conn: Connection, service: Service, query: queries.Query, plan: views.Plan
) -> Generator[list[Row]]:
    """Yield the rows of a page in parts, with ``traits`` if the plan shows them.

    :raises errors.NotFound: the marker is not a node.
    """
    where = dict(query.where)
    host = where.pop("conductor", None)
    marker = query.marker
    if host is not None:
        where["uuids"] = _owned_nodes(conn, service, query, where, host)
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


def _owned_nodes(
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
    marker, owners = query.marker, ring.Ring(members)
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
            if owners.owner(row["conductor_group"], row["driver"], row["uuid"]) == host
        ]
        if len(rows) < _STRIDE:
            break
        marker = rows[-1]["uuid"]
    return found[: query.limit]
