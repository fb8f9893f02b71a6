"""Create the table of the clean steps that agents have listed.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"

_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_UUID = sa.String(36).with_variant(sa.String(36, collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table; the rows of other tables stay unchanged."""
    op.create_table(
        "agent_steps",
        sa.Column("node_uuid", _UUID, nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("refreshed_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("node_uuid", name="pk_agent_steps"),
        sa.ForeignKeyConstraint(
            ["node_uuid"],
            ["nodes.uuid"],
            name="fk_agent_steps_node_uuid",
            ondelete="CASCADE",
        ),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
    )
