"""Add indexes for lists of runs of all nodes.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Index runs by the code of their error with the start, and by the run they repeat."""
    op.create_index("ix_runs_code_started_at", "runs", ["code", "started_at"])
    op.create_index("ix_runs_retry_of", "runs", ["retry_of"])
