"""Add the owner and the lessee for which the rights of a batch were checked.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Add the columns. Pending nodes with an owner are skipped, because theirs is not known."""
    text = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
    op.add_column("batch_nodes", sa.Column("owner", text))
    op.add_column("batch_nodes", sa.Column("lessee", text))
    op.add_column("batch_nodes", sa.Column("keeps_run", sa.Boolean))
