"""Create the tables of portgroups, volume connectors and volume targets.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0010"
down_revision = "0009"

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


def upgrade() -> None:
    """Create the tables; the rows of other tables stay unchanged."""
    op.create_table(
        "portgroups",
        *_key(),
        _text("name", 255),
        _text("address", 64),
        _text("node_uuid", 36, nullable=False),
        _text("mode", 255),
        sa.Column("properties", sa.JSON()),
        sa.Column(
            "standalone_ports_supported", sa.Boolean(), nullable=False, server_default=sa.true()
        ),
        _text("physical_network", 64),
        _text("category", 80),
        sa.Column("dynamic_portgroup", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("extra", sa.JSON()),
        sa.Column("internal_info", sa.JSON()),
        *_made(),
        *_keys("portgroups"),
        sa.UniqueConstraint("name", name="uq_portgroups_name"),
        sa.UniqueConstraint("address", name="uq_portgroups_address"),
        **_OPTIONS,
    )
    op.create_index("ix_portgroups_node_uuid", "portgroups", ["node_uuid"])
    op.create_table(
        "volume_connectors",
        *_key(),
        _text("node_uuid", 36, nullable=False),
        _text("type", 32, nullable=False),
        _text("connector_id", 255, nullable=False),
        sa.Column("extra", sa.JSON()),
        *_made(),
        *_keys("volume_connectors"),
        sa.UniqueConstraint("type", "connector_id", name="uq_volume_connectors_type"),
        **_OPTIONS,
    )
    op.create_index("ix_volume_connectors_node_uuid", "volume_connectors", ["node_uuid"])
    op.create_table(
        "volume_targets",
        *_key(),
        _text("node_uuid", 36, nullable=False),
        _text("volume_type", 64, nullable=False),
        _text("volume_id", 36, nullable=False),
        sa.Column("boot_index", sa.Integer(), nullable=False),
        sa.Column("properties", sa.JSON()),
        sa.Column("extra", sa.JSON()),
        *_made(),
        *_keys("volume_targets"),
        sa.UniqueConstraint("node_uuid", "boot_index", name="uq_volume_targets_node_uuid"),
        **_OPTIONS,
    )


def _text(name: str, length: int, *, nullable: bool = True) -> sa.Column[str]:
    kind = sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
    return sa.Column(name, kind, nullable=nullable)


def _key() -> tuple[sa.Column[Any], ...]:
    return sa.Column("id", _BIG, autoincrement=True, nullable=False), _text(
        "uuid", 36, nullable=False
    )


def _made() -> tuple[sa.Column[Any], ...]:
    return sa.Column("created_at", _TIME, nullable=False), sa.Column("updated_at", _TIME)


def _keys(table: str) -> tuple[Any, ...]:
    owner = sa.ForeignKeyConstraint(
        ["node_uuid"], ["nodes.uuid"], name=f"fk_{table}_node_uuid", ondelete="CASCADE"
    )
    return (
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("uuid", name=f"uq_{table}_uuid"),
        owner,
    )
