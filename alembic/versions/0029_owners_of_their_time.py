"""Add owner and lessee of the node to its events, runs, holds and erasure records.

Rows from before have neither: only callers of the system scope read them.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

_ORDERS = {"events": "id", "runs": "started_at", "holds": "id", "erasures": "id"}


def upgrade() -> None:
    """Add the columns, which the release before does not read, and an index by owner."""
    text = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
    for table, order in _ORDERS.items():
        op.add_column(table, sa.Column("owner", text))
        op.add_column(table, sa.Column("lessee", text))
        op.create_index(f"ix_{table}_owner_{order}", table, ["owner", order])
