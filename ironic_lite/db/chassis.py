"""Queries on chassis: what groups of nodes are built into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ironic_lite import clock, errors
from ironic_lite.db import faults, models, paging
from ironic_lite.db.session import Connection

Row = dict[str, Any]

COLUMNS: tuple[str, ...] = models.columns(models.chassis)
LISTING = paging.Listing(models.chassis)
page = LISTING.page

_THIS = models.chassis.c.uuid == sa.bindparam("k_uuid")
_GET = sa.select(models.chassis).where(_THIS)
_HOLD = _GET.with_for_update()
_INSERT = models.chassis.insert().inline()
_UPDATE = models.chassis.update().where(_THIS)
_DELETE = models.chassis.delete().where(_THIS)


def get(conn: Connection, uuid: str, *, hold: bool = False) -> Row:
    """Return one chassis as column -> value.

    :param hold: nobody else changes the chassis before this transaction ends.
    :raises errors.ChassisNotFound:
    """
    found = conn.execute(_HOLD if hold else _GET, {"k_uuid": uuid}).first()
    if found is None:
        raise errors.ChassisNotFound(chassis=uuid)
    return dict(zip(COLUMNS, found, strict=True))


def insert(conn: Connection, values: Mapping[str, Any]) -> None:
    """Add a chassis; ``created_at`` is now unless given.

    :raises errors.Duplicate: its uuid is taken.
    """
    row = {"created_at": clock.now(), **values}
    try:
        conn.execute(_INSERT, row)
    except sa.exc.IntegrityError as error:
        raise faults.refused(error, models.chassis, "chassis", row, error) from error


def update(conn: Connection, uuid: str, values: Mapping[str, Any]) -> None:
    """Change a chassis; ``updated_at`` is now unless given.

    :raises errors.ChassisNotFound:
    """
    row = {"updated_at": clock.now(), **values, "k_uuid": uuid}
    if not conn.execute(_UPDATE, row).rowcount:
        raise errors.ChassisNotFound(chassis=uuid)


def delete(conn: Connection, uuid: str) -> None:
    """Remove a chassis.

    :raises errors.ChassisNotFound:
    :raises errors.InvalidRequest: nodes are in it.
    """
    try:
        gone = conn.execute(_DELETE, {"k_uuid": uuid}).rowcount
    except sa.exc.IntegrityError as error:
        message = f"Chassis {uuid} still has nodes; take them out of it first."
        taken = errors.InvalidRequest(message)
        raise faults.refused(error, models.chassis, "chassis", {}, taken) from error
    if not gone:
        raise errors.ChassisNotFound(chassis=uuid)
