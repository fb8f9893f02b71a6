"""Add batches: one request for many nodes.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0019"
down_revision = "0018"

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
    """Add the tables, which the release before does not read."""
    op.create_table(
        "batches",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("name", _string(255)),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("request", sa.JSON()),
        sa.Column("options", sa.JSON()),
        sa.Column("wave", sa.Integer, nullable=False),
        sa.Column("max_failures", sa.Integer, nullable=False),
        sa.Column("forgiven", sa.Integer, nullable=False),
        sa.Column("abort_runs", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("requester", _string(255)),
        sa.Column("project", _string(255)),
        sa.Column("context", sa.JSON()),
        sa.Column("paused_by", _string(255)),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.UniqueConstraint("uuid", name="uq_batches_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_batches_ended_at", "batches", ["ended_at"])
    op.create_table(
        "batch_nodes",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column(
            "batch_uuid",
            _string(36),
            sa.ForeignKey("batches.uuid", ondelete="CASCADE", name="fk_batch_nodes_batch_uuid"),
            nullable=False,
        ),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("open_uuid", _string(36)),
        sa.Column("name", _string(255)),
        sa.Column("wave", sa.Integer, nullable=False),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("was", _string(32)),
        sa.Column("host", _string(255)),
        sa.Column("request_id", _string(64)),
        sa.Column("run_uuid", _string(36)),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("not_before", _TIME),
        sa.Column("error", sa.JSON()),
        sa.Column("started_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.UniqueConstraint("batch_uuid", "node_uuid", name="uq_batch_nodes_batch_uuid"),
        sa.UniqueConstraint("open_uuid", name="uq_batch_nodes_open_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_batch_nodes_run_uuid", "batch_nodes", ["run_uuid"])
    op.create_index(
        "ix_batch_nodes_batch_uuid_state", "batch_nodes", ["batch_uuid", "state", "wave", "place"]
    )
    op.create_index("ix_batch_nodes_node_uuid_id", "batch_nodes", ["node_uuid", "id"])
