"""Give terms of the search the owner and lessee of their node, and an index in the order of hits.

The terms of nodes with an owner are found again when conductors have repaired them. A migration is
frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

_TEXT = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")


def upgrade() -> None:
    """Append the columns, and replace the index."""
    for name in ("owner", "lessee"):
        op.add_column("search_terms", sa.Column(name, _TEXT))
    op.drop_index("ix_search_terms_term", "search_terms")
    op.create_index("ix_search_terms_term", "search_terms", ["term", "value", "field", "node_uuid"])
