"""Runs of all nodes, the newest first, filtered by columns of the run and of its node.

Each page is one statement, after one for each filter by a column of the node. It walks along an
index of ``runs.started_at``, or enters the index of the node, the state, the code or the repeated
run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any, Unpack

import sqlalchemy as sa

from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import paging, runs
from ironic_lite.db.queries.paging import unindexed
from ironic_lite.db.tables import models

_RUN = models.runs.c
_NODE = models.nodes.c
_OF_NODES = (_NODE.driver, _NODE.resource_class)
_PROJECT = sa.bindparam(paging.OF_OWNER, type_=sa.String)
_VISIBLE = sa.or_(_NODE.owner == _PROJECT, _NODE.lessee == _PROJECT)
"""The condition that a project may see a node now, which its former owner may not."""
_FEW = 100
"""Nodes whose runs are all read and sorted, because a walk passes by the runs of all others."""
_TIME = _RUN.started_at.type
_MEMBER = models.batch_nodes.c
_RUNS_OF_BATCH = sa.select(_MEMBER.run_uuid).where(
    _MEMBER.batch_uuid == sa.bindparam("batch", type_=sa.String)
)


def _of_node(column: sa.Column[Any], *visible: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """Return the column of a run's node; a join might sort all runs of the nodes."""
    return sa.select(column).where(_NODE.uuid == _RUN.node_uuid, *visible).scalar_subquery()


def _of_nodes(column: sa.Column[Any], *visible: sa.ColumnElement[bool]) -> paging.Bound:
    """Return a filter for runs of the many nodes whose column is one of the values."""
    value = sa.bindparam(column.name, expanding=True, type_=column.type)
    return paging.Bound(_of_node(column, *visible).in_(value), list)


LISTING = paging.Listing(
    models.runs,
    {
        "since": paging.Bound(_RUN.started_at >= sa.bindparam("since", type_=_TIME)),
        "before": paging.Bound(_RUN.started_at < sa.bindparam("before", type_=_TIME)),
        **{column.name: _of_nodes(column) for column in _OF_NODES},
        "of_nodes": paging.any_of(_RUN.node_uuid, "of_nodes"),
        **paging.owner_filters(models.runs, runs.UNDER_WAY),
        "batch": paging.Bound(_RUN.uuid.in_(_RUNS_OF_BATCH)),
        # No run is newer than the newest. PostgreSQL expects few equal ones, and would sort them.
        "latest": paging.Switch(on=unindexed(_RUN.id) >= runs.NEWEST),
    },
    more={"node_name": _of_node(_NODE.name)},
)
_OF_PROJECT = dataclasses.replace(
    LISTING,
    filters={**LISTING.filters, **{one.name: _of_nodes(one, _VISIBLE) for one in _OF_NODES}},
    more={"node_name": _of_node(_NODE.name, _VISIBLE)},
)
"""The list for one project: of nodes that it may not see now, it has no name, driver or class."""


@cache
def _select_nodes(column: sa.Column[Any], of_project: bool) -> sa.Select[Any]:
    value = sa.bindparam("k_values", expanding=True, type_=column.type)
    wanted = (column.in_(value), *((_VISIBLE,) if of_project else ()))
    return sa.select(_NODE.uuid).where(*wanted).limit(_FEW + 1)


def _of_few_nodes(conn: Connection, where: RowView) -> RowView:
    """Return the filters with the nodes in place of the first column that few nodes share."""
    if "uuid" in where:
        return where
    for column in _OF_NODES:
        if column.name in where:
            values: Row = {"k_values": list(where[column.name])}
            project = {name: where[name] for name in (paging.OF_OWNER,) if name in where}
            chosen = _select_nodes(column, bool(project))
            found = conn.execute(chosen, values | project).scalars().all()
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
    **place: Unpack[paging.Place],
) -> list[Row]:
    """Return a page of 100 runs, the newest first unless ``place`` says otherwise.

    :param columns: of the run, and ``node_name``.
    :param where: columns of the run; ``since`` and ``before`` (its start), ``driver`` and
        ``resource_class`` of its node, ``of_owner`` (the owner of its time; of a run under way also
        the present owner or lessee; nodes that it may not see now have no name, driver or resource
        class), ``latest`` (True: only the newest run of each node), ``batch``
        (UUID).
    :raises errors.NotFound: no run that the owner may see is the marker.
    """
    listing = _OF_PROJECT if paging.OF_OWNER in where else LISTING
    place = {"direction": "desc", "limit": 100, **place}
    few = _of_few_nodes(conn, where)
    return listing.page(conn, columns=columns, where=few, sort="started_at", **place)
