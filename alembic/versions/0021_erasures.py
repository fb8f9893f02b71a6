"""Add the state of a node's data, and erasure records.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0021"
down_revision = "0020"

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
    """Add columns and tables, which the release before does not read."""
    with op.batch_alter_table("nodes") as nodes:
        nodes.add_column(sa.Column("data_state", _string(8), server_default="unknown"))
        nodes.add_column(sa.Column("data_state_at", _TIME))
        nodes.add_column(sa.Column("data_state_by", _string(36)))
    op.create_index("ix_nodes_data_state", "nodes", ["data_state"])
    text = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    text = text.with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "erasures",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("node_name", _string(255)),
        sa.Column("run_uuid", _string(36)),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("result", _string(16), nullable=False),
        sa.Column("level", _string(8), nullable=False),
        sa.Column("serials", sa.JSON(), nullable=False),
        sa.Column("statement", text, nullable=False),
        sa.Column("signature", _string(128)),
        sa.Column("key", _string(64)),
        sa.Column("sha256", _string(64), nullable=False),
        sa.UniqueConstraint("uuid", name="uq_erasures_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_erasures_node_uuid_id", "erasures", ["node_uuid", "id"])
    op.create_index("ix_erasures_at", "erasures", ["at"])
    op.create_index("ix_erasures_result_id", "erasures", ["result", "id"])
    op.create_table(
        "erasure_disks",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("erasure_uuid", _string(36), nullable=False),
        sa.Column("serial", _string(255), nullable=False),
        **_OPTIONS,
    )
    op.create_index("ix_erasure_disks_erasure_uuid", "erasure_disks", ["erasure_uuid"])
    op.create_index("ix_erasure_disks_serial", "erasure_disks", ["serial"])
    op.create_table(
        "evidence_keys",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("key", _string(64), nullable=False),
        sa.Column("pem", text, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.UniqueConstraint("key", name="uq_evidence_keys_key"),
        **_OPTIONS,
    )
