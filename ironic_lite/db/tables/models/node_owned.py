"""Tables of resources that belong to a node, and are deleted with it."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models import column
from ironic_lite.db.tables.models.column import metadata

# Ports refer to portgroups without a foreign key, because the column is older than the table.
portgroups = sa.Table(
    "portgroups",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.text("name", unique=True),
    column.text("address", 64, unique=True),
    column.owner(),
    column.text("mode"),
    column.json("properties"),
    column.flag("standalone_ports_supported", default_false=False),
    column.text("physical_network", 64),
    column.text("category", 80),
    column.flag("dynamic_portgroup"),
    column.json("extra"),
    column.json("internal_info"),
    *column.made(),
    **column.OPTIONS,
)

volume_connectors = sa.Table(
    "volume_connectors",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.owner(),
    column.text("type", 32, nullable=False),
    column.text("connector_id", nullable=False),
    column.json("extra"),
    *column.made(),
    sa.UniqueConstraint("type", "connector_id"),
    **column.OPTIONS,
)

volume_targets = sa.Table(
    "volume_targets",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    sa.Column(
        "node_uuid",
        column.string(36),
        sa.ForeignKey("nodes.uuid", ondelete="CASCADE"),
        nullable=False,
    ),
    column.text("volume_type", 64, nullable=False),
    column.text("volume_id", 36, nullable=False),
    sa.Column("boot_index", sa.Integer, nullable=False),
    column.encrypted_json("properties"),
    column.json("extra"),
    *column.made(),
    sa.UniqueConstraint("node_uuid", "boot_index"),
    **column.OPTIONS,
)

holds = sa.Table(
    "holds",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    sa.Column(
        "node_uuid",
        column.string(36),
        sa.ForeignKey("nodes.uuid", ondelete="CASCADE"),
        nullable=False,
    ),
    column.text("kind", 32, nullable=False),
    column.text("reason", nullable=False),
    column.text("blocks", 64, nullable=False),  # words with commas
    column.time("until"),
    column.time("created_at", nullable=False),
    column.text("created_by"),
    column.text("project"),
    column.time("ended_at"),
    column.text("ended_by"),
    column.text("end_reason"),
    column.text("owner"),  # of the node when the hold began, as the lessee
    column.text("lessee"),
    sa.Index("ix_holds_ended_at", "ended_at"),
    sa.Index("ix_holds_node_uuid_ended_at", "node_uuid", "ended_at"),
    sa.Index("ix_holds_owner_id", "owner", "id"),
    **column.OPTIONS,
)
