"""Tables of erasure records: they outlive their nodes, and their rows never change."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models import column
from ironic_lite.db.tables.models.column import metadata

erasures = sa.Table(
    "erasures",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.uuid("node_uuid", nullable=False),  # no foreign key: a record outlives its node
    column.text("node_name"),
    column.uuid("run_uuid"),
    column.time("at", nullable=False),
    column.text("result", 16, nullable=False),  # complete, partial, failed, unknown
    column.text("level", 8, nullable=False),
    column.json("serials", nullable=False),
    sa.Column("statement", column.LongText, nullable=False),  # as it was signed
    column.text("signature", 128),  # hexadecimal
    column.text("key", 64),
    column.text("sha256", 64, nullable=False),  # of the statement
    column.text("owner"),  # of the node when the record was made, as the lessee
    column.text("lessee"),
    sa.Index("ix_erasures_node_uuid_id", "node_uuid", "id"),
    sa.Index("ix_erasures_at", "at"),
    sa.Index("ix_erasures_result_id", "result", "id"),
    sa.Index("ix_erasures_owner_id", "owner", "id"),
    **column.OPTIONS,
)

erasure_disks = sa.Table(
    "erasure_disks",
    metadata,
    column.id_(),
    column.uuid("erasure_uuid", nullable=False, index=True),
    column.text("serial", nullable=False, index=True),
    **column.OPTIONS,
)

evidence_keys = sa.Table(
    "evidence_keys",
    metadata,
    column.id_(),
    column.text("key", 64, unique=True, nullable=False),
    sa.Column("pem", column.LongText, nullable=False),
    column.time("created_at", nullable=False),
    **column.OPTIONS,
)
