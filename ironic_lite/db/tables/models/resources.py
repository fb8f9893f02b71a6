"""Tables of resources beside nodes."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models import column
from ironic_lite.db.tables.models.column import metadata

deploy_templates = sa.Table(
    "deploy_templates",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.text("name", unique=True, nullable=False),
    # A list of steps, because they are only read and written with their template.
    column.encrypted_json("steps", nullable=False),
    column.json("extra"),
    *column.made(),
    **column.OPTIONS,
)

allocations = sa.Table(
    "allocations",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.text("name", unique=True),
    # A node has at most one allocation, which is deleted with it.
    sa.Column(
        "node_uuid",
        column.string(36),
        sa.ForeignKey("nodes.uuid", ondelete="CASCADE"),
        unique=True,
    ),
    column.text("state", 15, nullable=False, index=True),
    sa.Column("last_error", column.LongText),
    column.text("resource_class", 80, index=True),
    column.json("traits"),
    column.json("candidate_nodes"),
    column.text("owner", index=True),
    column.text("conductor"),  # that looks for a node
    column.json("extra"),
    *column.made(),
    **column.OPTIONS,
)

inspection_rules = sa.Table(
    "inspection_rules",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.text("description"),
    column.text("phase", 16, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    column.flag("sensitive"),
    # Lists, because they are only read and written with their rule.
    column.encrypted_json("conditions"),
    column.encrypted_json("actions", nullable=False),
    *column.made(),
    sa.Index("ix_inspection_rules_phase", "phase", "priority"),
    **column.OPTIONS,
)

runbooks = sa.Table(
    "runbooks",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.text("name", unique=True, nullable=False),
    column.text("description"),
    # Only read and written with their runbook, as the steps of a template.
    column.encrypted_json("steps", nullable=False),
    column.json("traits"),
    column.flag("disable_ramdisk"),
    column.flag("public"),
    column.text("owner", index=True),
    column.json("extra"),
    *column.made(),
    **column.OPTIONS,
)
