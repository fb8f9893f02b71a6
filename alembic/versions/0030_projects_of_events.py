"""Add the project of the requester to events.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the column, which the release before does not read."""
    text = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
    op.add_column("events", sa.Column("project", text))
