"""Create the table of deploy templates.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _text(name: str, length: int) -> sa.Column[str]:
    kind = sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
    """Create the table; the rows of other tables stay unchanged."""
    op.create_table(
        "deploy_templates",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        _text("uuid", 36),
        _text("name", 255),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("extra", sa.JSON()),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_deploy_templates"),
        sa.UniqueConstraint("uuid", name="uq_deploy_templates_uuid"),
        sa.UniqueConstraint("name", name="uq_deploy_templates_name"),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
    )
