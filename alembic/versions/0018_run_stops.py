"""Add the stop that is asked for the run of a node.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0018"
down_revision = "0017"

_LONG = (
    sa.Text()
    .with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    .with_variant(sa.Text(collation="C"), "postgresql")
)


def upgrade() -> None:
    """Add the column, which the release before does not read."""
    op.add_column("nodes", sa.Column("run_stop", _LONG))
