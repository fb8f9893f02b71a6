"""Add the pin of a node's agent and the time of its last heartbeat, which the API writes.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0039"
down_revision = "0038"

_PIN = sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql")
_GENERATION = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Append the columns."""
    op.add_column("nodes", sa.Column("agent_pin", _PIN))
    op.add_column("nodes", sa.Column("agent_pin_generation", _GENERATION))
    op.add_column("nodes", sa.Column("agent_heard_at", _TIME))
