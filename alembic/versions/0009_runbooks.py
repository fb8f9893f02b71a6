"""Create the table of runbooks.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0009"
down_revision = "0008"

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


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false())


def upgrade() -> None:
    """Create the table; the rows of other tables stay unchanged."""
    op.create_table(
        "runbooks",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        _text("uuid", 36, nullable=False),
        _text("name", nullable=False),
        _text("description"),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("traits", sa.JSON()),
        _flag("disable_ramdisk"),
        _flag("public"),
        _text("owner"),
        sa.Column("extra", sa.JSON()),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_runbooks"),
        sa.UniqueConstraint("uuid", name="uq_runbooks_uuid"),
        sa.UniqueConstraint("name", name="uq_runbooks_name"),
        **_OPTIONS,
    )
    op.create_index("ix_runbooks_owner", "runbooks", ["owner"])
