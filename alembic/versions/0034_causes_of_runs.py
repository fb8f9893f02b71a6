"""Add the key of a failed run's cause, and the index of its filter.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

_KEY = sa.String(12).with_variant(sa.String(12, collation="C"), "postgresql")


def upgrade() -> None:
    """Append the column, and create the index in the order of the list of runs."""
    op.add_column("runs", sa.Column("cause", _KEY))
    op.create_index("ix_runs_cause_started_at", "runs", ["cause", "started_at"])
