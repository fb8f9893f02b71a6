"""Add webhooks and the deliveries that were put aside.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0020"
down_revision = "0019"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_JSON = sa.JSON(none_as_null=True)
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
    """Add the tables, which the release before does not read."""
    op.create_table(
        "webhooks",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("url", _string(1024), nullable=False),
        sa.Column("kinds", _JSON),
        sa.Column("nodes", _JSON),
        sa.Column("secret", _JSON, nullable=False),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger),
        sa.Column("last", sa.BigInteger),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("refusals", sa.Integer, nullable=False),
        sa.Column("not_before", _TIME),
        sa.Column("failing_since", _TIME),
        sa.Column("last_status", sa.Integer),
        sa.Column("last_error", _string(500)),
        sa.Column("created_by", _string(255)),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.UniqueConstraint("uuid", name="uq_webhooks_uuid"),
        **_OPTIONS,
    )
    op.create_table(
        "webhook_failures",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column(
            "webhook_uuid",
            _string(36),
            sa.ForeignKey(
                "webhooks.uuid", ondelete="CASCADE", name="fk_webhook_failures_webhook_uuid"
            ),
            nullable=False,
        ),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("answer", _string(500)),
        sa.Column("at", _TIME, nullable=False),
        **_OPTIONS,
    )
    op.create_index("ix_webhook_failures_webhook_uuid", "webhook_failures", ["webhook_uuid"])
