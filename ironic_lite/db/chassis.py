"""Queries on chassis: what groups of nodes are built into."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.db import models
from ironic_lite.db.families import Family


def _needed(uuid: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(f"Chassis {uuid} still has nodes; take them out of it first.")


FAMILY = Family(
    models.chassis,
    "chassis",
    lambda uuid: errors.ChassisNotFound(chassis=uuid),
    needed=_needed,
)
get, insert, update, delete = FAMILY.get, FAMILY.insert, FAMILY.update, FAMILY.delete
page = FAMILY.page
