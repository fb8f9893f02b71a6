"""Create the tables of the first release.

A migration is frozen: it does not follow ``ironic_lite.db.tables.models``, which keeps changing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_LONG = (
    sa.Text()
    .with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    .with_variant(sa.Text(collation="C"), "postgresql")
)
_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}

_INDEXES = (
    ("ix_events_node_uuid_id", "events", ["node_uuid", "id"]),
    ("ix_nodes_driver", "nodes", ["driver"]),
    ("ix_nodes_instance_name", "nodes", ["instance_name"]),
    ("ix_nodes_chassis_uuid", "nodes", ["chassis_uuid"]),
    ("ix_nodes_provision_state", "nodes", ["provision_state", "provision_updated_at"]),
    ("ix_nodes_maintenance", "nodes", ["maintenance"]),
    ("ix_nodes_fault", "nodes", ["fault"]),
    ("ix_nodes_reservation", "nodes", ["reservation", "wake_at"]),
    ("ix_nodes_conductor_group", "nodes", ["conductor_group"]),
    ("ix_nodes_resource_class", "nodes", ["resource_class"]),
    ("ix_nodes_retired", "nodes", ["retired"]),
    ("ix_nodes_owner", "nodes", ["owner"]),
    ("ix_nodes_lessee", "nodes", ["lessee"]),
    ("ix_nodes_shard", "nodes", ["shard"]),
    ("ix_nodes_parent_node", "nodes", ["parent_node"]),
    ("ix_node_traits_trait", "node_traits", ["trait"]),
    ("ix_ports_node_uuid", "ports", ["node_uuid"]),
    ("ix_ports_portgroup_uuid", "ports", ["portgroup_uuid"]),
    ("ix_runs_node_uuid", "runs", ["node_uuid"]),
    ("ix_runs_state", "runs", ["state"]),
)


def upgrade() -> None:
    """Create all tables; referenced tables come first."""
    _create_chassis()
    _create_nodes()
    _create_node_traits()
    _create_ports()
    _create_runs()
    _create_run_steps()
    _create_events()
    _create_conductors()
    _create_hardware_interfaces()
    for name, table, columns in _INDEXES:
        op.create_index(name, table, columns)


# -- columns ---------------------------------------------------------------------------------


def _column(name: str, kind: Any, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, **more)


def _id() -> sa.Column[Any]:
    return sa.Column("id", _BIG, autoincrement=True, nullable=False)


def _text(name: str, length: int = 255, **more: Any) -> sa.Column[Any]:
    kind = sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
    return sa.Column(name, kind, **more)


def _long(name: str) -> sa.Column[Any]:
    return sa.Column(name, _LONG)


def _time(name: str, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, _TIME, **more)


def _json(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.JSON())


def _flag(name: str, default: bool | None = None) -> sa.Column[Any]:
    if default is None:
        return sa.Column(name, sa.Boolean())
    value = sa.true() if default else sa.false()
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=value)


# -- tables ----------------------------------------------------------------------------------


def _create_chassis() -> None:
    op.create_table(
        "chassis",
        _id(),
        _text("uuid", 36, nullable=False),
        _text("description"),
        _json("extra"),
        _time("created_at", nullable=False),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_chassis"),
        sa.UniqueConstraint("uuid", name="uq_chassis_uuid"),
        **_OPTIONS,
    )


def _create_nodes() -> None:
    op.create_table(
        "nodes",
        _id(),
        _text("uuid", 36, nullable=False),
        _text("name"),
        _text("driver", nullable=False),
        _json("driver_info"),
        _json("driver_internal_info"),
        _json("properties"),
        _json("extra"),
        _json("instance_info"),
        _text("instance_uuid", 36),
        _text("instance_name"),
        _text("chassis_uuid", 36),
        _text("provision_state", 15, nullable=False),
        _text("target_provision_state", 15),
        _time("provision_updated_at"),
        _text("power_state", 15),
        _text("target_power_state", 15),
        _long("last_error"),
        _flag("maintenance", False),
        _long("maintenance_reason"),
        _text("fault"),
        _text("health", 15),
        _text("boot_mode", 16),
        _flag("secure_boot"),
        _flag("console_enabled", False),
        _time("inspection_started_at"),
        _time("inspection_finished_at"),
        _json("clean_step"),
        _json("deploy_step"),
        _json("service_step"),
        _json("raid_config"),
        _json("target_raid_config"),
        _text("run_uuid", 36),
        _time("wake_at"),
        _column("generation", _BIG, nullable=False, server_default="0"),
        _text("reservation"),
        _text("lock_token", 36),
        _time("lock_expires"),
        _text("conductor_group", nullable=False, server_default=""),
        _text("resource_class", 80),
        _flag("automated_clean"),
        _flag("protected", False),
        _long("protected_reason"),
        _flag("retired", False),
        _long("retired_reason"),
        _text("owner"),
        _text("lessee"),
        _long("description"),
        _json("network_data"),
        _text("shard"),
        _text("parent_node", 36),
        _flag("disable_power_off", False),
        _text("bios_interface"),
        _text("boot_interface"),
        _text("console_interface"),
        _text("deploy_interface"),
        _text("firmware_interface"),
        _text("inspect_interface"),
        _text("management_interface"),
        _text("network_interface"),
        _text("power_interface"),
        _text("raid_interface"),
        _text("rescue_interface"),
        _text("storage_interface"),
        _text("vendor_interface"),
        _time("created_at", nullable=False),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_nodes"),
        sa.ForeignKeyConstraint(["chassis_uuid"], ["chassis.uuid"], name="fk_nodes_chassis_uuid"),
        sa.UniqueConstraint("uuid", name="uq_nodes_uuid"),
        sa.UniqueConstraint("name", name="uq_nodes_name"),
        sa.UniqueConstraint("instance_uuid", name="uq_nodes_instance_uuid"),
        **_OPTIONS,
    )


def _create_node_traits() -> None:
    op.create_table(
        "node_traits",
        _text("node_uuid", 36, nullable=False),
        _text("trait", nullable=False),
        sa.PrimaryKeyConstraint("node_uuid", "trait", name="pk_node_traits"),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_node_traits_node_uuid", ondelete="CASCADE"
        ),
        **_OPTIONS,
    )


def _create_ports() -> None:
    op.create_table(
        "ports",
        _id(),
        _text("uuid", 36, nullable=False),
        _text("name"),
        _text("address", 64, nullable=False),
        _text("node_uuid", 36, nullable=False),
        _text("portgroup_uuid", 36),
        _json("extra"),
        _json("internal_info"),
        _json("local_link_connection"),
        _flag("pxe_enabled", True),
        _text("physical_network", 64),
        _flag("is_smartnic", False),
        _text("description"),
        _text("vendor", 32),
        _text("category", 80),
        _flag("available_for_dynamic_portgroup", True),
        _time("created_at", nullable=False),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_ports"),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_ports_node_uuid", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("uuid", name="uq_ports_uuid"),
        sa.UniqueConstraint("name", name="uq_ports_name"),
        sa.UniqueConstraint("address", name="uq_ports_address"),
        **_OPTIONS,
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        _id(),
        _text("uuid", 36, nullable=False),
        _text("node_uuid", 36, nullable=False),
        _text("verb", 16, nullable=False),
        _text("requester"),
        _text("project"),
        _text("request_id", 64),
        _text("conductor"),
        _text("state", 16, nullable=False),
        _time("started_at", nullable=False),
        _time("ended_at"),
        _json("error"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["nodes.uuid"], name="fk_runs_node_uuid", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("uuid", name="uq_runs_uuid"),
        **_OPTIONS,
    )


def _create_run_steps() -> None:
    op.create_table(
        "run_steps",
        _id(),
        _text("run_uuid", 36, nullable=False),
        _column("ordinal", sa.Integer(), nullable=False),
        _text("kind", 16, nullable=False),
        _text("interface", 32, nullable=False),
        _text("step", nullable=False),
        _json("args"),
        _column("priority", sa.Float(), nullable=False, server_default="0"),
        _flag("abortable", False),
        _text("state", 16, nullable=False),
        _column("attempt", sa.Integer(), nullable=False, server_default="0"),
        _time("started_at"),
        _time("ended_at"),
        _json("error"),
        sa.PrimaryKeyConstraint("id", name="pk_run_steps"),
        sa.ForeignKeyConstraint(
            ["run_uuid"], ["runs.uuid"], name="fk_run_steps_run_uuid", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("run_uuid", "kind", "ordinal", name="uq_run_steps_place"),
        **_OPTIONS,
    )


def _create_events() -> None:
    op.create_table(
        "events",
        _id(),
        _time("at", nullable=False),
        _text("node_uuid", 36, nullable=False),
        _text("run_uuid", 36),
        _text("kind", 32, nullable=False),
        _text("event", 32),
        _text("before", 32),
        _text("after", 32),
        _text("conductor"),
        _text("requester"),
        _text("request_id", 64),
        _json("data"),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
        **_OPTIONS,
    )


def _create_conductors() -> None:
    op.create_table(
        "conductors",
        _id(),
        _text("hostname", nullable=False),
        _text("conductor_group", nullable=False, server_default=""),
        _flag("online", False),
        _text("version", 32),
        _time("created_at", nullable=False),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_conductors"),
        sa.UniqueConstraint("hostname", name="uq_conductors_hostname"),
        **_OPTIONS,
    )


def _create_hardware_interfaces() -> None:
    op.create_table(
        "hardware_interfaces",
        _id(),
        _column("conductor_id", _BIG, nullable=False),
        _text("hardware_type", nullable=False),
        _text("interface_type", 16, nullable=False),
        _text("interface_name", nullable=False),
        _flag("is_default", False),
        sa.PrimaryKeyConstraint("id", name="pk_hardware_interfaces"),
        sa.ForeignKeyConstraint(
            ["conductor_id"],
            ["conductors.id"],
            name="fk_hardware_interfaces_conductor_id",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint(
            "conductor_id", "hardware_type", "interface_type", "interface_name", name="uq_hardware"
        ),
        **_OPTIONS,
    )
