"""Queries on volumes outside of machines: what a node connects from, and what it connects to."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.db import models
from ironic_lite.db.families import Family, of_nodes

Row = dict[str, Any]


def _missing(row: Row) -> errors.NodeNotFound:
    return errors.NodeNotFound(node=row.get("node_uuid"))


def _same_connector(row: Row) -> errors.Duplicate:
    value = f"{row.get('type')} and connector ID {row.get('connector_id')}"
    return errors.Duplicate(what="volume connector", key="type", value=value)


def _same_target(row: Row) -> errors.Duplicate:
    value = f"'{row.get('boot_index')}' for the same node"
    return errors.Duplicate(what="volume target", key="boot index", value=value)


CONNECTORS = Family(
    models.volume_connectors,
    "volume connector",
    lambda uuid: errors.VolumeConnectorNotFound(connector=uuid),
    filters=of_nodes(models.volume_connectors),
    missing=_missing,
    taken={"type": _same_connector},
)
TARGETS = Family(
    models.volume_targets,
    "volume target",
    lambda uuid: errors.VolumeTargetNotFound(target=uuid),
    filters=of_nodes(models.volume_targets),
    missing=_missing,
    taken={"node_uuid": _same_target},
)
