"""Add holds: reasons to leave a node alone.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0017"
down_revision = "0016"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def _string(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table, which the release before does not read."""
    op.create_table(
        "holds",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column(
            "node_uuid",
            _string(36),
            sa.ForeignKey("nodes.uuid", ondelete="CASCADE", name="fk_holds_node_uuid"),
            nullable=False,
        ),
        sa.Column("kind", _string(32), nullable=False),
        sa.Column("reason", _string(255), nullable=False),
        sa.Column("blocks", _string(64), nullable=False),
        sa.Column("until", _TIME),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("created_by", _string(255)),
        sa.Column("project", _string(255)),
        sa.Column("ended_at", _TIME),
        sa.Column("ended_by", _string(255)),
        sa.Column("end_reason", _string(255)),
        sa.UniqueConstraint("uuid", name="uq_holds_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_holds_ended_at", "holds", ["ended_at"])
    op.create_index("ix_holds_node_uuid_ended_at", "holds", ["node_uuid", "ended_at"])
