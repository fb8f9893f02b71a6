"""Index the runs of a node by their order, for constant cost at any age.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Replace the index; the new one comes first, since MariaDB's foreign key needs one of them."""
    op.create_index("ix_runs_node_uuid_id", "runs", ["node_uuid", "id"])
    op.drop_index("ix_runs_node_uuid", "runs")
