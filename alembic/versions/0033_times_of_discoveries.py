"""Give discoveries under way the time by which the conductor ends them.

Nodes that were enrolled for unknown machines had none. A migration is frozen: it does not follow
``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Let them begin with their node."""
    op.execute(
        sa.text(
            "UPDATE nodes SET provision_updated_at = created_at WHERE provision_state = 'enroll' "
            "AND run_uuid IS NOT NULL AND provision_updated_at IS NULL"
        )
    )
