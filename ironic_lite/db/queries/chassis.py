"""Queries on chassis, which hold groups of nodes."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.db.queries.resource_table import ResourceTable
from ironic_lite.db.tables import models


def _chassis_needed(uuid: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(f"Chassis {uuid} still has nodes; take them out of it first.")


FAMILY = ResourceTable(
    models.chassis,
    "chassis",
    lambda uuid: errors.ChassisNotFound(chassis=uuid),
    needed=_chassis_needed,
)
get, insert, update, delete = FAMILY.get, FAMILY.insert, FAMILY.update, FAMILY.delete
page = FAMILY.page
