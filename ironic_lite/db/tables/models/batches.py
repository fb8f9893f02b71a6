"""Tables of batches, and of their nodes."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models import column
from ironic_lite.db.tables.models.column import metadata

batches = sa.Table(
    "batches",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.text("name"),
    column.text("state", 16, nullable=False),  # running, paused, done, aborted
    column.encrypted_json("request"),
    column.json("options"),
    sa.Column("wave", sa.Integer, nullable=False),
    sa.Column("max_failures", sa.Integer, nullable=False),
    sa.Column("forgiven", sa.Integer, nullable=False),  # failures before the last resume
    column.flag("abort_runs"),
    column.text("requester"),
    column.text("project"),
    column.json(
        "context"
    ),  # of the creator; later of the caller who resumes it, or aborts its runs
    column.text("paused_by"),
    *column.made(),
    column.time("ended_at", index=True),  # NULL: a conductor still has to look at it
    **column.OPTIONS,
)

batch_nodes = sa.Table(
    "batch_nodes",
    metadata,
    column.id_(),
    sa.Column(
        "batch_uuid",
        column.string(36),
        sa.ForeignKey("batches.uuid", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("place", sa.Integer, nullable=False),
    column.uuid("node_uuid", nullable=False),  # no foreign key: the result outlives the node
    column.uuid("open_uuid", unique=True),  # the node until it has ended: in one open batch at most
    column.text("name"),
    sa.Column("wave", sa.Integer, nullable=False),
    # pending, starting, running, done, failed, aborted, refused, skipped
    column.text("state", 16, nullable=False),
    column.text("was", 32),
    column.text("host"),
    column.text("request_id", 64),
    column.uuid("run_uuid", index=True),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    column.time("not_before"),
    column.json("error"),
    column.time("started_at"),
    column.time("ended_at"),
    column.uuid("retry_of"),  # the run that a retry continues: the newest when the batch was made
    # The node's owner and lessee when the rights of the caller were checked.
    column.text("owner"),
    column.text("lessee"),
    # The caller who has aborted the runs of the batch may not abort the run of this node.
    sa.Column("keeps_run", sa.Boolean),
    sa.UniqueConstraint("batch_uuid", "node_uuid", name="uq_batch_nodes_batch_uuid"),
    sa.Index("ix_batch_nodes_batch_uuid_state", "batch_uuid", "state", "wave", "place"),
    sa.Index("ix_batch_nodes_node_uuid_id", "node_uuid", "id"),
    **column.OPTIONS,
)
