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


def columns(table: sa.Table) -> tuple[str, ...]:
    """Return a table's column names as plain strings, which orjson accepts as keys."""
    return tuple(str(column.key) for column in table.columns)
