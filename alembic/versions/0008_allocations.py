"""Create the table of allocations, and a column of nodes for their allocation.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0008"
down_revision = "0007"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_LONG = (
    sa.Text()
    .with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    .with_variant(sa.Text(collation="C"), "postgresql")
)
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
    """Add the column and create the table; no node has an allocation before."""
    op.add_column("nodes", _text("allocation_uuid", 36))
    op.create_table(
        "allocations",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        _text("uuid", 36, nullable=False),
        _text("name"),
        _text("node_uuid", 36),
        _text("state", 15, nullable=False),
        sa.Column("last_error", _LONG),
        _text("resource_class", 80),
        sa.Column("traits", sa.JSON()),
        sa.Column("candidate_nodes", sa.JSON()),
        _text("owner"),
        _text("conductor"),
        sa.Column("extra", sa.JSON()),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_allocations"),
        sa.UniqueConstraint("uuid", name="uq_allocations_uuid"),
        sa.UniqueConstraint("name", name="uq_allocations_name"),
        sa.UniqueConstraint("node_uuid", name="uq_allocations_node_uuid"),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_allocations_node_uuid", ondelete="CASCADE"
        ),
        **_OPTIONS,
    )
    for column in ("state", "resource_class", "owner"):
        op.create_index(f"ix_allocations_{column}", "allocations", [column])
