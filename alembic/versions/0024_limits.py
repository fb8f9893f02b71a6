"""Add a row for each limited number of rows; an addition locks its row before it counts.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add the rows, which the release before does not read."""
    for name in ("webhooks", "batches"):
        op.execute(sa.text(f"INSERT INTO marks (name, value) VALUES ('{name}', 0)"))
