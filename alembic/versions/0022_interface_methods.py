"""Add the methods of the contract that an interface of a conductor implements.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0022"
down_revision = "0021"

_LONG = (
    sa.Text()
    .with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    .with_variant(sa.Text(collation="C"), "postgresql")
)


def upgrade() -> None:
    """Add the column, which the release before neither reads nor writes."""
    op.add_column("hardware_interfaces", sa.Column("methods", _LONG))
