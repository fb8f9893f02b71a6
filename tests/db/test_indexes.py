"""Lists cost what they give: behind every filter stands an index.

``test_growth`` checks that SQLite enters the best one.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ironic_lite.api.resources import queries
from ironic_lite.db.tables.models.column import metadata

COLUMN_OF = {
    "associated": "instance_uuid",
    "sharded": "shard",
    "include_children": "parent_node",
    "node": "node_uuid",
    "portgroup": "portgroup_uuid",
    "since": "started_at",
    "before": "started_at",
    "latest": "node_uuid",
    "ended": "ended_at",
}
"""Filters that are told by a column of another name."""
TABLES = {"NODES_RUNS": "runs", "NODES_HOLDS": "holds", "NODES_ERASURES": "erasures"}
"""Resources whose table has another name."""
JOINED = {
    "driver": ("nodes", "driver"),
    "resource_class": ("nodes", "resource_class"),
    "shard": ("nodes", "shard"),
    "conductor_groups": ("nodes", "conductor_group"),
    "batch": ("batch_nodes", "batch_uuid"),
    "serial": ("erasure_disks", "serial"),
}
"""Filters of what belongs to nodes, by a column of the node or of its place in a batch."""
BOTH = {"NODES": ("owner", "lessee"), "RUNBOOKS": ("owner",), "RUNS": ("project",)}
"""What ``project`` is compared with."""
WITHOUT = {
    ("NODES", "conductor"),  # is worked out for each row: see api.resources.rosters
    ("NODES", "description_contains"),  # no index finds the middle of a text
    ("PORTS", "description_contains"),
    ("NODES_RUNS", "verb"),  # of one node, which has 300 runs
    ("RUNS", "overdue"),  # of the runs under way, by their state
    ("NODES", "held"),  # reads the holds in force
    # Of the holds in force, or of one node.
    *((name, "kind") for name in ("HOLDS", "NODES_HOLDS")),
    # At most 100 batches are open, and ended ones stay 90 days.
    *(("BATCHES", asked) for asked in ("state", "project", "requester", "name")),
    *(("BATCHES_NODES", asked) for asked in ("result", "wave")),  # of one batch
}


def led_by(table: sa.Table) -> set[str]:
    """Return the columns by which an index of the table is entered."""
    indexes = [[column.name for column in one.columns] for one in table.indexes]
    indexes += [
        [column.name for column in one.columns]
        for one in table.constraints
        if isinstance(one, sa.UniqueConstraint | sa.PrimaryKeyConstraint)
    ]
    return {columns[0] for columns in indexes if columns}


FILTERS = [
    (name, one.name)
    for name, resource in sorted(vars(queries).items())
    if isinstance(resource, queries.Resource)
    for one in resource.filters
    if (name, one.name) not in WITHOUT
]


def columns_of(name: str, asked: str) -> list[tuple[str, str]]:
    """Return table and column of what a filter compares."""
    table = TABLES.get(name, name.lower())
    if asked == "project":
        return [(table, column) for column in BOTH[name]]
    if (table, asked) == ("erasures", "since"):
        return [(table, "at")]
    if asked in JOINED and asked not in metadata.tables[table].c:
        return [JOINED[asked], (table, "node_uuid")]
    return [(table, COLUMN_OF.get(asked, asked))]


@pytest.mark.parametrize(("name", "asked"), FILTERS, ids=map(".".join, FILTERS))
def test_a_filter_has_an_index(name: str, asked: str) -> None:
    for table, column in columns_of(name, asked):
        assert column in led_by(metadata.tables[table]), f"{table}.{column}"
