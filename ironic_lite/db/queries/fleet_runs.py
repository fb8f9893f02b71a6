"""Runs of all nodes, the newest first, filtered by columns of the run and of its node.

Each page is one statement, after one for each filter by a column of the node. It walks along an
index of ``runs.started_at``, or enters the index of the node, the state, the code or the repeated
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batches, paging, runs, whose
from ironic_lite.db.queries.unindexed import unindexed
from ironic_lite.db.tables import models

_RUN, _NODE = models.runs.c, models.nodes.c
_OTHER = models.runs.alias("other")
_OF_NODES = (_NODE.driver, _NODE.resource_class)
_FEW = 100
"""Nodes whose runs are all read and sorted, because a walk passes by the runs of all others."""
_TIME = _RUN.started_at.type


def _of_nodes(column: sa.Column[Any], name: str) -> paging.Bound:
    """Return a filter for runs of the many nodes whose column is one of the values.

    Each run of the walk looks its node up; a join might sort all runs of these nodes.
    """
    value = sa.bindparam(name, expanding=True, type_=column.type)
    found = sa.select(column).where(_NODE.uuid == _RUN.node_uuid).scalar_subquery()
    return paging.Bound(found.in_(value), list)


# The walk from the newest run meets the newest ones first, so a page looks at few others.
_NEWEST = (
    sa.select(sa.func.max(_OTHER.c.id))
    .where(_OTHER.c.node_uuid == _RUN.node_uuid)
    .correlate(models.runs)
    .scalar_subquery()
)
_NODE_NAME = sa.select(_NODE.name).where(_NODE.uuid == _RUN.node_uuid).scalar_subquery()

LISTING = paging.Listing(
    models.runs,
    {
        "since": paging.Bound(_RUN.started_at >= sa.bindparam("since", type_=_TIME)),
        "before": paging.Bound(_RUN.started_at < sa.bindparam("before", type_=_TIME)),
        **{column.name: _of_nodes(column, column.name) for column in _OF_NODES},
        "of_nodes": paging.any_of(_RUN.node_uuid, "of_nodes"),
        **whose.filters(models.runs, runs.UNDER_WAY),
        "batch": paging.Bound(batches.RUNS_OF_BATCH),
        # No run is newer than the newest. PostgreSQL expects few equal ones, and would sort them.
        "latest": paging.Switch(on=unindexed(_RUN.id) >= _NEWEST),
    },
    more={"node_name": _NODE_NAME},
)


@cache
def _select_nodes(column: sa.Column[Any]) -> sa.Select[Any]:
    value = sa.bindparam("k_values", expanding=True, type_=column.type)
    return sa.select(_NODE.uuid).where(column.in_(value)).limit(_FEW + 1)


def _of_few_nodes(conn: Connection, where: RowView) -> RowView:
    """Return the filters with the nodes in place of the first column that few nodes share."""
    if "uuid" in where:
        return where
    for column in _OF_NODES:
        if column.name in where:
            values = {"k_values": list(where[column.name])}
            found = conn.execute(_select_nodes(column), values).scalars().all()
            if len(found) <= _FEW:
                return {name: value for name, value in where.items() if name != column.name} | {
                    "of_nodes": found
                }
    return where


def page(
    conn: Connection,
    *,
    columns: Sequence[str],
    where: RowView,
    marker_id: str | None = None,
    direction: str = "desc",
    limit: int = 100,
) -> list[Row]:
    """Return a page of runs, the newest first unless ``direction`` is ``asc``.

    :param columns: of the run, and ``node_name``.
    :param where: columns of the run; ``since`` and ``before`` (its start), ``driver`` and
        ``resource_class`` of its node, ``of_owner`` (the owner of its time; of a run under way also
        the present owner or lessee), ``latest`` (True: only the newest run of each node), ``batch``
        (UUID).
    :param marker_id: UUID of the last run of the page before.
    :raises errors.NotFound: no run that the owner may see is the marker.
    """
    return LISTING.page(
        conn,
        columns=columns,
        where=_of_few_nodes(conn, where),
        marker_id=marker_id,
        sort="started_at",
        direction=direction,
        limit=limit,
    )
