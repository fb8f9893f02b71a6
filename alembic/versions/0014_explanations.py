"""Add what explains a run: its list, log and cause, and who holds a node's lock.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = "0013"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_LONG = (
    sa.Text()
    .with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    .with_variant(sa.Text(collation="C"), "postgresql")
)
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
    """Add nullable columns, indexes and the table of lines; the release before goes on writing."""
    op.add_column("nodes", sa.Column("locked_at", _TIME))
    op.add_column("nodes", sa.Column("lock_note", _string(255)))
    op.add_column("runs", sa.Column("code", _string(64)))
    op.add_column("runs", sa.Column("retry_of", _string(36)))
    op.add_column("runs", sa.Column("listed", sa.JSON))
    op.create_index("ix_runs_started_at", "runs", ["started_at"])
    op.add_column("run_steps", sa.Column("done_in", _string(36)))
    op.add_column("run_steps", sa.Column("waiver", sa.JSON))
    op.add_column("run_steps", sa.Column("overdue_at", _TIME))
    op.create_index("ix_run_steps_interface_step_id", "run_steps", ["interface", "step", "id"])
    op.create_table(
        "run_logs",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column(
            "run_uuid",
            _string(36),
            sa.ForeignKey("runs.uuid", ondelete="CASCADE", name="fk_run_logs_run_uuid"),
            nullable=False,
        ),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("text", _LONG, nullable=False),
        **_OPTIONS,
    )
    op.create_index("ix_run_logs_run_uuid_id", "run_logs", ["run_uuid", "id"])
