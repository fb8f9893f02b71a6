"""Add the index of the requesters of events, for the filter of the feed.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Create the index in the order of the feed."""
    op.create_index("ix_events_requester_id", "events", ["requester", "id"])
