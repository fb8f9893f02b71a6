"""Add the index of the filter for the health of nodes.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Create the index in the order of the list, as those of the other filters."""
    op.create_index("ix_nodes_health_id", "nodes", ["health", "id"])
