"""Queries on external volumes: connectors and targets of nodes."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.core.json_types import Row
from ironic_lite.db.queries.resource_table import NodeOwnedTable
from ironic_lite.db.tables import models


def _same_connector(row: Row) -> errors.Duplicate:
    value = f"{row.get('type')} and connector ID {row.get('connector_id')}"
    return errors.Duplicate(what="volume connector", key="type", value=value)


def _same_target(row: Row) -> errors.Duplicate:
    value = f"'{row.get('boot_index')}' for the same node"
    return errors.Duplicate(what="volume target", key="boot index", value=value)


CONNECTORS = NodeOwnedTable(
    models.volume_connectors,
    "volume connector",
    lambda uuid: errors.VolumeConnectorNotFound(connector=uuid),
    taken={"type": _same_connector},
)
TARGETS = NodeOwnedTable(
    models.volume_targets,
    "volume target",
    lambda uuid: errors.VolumeTargetNotFound(target=uuid),
    taken={"node_uuid": _same_target},
)
