"""Create the tables of firmware settings and of firmware versions.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"

_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_UUID = sa.String(36).with_variant(sa.String(36, collation="C"), "postgresql")
_WORD = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
_TEXT = (
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


def upgrade() -> None:
    """Create the tables; the rows of other tables stay unchanged."""
    op.create_table(
        "bios_settings",
        sa.Column("node_uuid", _UUID, nullable=False),
        sa.Column("name", _WORD, nullable=False),
        sa.Column("value", _TEXT),
        sa.Column("attribute_type", _WORD),
        sa.Column("allowable_values", sa.JSON()),
        sa.Column("lower_bound", sa.BigInteger()),
        sa.Column("upper_bound", sa.BigInteger()),
        sa.Column("min_length", sa.BigInteger()),
        sa.Column("max_length", sa.BigInteger()),
        sa.Column("read_only", sa.Boolean()),
        sa.Column("reset_required", sa.Boolean()),
        sa.Column("unique", sa.Boolean()),
        *_made(),
        sa.PrimaryKeyConstraint("node_uuid", "name", name="pk_bios_settings"),
        _of_node("bios_settings"),
        **_OPTIONS,
    )
    op.create_table(
        "firmware_components",
        sa.Column("node_uuid", _UUID, nullable=False),
        sa.Column("component", _WORD, nullable=False),
        sa.Column("initial_version", _WORD, nullable=False),
        sa.Column("current_version", _WORD),
        sa.Column("last_version_flashed", _WORD),
        sa.Column("vendor", _WORD),
        sa.Column("model", _WORD),
        sa.Column("serial_number", _WORD),
        *_made(),
        sa.PrimaryKeyConstraint("node_uuid", "component", name="pk_firmware_components"),
        _of_node("firmware_components"),
        **_OPTIONS,
    )


def _made() -> tuple[sa.Column[object], ...]:
    return sa.Column("created_at", _TIME, nullable=False), sa.Column("updated_at", _TIME)


def _of_node(table: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_node_uuid"
    return sa.ForeignKeyConstraint(["node_uuid"], ["nodes.uuid"], name=name, ondelete="CASCADE")
