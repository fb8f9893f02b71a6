"""Create the table of inspection rules.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_OPTIONS: Any = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def _text(name: str, length: int = 255, **more: Any) -> sa.Column[str]:
    kind = sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
    return sa.Column(name, kind, **more)


def upgrade() -> None:
    """Create the table; the rows of other tables stay unchanged."""
    op.create_table(
        "inspection_rules",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        _text("uuid", 36, nullable=False),
        _text("description"),
        _text("phase", 16, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("sensitive", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("conditions", sa.JSON()),
        sa.Column("actions", sa.JSON(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_inspection_rules"),
        sa.UniqueConstraint("uuid", name="uq_inspection_rules_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_inspection_rules_phase", "inspection_rules", ["phase", "priority"])
