"""Add the tables of the search for nodes.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"

_OPTIONS: Any = {
    f"{kind}_{name}": value
    for kind in ("mysql", "mariadb")
    for name, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


def _text(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables without rows; conductors fill them."""
    op.create_table(
        "search_changes",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("node_uuid", _text(36), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_search_changes"),
        **_OPTIONS,
    )
    op.create_table(
        "search_terms",
        sa.Column("node_uuid", _text(36), nullable=False),
        sa.Column("field", _text(128), nullable=False),
        sa.Column("term", _text(64), nullable=False),
        sa.Column("value", _text(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_uuid"],
            ["nodes.uuid"],
            name="fk_search_terms_node_uuid",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("node_uuid", "field", "term", name="pk_search_terms"),
        **_OPTIONS,
    )
    op.create_index("ix_search_terms_term", "search_terms", ["term"])
