"""Tables of webhooks: receivers of events, and the deliveries that were put aside."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models import column
from ironic_lite.db.tables.models.column import metadata

webhooks = sa.Table(
    "webhooks",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.text("url", 1024, nullable=False),
    column.json("kinds"),
    column.json("nodes"),
    column.encrypted_json("secret", nullable=False),
    column.text("state", 16, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    # The delivered events end at `position`; the delivery under way has the events first to last.
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("first", sa.BigInteger),
    sa.Column("last", sa.BigInteger),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("refusals", sa.Integer, nullable=False),
    column.time("not_before"),
    column.time("failing_since"),
    sa.Column("last_status", sa.Integer),
    column.text("last_error", 500),
    column.text("created_by"),
    *column.made(),
    **column.OPTIONS,
)

webhook_failures = sa.Table(
    "webhook_failures",
    metadata,
    column.id_(),
    sa.Column(
        "webhook_uuid",
        column.string(36),
        sa.ForeignKey("webhooks.uuid", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("status", sa.Integer),
    column.text("answer", 500),
    column.time("at", nullable=False),
    **column.OPTIONS,
)
