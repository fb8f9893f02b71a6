"""Let the index of a filter give its nodes in the order of the list, and one index count nodes.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"

_FILTERS = (
    *("driver", "maintenance", "fault", "conductor_group", "resource_class", "retired"),
    *("owner", "lessee", "shard", "data_state"),
)


def upgrade() -> None:
    """Add the order of enrollment to the indexes, and an index with all columns of the counts."""
    for name in _FILTERS:
        op.create_index(f"ix_nodes_{name}_id", "nodes", [name, "id"])
        op.drop_index(f"ix_nodes_{name}", table_name="nodes")
    counted = ["provision_state", "maintenance", "data_state", "parent_node"]
    op.create_index("ix_nodes_counts", "nodes", counted)
