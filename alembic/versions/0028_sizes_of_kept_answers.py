"""Add the size of kept answers, with an index that sums it for each caller.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Add the column, which the release before does not write, and its index."""
    op.add_column("idempotency", sa.Column("size", sa.Integer))
    op.create_index("ix_idempotency_caller_size", "idempotency", ["caller", "size"])
