"""Add the table of numbers that the whole service shares.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def upgrade() -> None:
    """Add the table; the row ``trimmed`` is the largest id of an event that was removed."""
    name = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")
    op.create_table(
        "marks",
        sa.Column("name", name, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
        **_OPTIONS,
    )
    op.execute(sa.text("INSERT INTO marks (name, value) VALUES ('trimmed', 0)"))
