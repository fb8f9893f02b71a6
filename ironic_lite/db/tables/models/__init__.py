"""Every table, as SQLAlchemy Core metadata.

``alembic/versions`` must create the same tables (a test compares).
"""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models.batches import batch_nodes, batches
from ironic_lite.db.tables.models.column import metadata
from ironic_lite.db.tables.models.erasures import erasure_disks, erasures, evidence_keys
from ironic_lite.db.tables.models.node_owned import (
    holds,
    portgroups,
    volume_connectors,
    volume_targets,
)
from ironic_lite.db.tables.models.nodes import (
    agent_steps,
    bios_settings,
    chassis,
    firmware_components,
    inventories,
    nodes,
    ports,
    traits,
)
from ironic_lite.db.tables.models.resources import (
    allocations,
    deploy_templates,
    inspection_rules,
    runbooks,
)
from ironic_lite.db.tables.models.service import (
    conductors,
    events,
    hardware_interfaces,
    idempotency,
    marks,
    run_logs,
    run_steps,
    runs,
)
from ironic_lite.db.tables.models.webhooks import webhook_failures, webhooks

__all__ = [
    "agent_steps",
    "allocations",
    "batch_nodes",
    "batches",
    "bios_settings",
    "chassis",
    "columns",
    "conductors",
    "deploy_templates",
    "erasure_disks",
    "erasures",
    "events",
    "evidence_keys",
    "firmware_components",
    "hardware_interfaces",
    "holds",
    "idempotency",
    "inspection_rules",
    "inventories",
    "marks",
    "metadata",
    "nodes",
    "portgroups",
    "ports",
    "run_logs",
    "run_steps",
    "runbooks",
    "runs",
    "traits",
    "volume_connectors",
    "volume_targets",
    "webhook_failures",
    "webhooks",
]


def columns(table: sa.Table) -> tuple[str, ...]:
    """Return a table's column names as plain strings, which orjson accepts as keys."""
    return tuple(str(column.key) for column in table.columns)
