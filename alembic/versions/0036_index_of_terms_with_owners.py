"""Let the index of the search have the owner and the lessee of each term.

A search then reads no row of a term that the caller may not find. A migration is frozen: it does
not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from alembic import op

revision = "0036"
down_revision = "0035"

_COLUMNS = ["term", "value", "node_uuid", "owner", "lessee", "field"]
_LENGTH = {"field": 90}


def upgrade() -> None:
    """Replace the index."""
    name, table = "ix_search_terms_term", "search_terms"
    op.drop_index(name, table)
    op.create_index(name, table, _COLUMNS, mysql_length=_LENGTH, mariadb_length=_LENGTH)
