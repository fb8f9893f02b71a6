"""The fields of each resource: version, type, and rights to write, sort and see.

One row defines a field; queries, patches and renderings read the row. A new field is a row here, a
column in ``db.tables.models``, a migration and a test.
"""

from __future__ import annotations

from ironic_lite.domain.fields.field import Access, Field, Type
from ironic_lite.domain.fields.node import INTERFACE_KINDS, NODE
from ironic_lite.domain.fields.node_owned import PORTGROUP, VOLUME_CONNECTOR, VOLUME_TARGET
from ironic_lite.domain.fields.reading import blank, brief, by_name, select, sort_column, visible
from ironic_lite.domain.fields.resources import (
    ALLOCATION,
    CHASSIS,
    DEPLOY_TEMPLATE,
    INSPECTION_RULE,
    PORT,
    RUNBOOK,
)
from ironic_lite.domain.fields.views import (
    BATCH,
    BATCH_NODE,
    BIOS_SETTING,
    CONDUCTOR,
    ERASURE,
    FIRMWARE_COMPONENT,
    FLEET_RUN,
    HISTORY,
    HOLD,
    LISTED_FLEET_RUN,
    LISTED_RUN,
    RUN,
    WHOLE_FLEET_RUN,
    WHOLE_RUN,
)

__all__ = [
    "ALLOCATION",
    "BATCH",
    "BATCH_NODE",
    "BIOS_SETTING",
    "CHASSIS",
    "CONDUCTOR",
    "DEPLOY_TEMPLATE",
    "ERASURE",
    "FIRMWARE_COMPONENT",
    "FLEET_RUN",
    "HISTORY",
    "HOLD",
    "INSPECTION_RULE",
    "INTERFACE_KINDS",
    "LISTED_FLEET_RUN",
    "LISTED_RUN",
    "NODE",
    "PORT",
    "PORTGROUP",
    "RUN",
    "RUNBOOK",
    "VOLUME_CONNECTOR",
    "VOLUME_TARGET",
    "WHOLE_FLEET_RUN",
    "WHOLE_RUN",
    "Access",
    "Field",
    "Type",
    "blank",
    "brief",
    "by_name",
    "select",
    "sort_column",
    "visible",
]
