"""Tables of nodes, of machines' reports, of what belongs to a node, and of resources for nodes."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models import column
from ironic_lite.domain import fields

chassis = column.table(
    "chassis",
    *column.keys(),
    column.text("description"),
    column.json("extra"),
    *column.made(),
)

_FILTERS = (
    *("driver", "maintenance", "fault", "conductor_group", "resource_class", "retired"),
    *("owner", "lessee", "shard", "data_state", "health"),
)

nodes = column.table(
    "nodes",
    *column.keys(),
    column.text("name", unique=True),
    column.text("driver", nullable=False),
    column.encrypted_json("driver_info"),
    column.encrypted_json("driver_internal_info"),
    column.json("properties"),
    column.json("extra"),
    column.encrypted_json("instance_info"),
    column.uuid("instance_uuid", unique=True),
    column.text("instance_name", index=True),
    sa.Column("chassis_uuid", column.string(36), sa.ForeignKey("chassis.uuid"), index=True),
    # state
    column.text("provision_state", 15, nullable=False),
    column.text("target_provision_state", 15),
    column.time("provision_updated_at"),
    column.text("power_state", 15),
    column.text("target_power_state", 15),
    sa.Column("last_error", column.LongText),
    column.flag("maintenance"),
    sa.Column("maintenance_reason", column.LongText),
    column.text("fault"),
    column.text("health", 15),
    column.text("boot_mode", 16),
    sa.Column("secure_boot", sa.Boolean),
    column.flag("console_enabled"),
    column.time("inspection_started_at"),
    column.time("inspection_finished_at"),
    # current run
    column.encrypted_json("clean_step"),
    column.encrypted_json("deploy_step"),
    column.encrypted_json("service_step"),
    column.json("raid_config"),
    column.json("target_raid_config"),
    column.uuid("run_uuid"),
    column.time("wake_at"),
    # lock
    sa.Column("generation", column.Id, nullable=False, server_default="0"),
    column.text("reservation"),
    column.uuid("lock_token"),
    column.time("lock_expires"),
    # settings of the operator
    column.text("conductor_group", nullable=False, server_default=""),
    column.text("resource_class", 80),
    sa.Column("automated_clean", sa.Boolean),
    column.flag("protected"),
    sa.Column("protected_reason", column.LongText),
    column.flag("retired"),
    sa.Column("retired_reason", column.LongText),
    column.text("owner"),
    column.text("lessee"),
    sa.Column("description", column.LongText),
    column.json("network_data"),
    column.text("shard"),
    column.uuid("parent_node", index=True),
    sa.Column("disable_power_off", sa.Boolean, nullable=False, server_default=sa.false()),
    *(column.text(f"{kind}_interface") for kind in fields.INTERFACE_KINDS),
    *column.made(),
    column.uuid("allocation_uuid"),  # the reverse of allocations.node_uuid, written with it
    column.time("locked_at"),
    column.text("lock_note"),
    sa.Column("run_stop", column.LongText),  # text, because statements compare it
    # clean, dirty, unknown; the run that made it so, or "declared"
    column.text("data_state", 8, server_default="unknown"),
    column.time("data_state_at"),
    column.text("data_state_by", 36),
    column.uuid("import_uuid", index=True),  # of the import that has added the node
    # A heartbeat of this agent, in this generation of the node, is only recorded.
    column.text("agent_pin", 64),
    sa.Column("agent_pin_generation", column.Id),
    column.time("agent_heard_at"),
    # Filters of lists, each in the order of enrollment.
    *(sa.Index(f"ix_nodes_{name}_id", name, "id") for name in _FILTERS),
    # All columns that overviews count by, so that they read no row.
    sa.Index("ix_nodes_counts", "provision_state", "maintenance", "data_state", "parent_node"),
    # Sweeps select free nodes that are due, and all nodes that one host has locked.
    sa.Index("ix_nodes_reservation", "reservation", "wake_at"),
    sa.Index("ix_nodes_provision_state", "provision_state", "provision_updated_at"),
    sa.Index("ix_nodes_provision_state_id", "provision_state", "id"),
)

traits = column.table(
    "node_traits",
    column.of_node(),
    sa.Column("trait", column.string(255), primary_key=True, index=True),
)

ports = column.table(
    "ports",
    *column.keys(),
    column.text("name", unique=True),
    column.text("address", 64, unique=True, nullable=False),
    column.owner(),
    column.uuid("portgroup_uuid", index=True),
    column.json("extra"),
    column.json("internal_info"),
    column.json("local_link_connection"),
    column.flag("pxe_enabled", default_false=False),
    column.text("physical_network", 64),
    column.flag("is_smartnic"),
    column.text("description"),
    column.text("vendor", 32),
    column.text("category", 80),
    column.flag("available_for_dynamic_portgroup", default_false=False),
    *column.made(),
)

# Steps listed by a node's last agent; db.queries.agent_steps says why this is no column of the
# node.
agent_steps = column.table(
    "agent_steps",
    column.of_node(),
    column.json("steps", nullable=False),  # interface -> list of clean steps
    column.time("refreshed_at", nullable=False),
)

# Firmware as reported by a machine's BMC: its settings, and component versions.
bios_settings = column.table(
    "bios_settings",
    column.of_node(),
    sa.Column("name", column.string(255), primary_key=True),
    sa.Column("value", column.LongText),
    # as the attribute registry of the BMC has it
    column.text("attribute_type"),
    column.json("allowable_values"),
    sa.Column("lower_bound", sa.BigInteger),
    sa.Column("upper_bound", sa.BigInteger),
    sa.Column("min_length", sa.BigInteger),
    sa.Column("max_length", sa.BigInteger),
    sa.Column("read_only", sa.Boolean),
    sa.Column("reset_required", sa.Boolean),
    sa.Column("unique", sa.Boolean),
    *column.made(),
)

firmware_components = column.table(
    "firmware_components",
    column.of_node(),
    sa.Column("component", column.string(255), primary_key=True),  # bios, bmc, nic:<which>
    column.text("initial_version", nullable=False),
    column.text("current_version"),
    column.text("last_version_flashed"),
    column.text("vendor"),
    column.text("model"),
    column.text("serial_number"),
    *column.made(),
)

# Results of a node's last inspection: agents and third-party drivers add any content.
inventories = column.table(
    "inventories",
    column.of_node(),
    column.encrypted_json("inventory", nullable=False),
    column.encrypted_json("plugin_data", nullable=False),
    *column.made(),
)


# Tables of resources that belong to a node, and are deleted with it.

# Ports refer to portgroups without a foreign key, because the column is older than the table.
portgroups = column.table(
    "portgroups",
    *column.keys(),
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
)

volume_connectors = column.table(
    "volume_connectors",
    *column.keys(),
    column.owner(),
    column.text("type", 32, nullable=False),
    column.text("connector_id", nullable=False),
    column.json("extra"),
    *column.made(),
    sa.UniqueConstraint("type", "connector_id"),
)

volume_targets = column.table(
    "volume_targets",
    *column.keys(),
    column.reference("node_uuid", "nodes.uuid", nullable=False),
    column.text("volume_type", 64, nullable=False),
    column.text("volume_id", 36, nullable=False),
    sa.Column("boot_index", sa.Integer, nullable=False),
    column.encrypted_json("properties"),
    column.json("extra"),
    *column.made(),
    sa.UniqueConstraint("node_uuid", "boot_index"),
)

holds = column.table(
    "holds",
    *column.keys(),
    column.reference("node_uuid", "nodes.uuid", nullable=False),
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
)


# Tables of resources beside nodes.

deploy_templates = column.table(
    "deploy_templates",
    *column.keys(),
    column.text("name", unique=True, nullable=False),
    # A list of steps, because they are only read and written with their template.
    column.encrypted_json("steps", nullable=False),
    column.json("extra"),
    *column.made(),
)

allocations = column.table(
    "allocations",
    *column.keys(),
    column.text("name", unique=True),
    # A node has at most one allocation, which is deleted with it.
    column.reference("node_uuid", "nodes.uuid", unique=True),
    column.text("state", 15, nullable=False, index=True),
    sa.Column("last_error", column.LongText),
    column.text("resource_class", 80, index=True),
    column.json("traits"),
    column.json("candidate_nodes"),
    column.text("owner", index=True),
    column.text("conductor"),  # that looks for a node
    column.json("extra"),
    *column.made(),
)

inspection_rules = column.table(
    "inspection_rules",
    *column.keys(),
    column.text("description"),
    column.text("phase", 16, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    column.flag("sensitive"),
    # Lists, because they are only read and written with their rule.
    column.encrypted_json("conditions"),
    column.encrypted_json("actions", nullable=False),
    *column.made(),
    sa.Index("ix_inspection_rules_phase", "phase", "priority"),
)

runbooks = column.table(
    "runbooks",
    *column.keys(),
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
)
