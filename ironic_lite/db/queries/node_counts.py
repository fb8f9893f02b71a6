"""Counts of nodes, for monitoring."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models
from ironic_lite.domain.erasure_records import DataState

_NODE = models.nodes.c
_KEYS = (_NODE.provision_state, _NODE.maintenance, _NODE.data_state)
_NODES = sa.select(*_KEYS, sa.func.count()).group_by(*_KEYS).order_by(*_KEYS)


class NodeCounts(NamedTuple):
    """Numbers of nodes: by provision state and maintenance, and by data_state."""

    states: list[tuple[str, bool, int]]
    data_states: dict[str, int]


def nodes(conn: Connection) -> NodeCounts:
    """Return the numbers of nodes, by one statement that reads all nodes."""
    states: dict[tuple[str, bool], int] = {}
    data = {str(state): 0 for state in DataState}
    for state, put, data_state, count in conn.execute(_NODES):
        states[state, bool(put)] = states.get((state, bool(put)), 0) + int(count)
        data[data_state or DataState.UNKNOWN] += int(count)
    return NodeCounts([(state, put, count) for (state, put), count in states.items()], data)
