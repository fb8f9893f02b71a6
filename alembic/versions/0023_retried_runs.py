"""Add the run that a batch retries.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the column, which the release before does not read."""
    uuid = sa.String(36).with_variant(sa.String(36, collation="C"), "postgresql")
    op.add_column("batch_nodes", sa.Column("retry_of", uuid))
