"""Tables of the service and its work: conductors, runs, events."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models import column

conductors = column.table(
    "conductors",
    column.id_(),
    column.text("hostname", unique=True, nullable=False),
    column.text("conductor_group", nullable=False, server_default=""),
    column.flag("online"),
    column.text("version", 32),
    *column.made(),
    column.json("counters"),
    column.text("boot", 36),
)

hardware_interfaces = column.table(
    "hardware_interfaces",
    column.id_(),
    sa.Column(
        "conductor_id",
        column.Id,
        sa.ForeignKey("conductors.id", ondelete="CASCADE"),
        nullable=False,
    ),
    column.text("hardware_type", nullable=False),
    column.text("interface_type", 16, nullable=False),
    column.text("interface_name", nullable=False),
    column.flag("is_default"),
    sa.Column("methods", column.LongText),
    sa.UniqueConstraint(
        "conductor_id", "hardware_type", "interface_type", "interface_name", name="uq_hardware"
    ),
)

runs = column.table(
    "runs",
    *column.keys(),
    column.reference("node_uuid", "nodes.uuid", nullable=False),
    column.text("verb", 16, nullable=False),
    column.text("requester"),
    column.text("project"),
    column.text("request_id", 64),
    column.text("conductor"),
    # running, waiting, done, failed, aborted
    column.text("state", 16, nullable=False),
    column.time("started_at", nullable=False),
    column.time("ended_at"),
    column.json("error"),  # {"code", "text", "step", "retryable", "cause"}
    column.text("code", 64),  # of the error's cause
    column.uuid("retry_of"),
    column.encrypted_json("listed"),  # the list of steps as the engine stores it
    column.text("owner"),  # of the node when the run began, as the lessee
    column.text("lessee"),
    column.text("cause", 12),  # of a failure, as `domain.causes`
    sa.Index("ix_runs_node_uuid_id", "node_uuid", "id"),
    sa.Index("ix_runs_started_at", "started_at"),
    sa.Index("ix_runs_code_started_at", "code", "started_at"),
    sa.Index("ix_runs_cause_started_at", "cause", "started_at"),
    sa.Index("ix_runs_state_started_at", "state", "started_at"),
    sa.Index("ix_runs_verb_started_at", "verb", "started_at"),
    sa.Index("ix_runs_requester_started_at", "requester", "started_at"),
    sa.Index("ix_runs_project_started_at", "project", "started_at"),
    sa.Index("ix_runs_retry_of", "retry_of"),
    sa.Index("ix_runs_request_id", "request_id"),
    sa.Index("ix_runs_owner_started_at", "owner", "started_at"),
)

run_steps = column.table(
    "run_steps",
    column.id_(),
    column.reference("run_uuid", "runs.uuid", nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    column.text("kind", 16, nullable=False),
    column.text("interface", 32, nullable=False),
    column.text("step", nullable=False),
    column.encrypted_json("args"),
    sa.Column("priority", sa.Float, nullable=False, server_default="0"),
    column.flag("abortable"),
    # pending, running, waiting, done, failed, aborted, skipped
    column.text("state", 16, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    column.time("started_at"),
    column.time("ended_at"),
    column.json("error"),
    column.uuid("done_in"),  # the run that did a step which a retry keeps
    column.json("waiver"),
    column.time("overdue_at"),
    sa.UniqueConstraint("run_uuid", "kind", "ordinal", name="uq_run_steps_place"),
    sa.Index("ix_run_steps_interface_step_id", "interface", "step", "id"),
)

run_logs = column.table(
    "run_logs",
    column.id_(),
    column.reference("run_uuid", "runs.uuid", nullable=False),
    column.time("at", nullable=False),
    sa.Column("text", column.LongText, nullable=False),
    sa.Index("ix_run_logs_run_uuid_id", "run_uuid", "id"),
)

idempotency = column.table(
    "idempotency",
    column.id_(),
    column.text("caller", 64, nullable=False),  # hash of user, scope and roles
    column.text("key", 64, nullable=False),  # hash of the header
    column.text("fingerprint", 64, nullable=False),  # hash of method, path, query and body
    column.text("request_id", 64, nullable=False),
    column.uuid("subject_uuid", nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    # started, changed (a transaction of the API has committed), done (the answer is kept)
    column.text("state", 16, nullable=False),
    column.time("busy_until", nullable=False),
    sa.Column("status", sa.Integer),
    column.json("headers"),
    column.encrypted_json("body"),
    column.time("created_at", nullable=False, index=True),
    sa.Column("size", sa.Integer),  # bytes of headers and body
    sa.UniqueConstraint("caller", "key", name="uq_idempotency_caller"),
    sa.Index("ix_idempotency_caller_size", "caller", "size"),
)

marks = column.table(
    "marks",
    # trimmed: the largest id of an event that was removed
    # webhooks, batches: locked by an addition before it counts the rows of the table
    sa.Column("name", column.string(32), primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

events = column.table(
    "events",
    column.id_(),
    column.time("at", nullable=False),
    column.uuid("node_uuid", nullable=False),  # no foreign key: a node's history outlives it
    column.uuid("run_uuid"),
    # node_created, node_updated, node_deleted, provision, step_started, step_ended, power, ...
    column.text("kind", 32, nullable=False),
    column.text("event", 32),
    column.text("before", 32),
    column.text("after", 32),
    column.text("conductor"),
    column.text("requester"),
    column.text("request_id", 64),
    column.json("data"),
    column.text("owner"),  # of the node when the event was written, as the lessee
    column.text("lessee"),
    column.text("project"),  # of the requester
    sa.Index("ix_events_node_uuid_id", "node_uuid", "id"),
    sa.Index("ix_events_owner_id", "owner", "id"),
    sa.Index("ix_events_requester_id", "requester", "id"),
    sqlite_autoincrement=True,  # ids, which are cursors, are never reused after a removal
)
