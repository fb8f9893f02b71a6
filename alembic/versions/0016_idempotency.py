"""Add the table of idempotency keys, and an index of runs by request.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0016"
down_revision = "0015"

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


def _text(name: str, length: int, *, nullable: bool = False) -> sa.Column[str]:
    kind = sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
    return sa.Column(name, kind, nullable=nullable)


def upgrade() -> None:
    """Create the table; index runs by the request that opened them."""
    op.create_table(
        "idempotency",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        _text("caller", 64),
        _text("key", 64),
        _text("fingerprint", 64),
        _text("request_id", 64),
        _text("subject_uuid", 36),
        sa.Column("attempt", sa.Integer, nullable=False),
        _text("state", 16),
        sa.Column("busy_until", _TIME, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("headers", sa.JSON(none_as_null=True)),
        sa.Column("body", sa.JSON(none_as_null=True)),
        sa.Column("created_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_idempotency"),
        sa.UniqueConstraint("caller", "key", name="uq_idempotency_caller"),
        **_OPTIONS,
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"])
    op.create_index("ix_runs_request_id", "runs", ["request_id"])
