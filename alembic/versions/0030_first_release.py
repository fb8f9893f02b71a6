"""Create the tables of the first release.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
Numbers before this one belong to states of the development, which were never released.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0030"
down_revision = None

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_LONG = (
    sa.Text()
    .with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    .with_variant(sa.Text(collation="C"), "postgresql")
)
_JSON = sa.JSON(none_as_null=True)
_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def _string(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    """Create all tables, those that others refer to first, and the marks of the upkeep."""
    _create_batches()
    _create_chassis()
    _create_conductors()
    _create_deploy_templates()
    _create_erasure_disks()
    _create_erasures()
    _create_events()
    _create_evidence_keys()
    _create_idempotency()
    _create_inspection_rules()
    _create_marks()
    _create_runbooks()
    _create_webhooks()
    _create_batch_nodes()
    _create_hardware_interfaces()
    _create_nodes()
    _create_webhook_failures()
    _create_agent_steps()
    _create_allocations()
    _create_bios_settings()
    _create_firmware_components()
    _create_holds()
    _create_inventories()
    _create_node_traits()
    _create_portgroups()
    _create_ports()
    _create_runs()
    _create_volume_connectors()
    _create_volume_targets()
    _create_run_logs()
    _create_run_steps()
    for name in ("trimmed", "webhooks", "batches"):
        op.execute(sa.text(f"INSERT INTO marks (name, value) VALUES ('{name}', 0)"))


def _create_batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("name", _string(255)),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("request", _JSON),
        sa.Column("options", _JSON),
        sa.Column("wave", sa.Integer(), nullable=False),
        sa.Column("max_failures", sa.Integer(), nullable=False),
        sa.Column("forgiven", sa.Integer(), nullable=False),
        sa.Column("abort_runs", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("requester", _string(255)),
        sa.Column("project", _string(255)),
        sa.Column("context", _JSON),
        sa.Column("paused_by", _string(255)),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
        sa.UniqueConstraint("uuid", name="uq_batches_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_batches_ended_at", "batches", ["ended_at"])


def _create_chassis() -> None:
    op.create_table(
        "chassis",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("description", _string(255)),
        sa.Column("extra", _JSON),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_chassis"),
        sa.UniqueConstraint("uuid", name="uq_chassis_uuid"),
        **_OPTIONS,
    )


def _create_conductors() -> None:
    op.create_table(
        "conductors",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("hostname", _string(255), nullable=False),
        sa.Column("conductor_group", _string(255), server_default="", nullable=False),
        sa.Column("online", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("version", _string(32)),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.Column("counters", _JSON),
        sa.Column("boot", _string(36)),
        sa.PrimaryKeyConstraint("id", name="pk_conductors"),
        sa.UniqueConstraint("hostname", name="uq_conductors_hostname"),
        **_OPTIONS,
    )


def _create_deploy_templates() -> None:
    op.create_table(
        "deploy_templates",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("name", _string(255), nullable=False),
        sa.Column("steps", _JSON, nullable=False),
        sa.Column("extra", _JSON),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_deploy_templates"),
        sa.UniqueConstraint("name", name="uq_deploy_templates_name"),
        sa.UniqueConstraint("uuid", name="uq_deploy_templates_uuid"),
        **_OPTIONS,
    )


def _create_erasure_disks() -> None:
    op.create_table(
        "erasure_disks",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("erasure_uuid", _string(36), nullable=False),
        sa.Column("serial", _string(255), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_erasure_disks"),
        **_OPTIONS,
    )
    op.create_index("ix_erasure_disks_erasure_uuid", "erasure_disks", ["erasure_uuid"])
    op.create_index("ix_erasure_disks_serial", "erasure_disks", ["serial"])


def _create_erasures() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("node_name", _string(255)),
        sa.Column("run_uuid", _string(36)),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("result", _string(16), nullable=False),
        sa.Column("level", _string(8), nullable=False),
        sa.Column("serials", _JSON, nullable=False),
        sa.Column("statement", _LONG, nullable=False),
        sa.Column("signature", _string(128)),
        sa.Column("key", _string(64)),
        sa.Column("sha256", _string(64), nullable=False),
        sa.Column("owner", _string(255)),
        sa.Column("lessee", _string(255)),
        sa.PrimaryKeyConstraint("id", name="pk_erasures"),
        sa.UniqueConstraint("uuid", name="uq_erasures_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_erasures_at", "erasures", ["at"])
    op.create_index("ix_erasures_node_uuid_id", "erasures", ["node_uuid", "id"])
    op.create_index("ix_erasures_owner_id", "erasures", ["owner", "id"])
    op.create_index("ix_erasures_result_id", "erasures", ["result", "id"])


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("run_uuid", _string(36)),
        sa.Column("kind", _string(32), nullable=False),
        sa.Column("event", _string(32)),
        sa.Column("before", _string(32)),
        sa.Column("after", _string(32)),
        sa.Column("conductor", _string(255)),
        sa.Column("requester", _string(255)),
        sa.Column("request_id", _string(64)),
        sa.Column("data", _JSON),
        sa.Column("owner", _string(255)),
        sa.Column("lessee", _string(255)),
        sa.Column("project", _string(255)),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
        **_OPTIONS,
    )
    op.create_index("ix_events_node_uuid_id", "events", ["node_uuid", "id"])
    op.create_index("ix_events_owner_id", "events", ["owner", "id"])


def _create_evidence_keys() -> None:
    op.create_table(
        "evidence_keys",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("key", _string(64), nullable=False),
        sa.Column("pem", _LONG, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evidence_keys"),
        sa.UniqueConstraint("key", name="uq_evidence_keys_key"),
        **_OPTIONS,
    )


def _create_idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("caller", _string(64), nullable=False),
        sa.Column("key", _string(64), nullable=False),
        sa.Column("fingerprint", _string(64), nullable=False),
        sa.Column("request_id", _string(64), nullable=False),
        sa.Column("subject_uuid", _string(36), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("busy_until", _TIME, nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("headers", _JSON),
        sa.Column("body", _JSON),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("size", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name="pk_idempotency"),
        sa.UniqueConstraint("caller", "key", name="uq_idempotency_caller"),
        **_OPTIONS,
    )
    op.create_index("ix_idempotency_caller_size", "idempotency", ["caller", "size"])
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"])


def _create_inspection_rules() -> None:
    op.create_table(
        "inspection_rules",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("description", _string(255)),
        sa.Column("phase", _string(16), nullable=False),
        sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
        sa.Column("sensitive", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("conditions", _JSON),
        sa.Column("actions", _JSON, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_inspection_rules"),
        sa.UniqueConstraint("uuid", name="uq_inspection_rules_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_inspection_rules_phase", "inspection_rules", ["phase", "priority"])


def _create_marks() -> None:
    op.create_table(
        "marks",
        sa.Column("name", _string(32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_marks"),
        **_OPTIONS,
    )


def _create_runbooks() -> None:
    op.create_table(
        "runbooks",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("name", _string(255), nullable=False),
        sa.Column("description", _string(255)),
        sa.Column("steps", _JSON, nullable=False),
        sa.Column("traits", _JSON),
        sa.Column("disable_ramdisk", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("public", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("owner", _string(255)),
        sa.Column("extra", _JSON),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_runbooks"),
        sa.UniqueConstraint("name", name="uq_runbooks_name"),
        sa.UniqueConstraint("uuid", name="uq_runbooks_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_runbooks_owner", "runbooks", ["owner"])


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("url", _string(1024), nullable=False),
        sa.Column("kinds", _JSON),
        sa.Column("nodes", _JSON),
        sa.Column("secret", _JSON, nullable=False),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger()),
        sa.Column("last", sa.BigInteger()),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("refusals", sa.Integer(), nullable=False),
        sa.Column("not_before", _TIME),
        sa.Column("failing_since", _TIME),
        sa.Column("last_status", sa.Integer()),
        sa.Column("last_error", _string(500)),
        sa.Column("created_by", _string(255)),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sa.UniqueConstraint("uuid", name="uq_webhooks_uuid"),
        **_OPTIONS,
    )


def _create_batch_nodes() -> None:
    op.create_table(
        "batch_nodes",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("batch_uuid", _string(36), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("open_uuid", _string(36)),
        sa.Column("name", _string(255)),
        sa.Column("wave", sa.Integer(), nullable=False),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("was", _string(32)),
        sa.Column("host", _string(255)),
        sa.Column("request_id", _string(64)),
        sa.Column("run_uuid", _string(36)),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("not_before", _TIME),
        sa.Column("error", _JSON),
        sa.Column("started_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.Column("retry_of", _string(36)),
        sa.Column("owner", _string(255)),
        sa.Column("lessee", _string(255)),
        sa.Column("keeps_run", sa.Boolean()),
        sa.ForeignKeyConstraint(
            ["batch_uuid"], ["batches.uuid"], name="fk_batch_nodes_batch_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_batch_nodes"),
        sa.UniqueConstraint("batch_uuid", "node_uuid", name="uq_batch_nodes_batch_uuid"),
        sa.UniqueConstraint("open_uuid", name="uq_batch_nodes_open_uuid"),
        **_OPTIONS,
    )
    op.create_index(
        "ix_batch_nodes_batch_uuid_state", "batch_nodes", ["batch_uuid", "state", "wave", "place"]
    )
    op.create_index("ix_batch_nodes_node_uuid_id", "batch_nodes", ["node_uuid", "id"])
    op.create_index("ix_batch_nodes_run_uuid", "batch_nodes", ["run_uuid"])


def _create_hardware_interfaces() -> None:
    op.create_table(
        "hardware_interfaces",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("conductor_id", _BIG, nullable=False),
        sa.Column("hardware_type", _string(255), nullable=False),
        sa.Column("interface_type", _string(16), nullable=False),
        sa.Column("interface_name", _string(255), nullable=False),
        sa.Column("is_default", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("methods", _LONG),
        sa.ForeignKeyConstraint(
            ["conductor_id"],
            ["conductors.id"],
            name="fk_hardware_interfaces_conductor_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_hardware_interfaces"),
        sa.UniqueConstraint(
            "conductor_id", "hardware_type", "interface_type", "interface_name", name="uq_hardware"
        ),
        **_OPTIONS,
    )


def _create_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("name", _string(255)),
        sa.Column("driver", _string(255), nullable=False),
        sa.Column("driver_info", _JSON),
        sa.Column("driver_internal_info", _JSON),
        sa.Column("properties", _JSON),
        sa.Column("extra", _JSON),
        sa.Column("instance_info", _JSON),
        sa.Column("instance_uuid", _string(36)),
        sa.Column("instance_name", _string(255)),
        sa.Column("chassis_uuid", _string(36)),
        sa.Column("provision_state", _string(15), nullable=False),
        sa.Column("target_provision_state", _string(15)),
        sa.Column("provision_updated_at", _TIME),
        sa.Column("power_state", _string(15)),
        sa.Column("target_power_state", _string(15)),
        sa.Column("last_error", _LONG),
        sa.Column("maintenance", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("maintenance_reason", _LONG),
        sa.Column("fault", _string(255)),
        sa.Column("health", _string(15)),
        sa.Column("boot_mode", _string(16)),
        sa.Column("secure_boot", sa.Boolean()),
        sa.Column("console_enabled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("inspection_started_at", _TIME),
        sa.Column("inspection_finished_at", _TIME),
        sa.Column("clean_step", _JSON),
        sa.Column("deploy_step", _JSON),
        sa.Column("service_step", _JSON),
        sa.Column("raid_config", _JSON),
        sa.Column("target_raid_config", _JSON),
        sa.Column("run_uuid", _string(36)),
        sa.Column("wake_at", _TIME),
        sa.Column("generation", _BIG, server_default="0", nullable=False),
        sa.Column("reservation", _string(255)),
        sa.Column("lock_token", _string(36)),
        sa.Column("lock_expires", _TIME),
        sa.Column("conductor_group", _string(255), server_default="", nullable=False),
        sa.Column("resource_class", _string(80)),
        sa.Column("automated_clean", sa.Boolean()),
        sa.Column("protected", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("protected_reason", _LONG),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired_reason", _LONG),
        sa.Column("owner", _string(255)),
        sa.Column("lessee", _string(255)),
        sa.Column("description", _LONG),
        sa.Column("network_data", _JSON),
        sa.Column("shard", _string(255)),
        sa.Column("parent_node", _string(36)),
        sa.Column("disable_power_off", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("bios_interface", _string(255)),
        sa.Column("boot_interface", _string(255)),
        sa.Column("console_interface", _string(255)),
        sa.Column("deploy_interface", _string(255)),
        sa.Column("firmware_interface", _string(255)),
        sa.Column("inspect_interface", _string(255)),
        sa.Column("management_interface", _string(255)),
        sa.Column("network_interface", _string(255)),
        sa.Column("power_interface", _string(255)),
        sa.Column("raid_interface", _string(255)),
        sa.Column("rescue_interface", _string(255)),
        sa.Column("storage_interface", _string(255)),
        sa.Column("vendor_interface", _string(255)),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.Column("allocation_uuid", _string(36)),
        sa.Column("locked_at", _TIME),
        sa.Column("lock_note", _string(255)),
        sa.Column("run_stop", _LONG),
        sa.Column("data_state", _string(8), server_default="unknown"),
        sa.Column("data_state_at", _TIME),
        sa.Column("data_state_by", _string(36)),
        sa.ForeignKeyConstraint(["chassis_uuid"], ["chassis.uuid"], name="fk_nodes_chassis_uuid"),
        sa.PrimaryKeyConstraint("id", name="pk_nodes"),
        sa.UniqueConstraint("instance_uuid", name="uq_nodes_instance_uuid"),
        sa.UniqueConstraint("name", name="uq_nodes_name"),
        sa.UniqueConstraint("uuid", name="uq_nodes_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_nodes_chassis_uuid", "nodes", ["chassis_uuid"])
    op.create_index("ix_nodes_conductor_group_id", "nodes", ["conductor_group", "id"])
    op.create_index(
        "ix_nodes_counts", "nodes", ["provision_state", "maintenance", "data_state", "parent_node"]
    )
    op.create_index("ix_nodes_data_state_id", "nodes", ["data_state", "id"])
    op.create_index("ix_nodes_driver_id", "nodes", ["driver", "id"])
    op.create_index("ix_nodes_fault_id", "nodes", ["fault", "id"])
    op.create_index("ix_nodes_instance_name", "nodes", ["instance_name"])
    op.create_index("ix_nodes_lessee_id", "nodes", ["lessee", "id"])
    op.create_index("ix_nodes_maintenance_id", "nodes", ["maintenance", "id"])
    op.create_index("ix_nodes_owner_id", "nodes", ["owner", "id"])
    op.create_index("ix_nodes_parent_node", "nodes", ["parent_node"])
    op.create_index(
        "ix_nodes_provision_state", "nodes", ["provision_state", "provision_updated_at"]
    )
    op.create_index("ix_nodes_provision_state_id", "nodes", ["provision_state", "id"])
    op.create_index("ix_nodes_reservation", "nodes", ["reservation", "wake_at"])
    op.create_index("ix_nodes_resource_class_id", "nodes", ["resource_class", "id"])
    op.create_index("ix_nodes_retired_id", "nodes", ["retired", "id"])
    op.create_index("ix_nodes_shard_id", "nodes", ["shard", "id"])


def _create_webhook_failures() -> None:
    op.create_table(
        "webhook_failures",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("webhook_uuid", _string(36), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("answer", _string(500)),
        sa.Column("at", _TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_uuid"],
            ["webhooks.uuid"],
            name="fk_webhook_failures_webhook_uuid",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_failures"),
        **_OPTIONS,
    )
    op.create_index("ix_webhook_failures_webhook_uuid", "webhook_failures", ["webhook_uuid"])


def _create_agent_steps() -> None:
    op.create_table(
        "agent_steps",
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("steps", _JSON, nullable=False),
        sa.Column("refreshed_at", _TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_agent_steps_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_uuid", name="pk_agent_steps"),
        **_OPTIONS,
    )


def _create_allocations() -> None:
    op.create_table(
        "allocations",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("name", _string(255)),
        sa.Column("node_uuid", _string(36)),
        sa.Column("state", _string(15), nullable=False),
        sa.Column("last_error", _LONG),
        sa.Column("resource_class", _string(80)),
        sa.Column("traits", _JSON),
        sa.Column("candidate_nodes", _JSON),
        sa.Column("owner", _string(255)),
        sa.Column("conductor", _string(255)),
        sa.Column("extra", _JSON),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_allocations_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_allocations"),
        sa.UniqueConstraint("name", name="uq_allocations_name"),
        sa.UniqueConstraint("node_uuid", name="uq_allocations_node_uuid"),
        sa.UniqueConstraint("uuid", name="uq_allocations_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_allocations_owner", "allocations", ["owner"])
    op.create_index("ix_allocations_resource_class", "allocations", ["resource_class"])
    op.create_index("ix_allocations_state", "allocations", ["state"])


def _create_bios_settings() -> None:
    op.create_table(
        "bios_settings",
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("name", _string(255), nullable=False),
        sa.Column("value", _LONG),
        sa.Column("attribute_type", _string(255)),
        sa.Column("allowable_values", _JSON),
        sa.Column("lower_bound", sa.BigInteger()),
        sa.Column("upper_bound", sa.BigInteger()),
        sa.Column("min_length", sa.BigInteger()),
        sa.Column("max_length", sa.BigInteger()),
        sa.Column("read_only", sa.Boolean()),
        sa.Column("reset_required", sa.Boolean()),
        sa.Column("unique", sa.Boolean()),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_bios_settings_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_uuid", "name", name="pk_bios_settings"),
        **_OPTIONS,
    )


def _create_firmware_components() -> None:
    op.create_table(
        "firmware_components",
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("component", _string(255), nullable=False),
        sa.Column("initial_version", _string(255), nullable=False),
        sa.Column("current_version", _string(255)),
        sa.Column("last_version_flashed", _string(255)),
        sa.Column("vendor", _string(255)),
        sa.Column("model", _string(255)),
        sa.Column("serial_number", _string(255)),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.ForeignKeyConstraint(
            ["node_uuid"],
            ["nodes.uuid"],
            name="fk_firmware_components_node_uuid",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("node_uuid", "component", name="pk_firmware_components"),
        **_OPTIONS,
    )


def _create_holds() -> None:
    op.create_table(
        "holds",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("kind", _string(32), nullable=False),
        sa.Column("reason", _string(255), nullable=False),
        sa.Column("blocks", _string(64), nullable=False),
        sa.Column("until", _TIME),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("created_by", _string(255)),
        sa.Column("project", _string(255)),
        sa.Column("ended_at", _TIME),
        sa.Column("ended_by", _string(255)),
        sa.Column("end_reason", _string(255)),
        sa.Column("owner", _string(255)),
        sa.Column("lessee", _string(255)),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_holds_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_holds"),
        sa.UniqueConstraint("uuid", name="uq_holds_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_holds_ended_at", "holds", ["ended_at"])
    op.create_index("ix_holds_node_uuid_ended_at", "holds", ["node_uuid", "ended_at"])
    op.create_index("ix_holds_owner_id", "holds", ["owner", "id"])


def _create_inventories() -> None:
    op.create_table(
        "inventories",
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("inventory", _JSON, nullable=False),
        sa.Column("plugin_data", _JSON, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_inventories_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_uuid", name="pk_inventories"),
        **_OPTIONS,
    )


def _create_node_traits() -> None:
    op.create_table(
        "node_traits",
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("trait", _string(255), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_node_traits_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_uuid", "trait", name="pk_node_traits"),
        **_OPTIONS,
    )
    op.create_index("ix_node_traits_trait", "node_traits", ["trait"])


def _create_portgroups() -> None:
    op.create_table(
        "portgroups",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("name", _string(255)),
        sa.Column("address", _string(64)),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("mode", _string(255)),
        sa.Column("properties", _JSON),
        sa.Column(
            "standalone_ports_supported", sa.Boolean(), server_default=sa.true(), nullable=False
        ),
        sa.Column("physical_network", _string(64)),
        sa.Column("category", _string(80)),
        sa.Column("dynamic_portgroup", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("extra", _JSON),
        sa.Column("internal_info", _JSON),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_portgroups_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_portgroups"),
        sa.UniqueConstraint("address", name="uq_portgroups_address"),
        sa.UniqueConstraint("name", name="uq_portgroups_name"),
        sa.UniqueConstraint("uuid", name="uq_portgroups_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_portgroups_node_uuid", "portgroups", ["node_uuid"])


def _create_ports() -> None:
    op.create_table(
        "ports",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("name", _string(255)),
        sa.Column("address", _string(64), nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("portgroup_uuid", _string(36)),
        sa.Column("extra", _JSON),
        sa.Column("internal_info", _JSON),
        sa.Column("local_link_connection", _JSON),
        sa.Column("pxe_enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("physical_network", _string(64)),
        sa.Column("is_smartnic", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("description", _string(255)),
        sa.Column("vendor", _string(32)),
        sa.Column("category", _string(80)),
        sa.Column(
            "available_for_dynamic_portgroup",
            sa.Boolean(),
            server_default=sa.true(),
            nullable=False,
        ),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_ports_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_ports"),
        sa.UniqueConstraint("address", name="uq_ports_address"),
        sa.UniqueConstraint("name", name="uq_ports_name"),
        sa.UniqueConstraint("uuid", name="uq_ports_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_ports_node_uuid", "ports", ["node_uuid"])
    op.create_index("ix_ports_portgroup_uuid", "ports", ["portgroup_uuid"])


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("verb", _string(16), nullable=False),
        sa.Column("requester", _string(255)),
        sa.Column("project", _string(255)),
        sa.Column("request_id", _string(64)),
        sa.Column("conductor", _string(255)),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("started_at", _TIME, nullable=False),
        sa.Column("ended_at", _TIME),
        sa.Column("error", _JSON),
        sa.Column("code", _string(64)),
        sa.Column("retry_of", _string(36)),
        sa.Column("listed", _JSON),
        sa.Column("owner", _string(255)),
        sa.Column("lessee", _string(255)),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_runs_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("uuid", name="uq_runs_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_runs_code_started_at", "runs", ["code", "started_at"])
    op.create_index("ix_runs_node_uuid_id", "runs", ["node_uuid", "id"])
    op.create_index("ix_runs_owner_started_at", "runs", ["owner", "started_at"])
    op.create_index("ix_runs_project_started_at", "runs", ["project", "started_at"])
    op.create_index("ix_runs_request_id", "runs", ["request_id"])
    op.create_index("ix_runs_requester_started_at", "runs", ["requester", "started_at"])
    op.create_index("ix_runs_retry_of", "runs", ["retry_of"])
    op.create_index("ix_runs_started_at", "runs", ["started_at"])
    op.create_index("ix_runs_state_started_at", "runs", ["state", "started_at"])
    op.create_index("ix_runs_verb_started_at", "runs", ["verb", "started_at"])


def _create_volume_connectors() -> None:
    op.create_table(
        "volume_connectors",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("type", _string(32), nullable=False),
        sa.Column("connector_id", _string(255), nullable=False),
        sa.Column("extra", _JSON),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_volume_connectors_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_volume_connectors"),
        sa.UniqueConstraint("type", "connector_id", name="uq_volume_connectors_type"),
        sa.UniqueConstraint("uuid", name="uq_volume_connectors_uuid"),
        **_OPTIONS,
    )
    op.create_index("ix_volume_connectors_node_uuid", "volume_connectors", ["node_uuid"])


def _create_volume_targets() -> None:
    op.create_table(
        "volume_targets",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", _string(36), nullable=False),
        sa.Column("node_uuid", _string(36), nullable=False),
        sa.Column("volume_type", _string(64), nullable=False),
        sa.Column("volume_id", _string(36), nullable=False),
        sa.Column("boot_index", sa.Integer(), nullable=False),
        sa.Column("properties", _JSON),
        sa.Column("extra", _JSON),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_volume_targets_node_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_volume_targets"),
        sa.UniqueConstraint("node_uuid", "boot_index", name="uq_volume_targets_node_uuid"),
        sa.UniqueConstraint("uuid", name="uq_volume_targets_uuid"),
        **_OPTIONS,
    )


def _create_run_logs() -> None:
    op.create_table(
        "run_logs",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("run_uuid", _string(36), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("text", _LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_uuid"], ["runs.uuid"], name="fk_run_logs_run_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_run_logs"),
        **_OPTIONS,
    )
    op.create_index("ix_run_logs_run_uuid_id", "run_logs", ["run_uuid", "id"])


def _create_run_steps() -> None:
    op.create_table(
        "run_steps",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("run_uuid", _string(36), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("kind", _string(16), nullable=False),
        sa.Column("interface", _string(32), nullable=False),
        sa.Column("step", _string(255), nullable=False),
        sa.Column("args", _JSON),
        sa.Column("priority", sa.Float(), server_default="0", nullable=False),
        sa.Column("abortable", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("state", _string(16), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("started_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.Column("error", _JSON),
        sa.Column("done_in", _string(36)),
        sa.Column("waiver", _JSON),
        sa.Column("overdue_at", _TIME),
        sa.ForeignKeyConstraint(
            ["run_uuid"], ["runs.uuid"], name="fk_run_steps_run_uuid", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_run_steps"),
        sa.UniqueConstraint("run_uuid", "kind", "ordinal", name="uq_run_steps_place"),
        **_OPTIONS,
    )
    op.create_index("ix_run_steps_interface_step_id", "run_steps", ["interface", "step", "id"])
