"""The fields of each resource: since which version, of what type, who may write, sort and see.

One row says all; queries, patches and renderings read the row. A new field is a row here, a column
in ``db.models``, a migration and a test.
"""

from __future__ import annotations

from ironic_lite.fields.belongings import PORTGROUP, VOLUME_CONNECTOR, VOLUME_TARGET
from ironic_lite.fields.field import Access, Field, Type
from ironic_lite.fields.node import INTERFACE_KINDS, NODE
from ironic_lite.fields.reading import blank, brief, by_name, select, sort_column, visible
from ironic_lite.fields.resources import (
    ALLOCATION,
    CHASSIS,
    DEPLOY_TEMPLATE,
    INSPECTION_RULE,
    PORT,
    RUNBOOK,
)
from ironic_lite.fields.views import (
    BIOS_SETTING,
    CONDUCTOR,
    FIRMWARE_COMPONENT,
    HISTORY,
    RUN,
    WHOLE_RUN,
)

__all__ = [
    "ALLOCATION",
    "BIOS_SETTING",
    "CHASSIS",
    "CONDUCTOR",
    "DEPLOY_TEMPLATE",
    "FIRMWARE_COMPONENT",
    "HISTORY",
    "INSPECTION_RULE",
    "INTERFACE_KINDS",
    "NODE",
    "PORT",
    "PORTGROUP",
    "RUN",
    "RUNBOOK",
    "VOLUME_CONNECTOR",
    "VOLUME_TARGET",
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
