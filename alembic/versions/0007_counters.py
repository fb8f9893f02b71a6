"""Let conductors store their counts of BMC calls with each heartbeat.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; conductors fill it."""
    op.add_column("conductors", sa.Column("counters", sa.JSON()))
