"""Every table, as SQLAlchemy Core metadata.

``alembic/versions`` must create the same tables (a test compares).
"""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.tables.models.column import metadata
from ironic_lite.db.tables.models.features import (
    batch_nodes,
    batches,
    erasure_disks,
    erasures,
    evidence_keys,
    imports,
    search_changes,
    search_terms,
    webhook_failures,
    webhooks,
)
from ironic_lite.db.tables.models.nodes import (
    agent_steps,
    allocations,
    bios_settings,
    chassis,
    deploy_templates,
    firmware_components,
    holds,
    inspection_rules,
    inventories,
    nodes,
    portgroups,
    ports,
    runbooks,
    traits,
    volume_connectors,
    volume_targets,
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
    "imports",
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
    "search_changes",
    "search_terms",
    "traits",
    "volume_connectors",
    "volume_targets",
    "webhook_failures",
    "webhooks",
]


def columns(table: sa.Table) -> tuple[str, ...]:
    """Return a table's column names as plain strings, which orjson accepts as keys."""
    return tuple(str(column.key) for column in table.columns)
