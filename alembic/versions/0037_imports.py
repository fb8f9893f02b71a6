"""Add the table of imports from Ironic, and the import of each node.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0037"
down_revision = "0036"

_OPTIONS: Any = {
    f"{kind}_{name}": value
    for kind in ("mysql", "mariadb")
    for name, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _text(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table, append the column, and create its index."""
    op.create_table(
        "imports",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("uuid", _text(36), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("by", _text(255)),
        sa.Column("release", _text(255), nullable=False),
        sa.Column("head", _text(32), nullable=False),
        sa.Column("source", _text(1024), nullable=False),
        sa.Column("trial", sa.Boolean, nullable=False, server_default=sa.false()),
        *(
            sa.Column(name, sa.JSON(none_as_null=True), nullable=False)
            for name in ("selection", "maps", "left_out", "marks", "counts", "findings")
        ),
        sa.PrimaryKeyConstraint("id", name="pk_imports"),
        sa.UniqueConstraint("uuid", name="uq_imports_uuid"),
        **_OPTIONS,
    )
    op.add_column("nodes", sa.Column("import_uuid", _text(36)))
    op.create_index("ix_nodes_import_uuid", "nodes", ["import_uuid"])
