"""Queries on the firmware settings that BMCs reported last."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

COLUMNS: tuple[str, ...] = models.columns(models.bios_settings)
FACTS: tuple[str, ...] = tuple(
    name for name in COLUMNS if name not in ("node_uuid", "name", "created_at", "updated_at")
)
"""Properties of a setting as a BMC reports it, besides its name."""

_PART = 100  # rows read at a time
_TABLE = models.bios_settings
_MINE = _TABLE.c.node_uuid == sa.bindparam("k_node")
_THIS = sa.and_(_MINE, _TABLE.c.name == sa.bindparam("k_name"))
_GET = sa.select(_TABLE).where(_THIS)
_INSERT = _TABLE.insert().inline()
_UPDATE = _TABLE.update().where(_THIS)
_DELETE = _TABLE.delete().where(_THIS)


def _list() -> sa.Select[Any]:
    return sa.select(_TABLE).where(_MINE).order_by(_TABLE.c.name)


def of_node(conn: Connection, node_uuid: str) -> list[Row]:
    """Return all settings of a node, by name; empty if its BMC has reported none yet."""
    found = prepared.parts(conn, _list, (), {"k_node": node_uuid}, names=COLUMNS, size=_PART)
    return [row for some in found for row in some]


def get(conn: Connection, node_uuid: str, name: str) -> Row:
    """Return one setting.

    :raises errors.NotFound: the node has none of that name.
    """
    row = conn.execute(_GET, {"k_node": node_uuid, "k_name": name}).mappings().first()
    if row is None:
        text = f"Node {node_uuid} doesn't have a BIOS setting '{name}'"
        raise errors.NotFound(text, what="BIOS setting", ident=name)
    return dict(row)


def put(
    conn: Connection,
    node_uuid: str,
    settings: Iterable[RowView],
    *,
    at: datetime.datetime,
) -> None:
    """Replace the settings of a node; only the holder of its lock may call this.

    Unchanged settings keep their times, missing ones are deleted.

    :param settings: each with ``name`` and the known ones of ``FACTS``; no name twice.
    """
    before = {row["name"]: row for row in of_node(conn, node_uuid)}
    after = {one["name"]: {fact: one.get(fact) for fact in FACTS} for one in settings}
    new = [name for name in after if name not in before]
    changed = [
        name for name in after if name in before and _setting_differs(before[name], after[name])
    ]
    gone = [name for name in before if name not in after]
    made = {"node_uuid": node_uuid, "created_at": at, "updated_at": None}
    _execute_many(conn, _INSERT, [{**made, "name": name, **after[name]} for name in new])
    key = {"k_node": node_uuid}
    _execute_many(
        conn,
        _UPDATE,
        [{**key, "k_name": name, **after[name], "updated_at": at} for name in changed],
    )
    _execute_many(conn, _DELETE, [{**key, "k_name": name} for name in gone])


def _setting_differs(before: RowView, after: RowView) -> bool:
    return any(before[fact] != after[fact] for fact in FACTS)


def _execute_many(conn: Connection, statement: sa.Executable, rows: Sequence[Row]) -> None:
    if rows:
        conn.execute(statement, rows)
