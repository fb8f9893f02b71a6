"""Store in a conductor's row which start of the conductor writes it.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column; conductors fill it."""
    kind = sa.String(36).with_variant(sa.String(36, collation="C"), "postgresql")
    op.add_column("conductors", sa.Column("boot", kind))
