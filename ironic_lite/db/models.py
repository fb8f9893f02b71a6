"""Every table, as SQLAlchemy Core metadata; ``alembic/versions`` must make the same (a test
compares).

Times are naive UTC with microseconds. JSON columns hold free-form objects; anything a filter or the
engine asks for is a column of its own with an index behind it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from ironic_lite import fields

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite only auto-increments a column whose type is exactly INTEGER.
_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
# Text is ordered by code points everywhere, so that a list has one order on all three databases:
# SQLite does it anyway, MariaDB by the tables' collation, PostgreSQL by the columns'.
_Text = (
    sa.Text()
    .with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
    .with_variant(sa.Text(collation="C"), "postgresql")
)
_Json = sa.JSON(none_as_null=True)
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


def _id() -> sa.Column[int]:
    return sa.Column("id", _Id, primary_key=True, autoincrement=True)


def _uuid(name: str = "uuid", **more: Any) -> sa.Column[str]:
    return sa.Column(name, _string(36), **more)


def _text(name: str, length: int = 255, **more: Any) -> sa.Column[str]:
    return sa.Column(name, _string(length), **more)


def _flag(name: str, **more: Any) -> sa.Column[bool]:
    default = sa.false() if more.pop("default_false", True) else sa.true()
    return sa.Column(name, sa.Boolean, nullable=False, server_default=default, **more)


def _json(name: str, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, _Json, **more)


def _time(name: str, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, _Time, **more)


def _made() -> tuple[sa.Column[Any], ...]:
    return (_time("created_at", nullable=False), _time("updated_at"))


def _of_node() -> sa.Column[str]:
    """Return the first half of the key of rows that come and go with their node."""
    return sa.Column(
        "node_uuid",
        _string(36),
        sa.ForeignKey("nodes.uuid", ondelete="CASCADE"),
        primary_key=True,
    )


chassis = sa.Table(
    "chassis",
    metadata,
    _id(),
    _uuid(unique=True, nullable=False),
    _text("description"),
    _json("extra"),
    *_made(),
    **_OPTIONS,
)

nodes = sa.Table(
    "nodes",
    metadata,
    _id(),
    _uuid(unique=True, nullable=False),
    _text("name", unique=True),
    _text("driver", nullable=False, index=True),
    _json("driver_info"),
    _json("driver_internal_info"),
    _json("properties"),
    _json("extra"),
    _json("instance_info"),
    _uuid("instance_uuid", unique=True),
    _text("instance_name", index=True),
    sa.Column("chassis_uuid", _string(36), sa.ForeignKey("chassis.uuid"), index=True),
    # where it stands
    _text("provision_state", 15, nullable=False),
    _text("target_provision_state", 15),
    _time("provision_updated_at"),
    _text("power_state", 15),
    _text("target_power_state", 15),
    sa.Column("last_error", _Text),
    _flag("maintenance", index=True),
    sa.Column("maintenance_reason", _Text),
    _text("fault", index=True),
    _text("health", 15),
    _text("boot_mode", 16),
    sa.Column("secure_boot", sa.Boolean),
    _flag("console_enabled"),
    _time("inspection_started_at"),
    _time("inspection_finished_at"),
    # what runs on it
    _json("clean_step"),
    _json("deploy_step"),
    _json("service_step"),
    _json("raid_config"),
    _json("target_raid_config"),
    _uuid("run_uuid"),
    _time("wake_at"),
    # who holds it
    sa.Column("generation", _Id, nullable=False, server_default="0"),
    _text("reservation"),
    _uuid("lock_token"),
    _time("lock_expires"),
    # what the operator says about it
    _text("conductor_group", nullable=False, server_default="", index=True),
    _text("resource_class", 80, index=True),
    sa.Column("automated_clean", sa.Boolean),
    _flag("protected"),
    sa.Column("protected_reason", _Text),
    _flag("retired", index=True),
    sa.Column("retired_reason", _Text),
    _text("owner", index=True),
    _text("lessee", index=True),
    sa.Column("description", _Text),
    _json("network_data"),
    _text("shard", index=True),
    _uuid("parent_node", index=True),
    sa.Column("disable_power_off", sa.Boolean, nullable=False, server_default=sa.false()),
    *(_text(f"{kind}_interface") for kind in fields.INTERFACE_KINDS),
    *_made(),
    # Sweeps ask for free nodes that are due, and for all that one host holds.
    sa.Index("ix_nodes_reservation", "reservation", "wake_at"),
    sa.Index("ix_nodes_provision_state", "provision_state", "provision_updated_at"),
    **_OPTIONS,
)

traits = sa.Table(
    "node_traits",
    metadata,
    _of_node(),
    sa.Column("trait", _string(255), primary_key=True, index=True),
    **_OPTIONS,
)

ports = sa.Table(
    "ports",
    metadata,
    _id(),
    _uuid(unique=True, nullable=False),
    _text("name", unique=True),
    _text("address", 64, unique=True, nullable=False),
    sa.Column(
        "node_uuid",
        _string(36),
        sa.ForeignKey("nodes.uuid", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    _uuid("portgroup_uuid", index=True),
    _json("extra"),
    _json("internal_info"),
    _json("local_link_connection"),
    _flag("pxe_enabled", default_false=False),
    _text("physical_network", 64),
    _flag("is_smartnic"),
    _text("description"),
    _text("vendor", 32),
    _text("category", 80),
    _flag("available_for_dynamic_portgroup", default_false=False),
    *_made(),
    **_OPTIONS,
)

deploy_templates = sa.Table(
    "deploy_templates",
    metadata,
    _id(),
    _uuid(unique=True, nullable=False),
    _text("name", unique=True, nullable=False),
    # A list of steps: they are read and written with their template, and nobody asks for one alone.
    _json("steps", nullable=False),
    _json("extra"),
    *_made(),
    **_OPTIONS,
)

conductors = sa.Table(
    "conductors",
    metadata,
    _id(),
    _text("hostname", unique=True, nullable=False),
    _text("conductor_group", nullable=False, server_default=""),
    _flag("online"),
    _text("version", 32),
    *_made(),
    _json("counters"),
    **_OPTIONS,
)

hardware_interfaces = sa.Table(
    "hardware_interfaces",
    metadata,
    _id(),
    sa.Column(
        "conductor_id",
        _Id,
        sa.ForeignKey("conductors.id", ondelete="CASCADE"),
        nullable=False,
    ),
    _text("hardware_type", nullable=False),
    _text("interface_type", 16, nullable=False),
    _text("interface_name", nullable=False),
    _flag("is_default"),
    sa.UniqueConstraint(
        "conductor_id", "hardware_type", "interface_type", "interface_name", name="uq_hardware"
    ),
    **_OPTIONS,
)

runs = sa.Table(
    "runs",
    metadata,
    _id(),
    _uuid(unique=True, nullable=False),
    sa.Column(
        "node_uuid",
        _string(36),
        sa.ForeignKey("nodes.uuid", ondelete="CASCADE"),
        nullable=False,
    ),
    _text("verb", 16, nullable=False),
    _text("requester"),
    _text("project"),
    _text("request_id", 64),
    _text("conductor"),
    # running, waiting, done, failed, aborted
    _text("state", 16, nullable=False, index=True),
    _time("started_at", nullable=False),
    _time("ended_at"),
    _json("error"),  # {"code", "text", "step", "retryable"}
    sa.Index("ix_runs_node_uuid_id", "node_uuid", "id"),
    **_OPTIONS,
)

run_steps = sa.Table(
    "run_steps",
    metadata,
    _id(),
    sa.Column(
        "run_uuid",
        _string(36),
        sa.ForeignKey("runs.uuid", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("ordinal", sa.Integer, nullable=False),
    _text("kind", 16, nullable=False),
    _text("interface", 32, nullable=False),
    _text("step", nullable=False),
    _json("args"),
    sa.Column("priority", sa.Float, nullable=False, server_default="0"),
    _flag("abortable"),
    # pending, running, waiting, done, failed, aborted, skipped
    _text("state", 16, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    _time("started_at"),
    _time("ended_at"),
    _json("error"),
    sa.UniqueConstraint("run_uuid", "kind", "ordinal", name="uq_run_steps_place"),
    **_OPTIONS,
)

# What the last agent of a node has listed: db.agent_steps says why it is no column of the node.
agent_steps = sa.Table(
    "agent_steps",
    metadata,
    _of_node(),
    _json("steps", nullable=False),  # interface -> list of clean steps
    _time("refreshed_at", nullable=False),
    **_OPTIONS,
)

# What a machine's BMC has told of its firmware: its settings, and which versions it has.
bios_settings = sa.Table(
    "bios_settings",
    metadata,
    _of_node(),
    sa.Column("name", _string(255), primary_key=True),
    sa.Column("value", _Text),
    # as the attribute registry of the BMC has it
    _text("attribute_type"),
    _json("allowable_values"),
    sa.Column("lower_bound", sa.BigInteger),
    sa.Column("upper_bound", sa.BigInteger),
    sa.Column("min_length", sa.BigInteger),
    sa.Column("max_length", sa.BigInteger),
    sa.Column("read_only", sa.Boolean),
    sa.Column("reset_required", sa.Boolean),
    sa.Column("unique", sa.Boolean),
    *_made(),
    **_OPTIONS,
)

firmware_components = sa.Table(
    "firmware_components",
    metadata,
    _of_node(),
    sa.Column("component", _string(255), primary_key=True),  # bios, bmc, nic:<which>
    _text("initial_version", nullable=False),
    _text("current_version"),
    _text("last_version_flashed"),
    _text("vendor"),
    _text("model"),
    _text("serial_number"),
    *_made(),
    **_OPTIONS,
)

# What the last inspection of a node has found.
inventories = sa.Table(
    "inventories",
    metadata,
    _of_node(),
    _json("inventory", nullable=False),
    _json("plugin_data", nullable=False),
    *_made(),
    **_OPTIONS,
)

events = sa.Table(
    "events",
    metadata,
    _id(),
    _time("at", nullable=False),
    _uuid("node_uuid", nullable=False),  # no foreign key: a node's history outlives it
    _uuid("run_uuid"),
    # node_created, node_updated, node_deleted, provision, step_started, step_ended, power, ...
    _text("kind", 32, nullable=False),
    _text("event", 32),
    _text("before", 32),
    _text("after", 32),
    _text("conductor"),
    _text("requester"),
    _text("request_id", 64),
    _json("data"),
    sa.Index("ix_events_node_uuid_id", "node_uuid", "id"),
    sqlite_autoincrement=True,  # a cursor's id is never given twice, also after old events went
    **_OPTIONS,
)


def columns(table: sa.Table) -> tuple[str, ...]:
    """Return a table's column names as plain strings, which orjson takes for keys."""
    return tuple(str(column.key) for column in table.columns)
