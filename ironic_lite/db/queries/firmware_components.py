"""Queries on firmware versions: first, current and last flashed, by component."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

COLUMNS: tuple[str, ...] = models.columns(models.firmware_components)
IDENTITY = ("vendor", "model", "serial_number")

_PART = 100  # rows read at a time
_TABLE = models.firmware_components
_MINE = _TABLE.c.node_uuid == sa.bindparam("k_node")
_INSERT = _TABLE.insert().inline()
_UPDATE = _TABLE.update().where(_MINE, _TABLE.c.component == sa.bindparam("k_component"))


def _list() -> sa.Select[Any]:
    return sa.select(_TABLE).where(_MINE).order_by(_TABLE.c.component)


def of_node(conn: Connection, node_uuid: str) -> list[Row]:
    """Return all components of a node, by name; empty without a report by its BMC."""
    found = prepared.parts(conn, _list, (), {"k_node": node_uuid}, names=COLUMNS, size=_PART)
    return [row for some in found for row in some]


def put(
    conn: Connection,
    node_uuid: str,
    components: Iterable[RowView],
    *,
    at: datetime.datetime,
) -> None:
    """Record firmware reported by a BMC; only the node's lock holder may call this.

    The first version of a component is kept for ever. A changed version counts as flashed. A
    component that is not reported stays unchanged, because some BMCs know their network cards only
    while the machine runs.

    :param components: each with ``component``, ``current_version`` and the known ones of
        ``IDENTITY``; none twice.
    """
    before = {row["component"]: row for row in of_node(conn, node_uuid)}
    new, changed = [], []
    for one in components:
        facts = {name: one.get(name) for name in ("current_version", *IDENTITY)}
        known = before.get(one["component"])
        if known is None:
            key = {"node_uuid": node_uuid, "component": one["component"]}
            first = {"initial_version": one["current_version"], "last_version_flashed": None}
            new.append({**key, **facts, **first, "created_at": at, "updated_at": None})
        elif any(known[name] != fact for name, fact in facts.items()):
            flashed = known["last_version_flashed"]
            if known["current_version"] != facts["current_version"]:
                flashed = facts["current_version"]
            key = {"k_node": node_uuid, "k_component": one["component"]}
            changed.append({**key, **facts, "last_version_flashed": flashed, "updated_at": at})
    if new:
        conn.execute(_INSERT, new)
    if changed:
        conn.execute(_UPDATE, changed)
