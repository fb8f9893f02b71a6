"""Add indexes that give a filtered list in the order of its pages.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Index nodes by state in the order of enrollment, and runs by the filters of their list."""
    op.create_index("ix_nodes_provision_state_id", "nodes", ["provision_state", "id"])
    for name in ("state", "verb", "requester", "project"):
        op.create_index(f"ix_runs_{name}_started_at", "runs", [name, "started_at"])
    op.drop_index("ix_runs_state", table_name="runs")
