"""Tables of features: batches, erasure records, webhooks, terms of the search, and imports."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models import column

# Tables of batches, and of their nodes.

batches = column.table(
    "batches",
    *column.keys(),
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
)

batch_nodes = column.table(
    "batch_nodes",
    column.id_(),
    column.reference("batch_uuid", "batches.uuid", nullable=False),
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
)


# Tables of erasure records: they outlive their nodes, and their rows never change.

erasures = column.table(
    "erasures",
    *column.keys(),
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
)

erasure_disks = column.table(
    "erasure_disks",
    column.id_(),
    column.uuid("erasure_uuid", nullable=False, index=True),
    column.text("serial", nullable=False, index=True),
)

evidence_keys = column.table(
    "evidence_keys",
    column.id_(),
    column.text("key", 64, unique=True, nullable=False),
    sa.Column("pem", column.LongText, nullable=False),
    column.time("created_at", nullable=False),
)


# Tables of webhooks: receivers of events, and the deliveries that were put aside.

webhooks = column.table(
    "webhooks",
    *column.keys(),
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
)

webhook_failures = column.table(
    "webhook_failures",
    column.id_(),
    column.reference("webhook_uuid", "webhooks.uuid", nullable=False, index=True),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("status", sa.Integer),
    column.text("answer", 500),
    column.time("at", nullable=False),
)


# Nodes whose terms are to be made, and terms of the search. A term is the end of a value from a
# word on, so that an index finds words.

search_changes = column.table(
    "search_changes",
    column.id_(),
    column.uuid("node_uuid", nullable=False),  # no foreign key, which would cost each write
)

search_terms = column.table(
    "search_terms",
    column.of_node(),
    sa.Column("field", column.string(128), primary_key=True),  # name, extra.rack ...
    sa.Column("term", column.string(64), primary_key=True),  # in lower case
    column.text("value", 64, nullable=False),  # the whole value
    # The node's owner and lessee when the term was made: only they find it.
    column.text("owner"),
    column.text("lessee"),
    # All that a search asks of a term, so that it passes by those of other projects quickly.
    # MariaDB has no room for the whole field, and finds it in the primary key.
    sa.Index(
        *("ix_search_terms_term", "term", "value", "node_uuid", "owner", "lessee", "field"),
        mysql_length={"field": 90},
        mariadb_length={"field": 90},
    ),
)


# Imports from Ironic, each written in the transaction of the rows that it added. Nodes name theirs.

imports = column.table(
    "imports",
    *column.keys(),
    column.time("at", nullable=False),
    column.text("by"),  # the user of the command
    column.text("release", nullable=False),  # of Ironic, such as "35 (2026.1)"
    column.text("head", 32, nullable=False),
    column.text("source", 1024, nullable=False),  # URL without a password
    column.flag("trial"),
    column.json("selection", nullable=False),
    column.json("maps", nullable=False),
    column.json("left_out", nullable=False),
    column.json("marks", nullable=False),
    column.json("counts", nullable=False),
    column.json("findings", nullable=False),
)
