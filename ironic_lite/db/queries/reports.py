"""Last reports of machines: firmware settings and versions, inventories, agent's steps."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView, Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection, call_followers
from ironic_lite.db.tables import models
from ironic_lite.records import StepsByInterface

BIOS_COLUMNS: tuple[str, ...] = models.columns(models.bios_settings)
BIOS_FACTS: tuple[str, ...] = tuple(
    name for name in BIOS_COLUMNS if name not in ("node_uuid", "name", "created_at", "updated_at")
)
"""Properties of a setting as a BMC reports it, besides its name."""

_PART = 100  # rows read at a time
_BIOS = models.bios_settings
_BIOS_OF_NODE = _BIOS.c.node_uuid == sa.bindparam("k_node")
_THIS_SETTING = sa.and_(_BIOS_OF_NODE, _BIOS.c.name == sa.bindparam("k_name"))
_GET_SETTING = sa.select(_BIOS).where(_THIS_SETTING)
_INSERT_SETTING = _BIOS.insert().inline()
_UPDATE_SETTING = _BIOS.update().where(_THIS_SETTING)
_DELETE_SETTING = _BIOS.delete().where(_THIS_SETTING)


def _list_settings() -> sa.Select[Any]:
    return sa.select(_BIOS).where(_BIOS_OF_NODE).order_by(_BIOS.c.name)


def get_bios_settings(conn: Connection, node_uuid: str) -> list[Row]:
    """Return all settings of a node, by name; empty if its BMC has reported none yet."""
    found = prepared.parts(
        conn, _list_settings, (), {"k_node": node_uuid}, names=BIOS_COLUMNS, size=_PART
    )
    return [row for some in found for row in some]


def get_bios_setting(conn: Connection, node_uuid: str, name: str) -> Row:
    """Return one setting.

    :raises errors.NotFound: the node has none of that name.
    """
    row = conn.execute(_GET_SETTING, {"k_node": node_uuid, "k_name": name}).mappings().first()
    if row is None:
        text = f"Node {node_uuid} doesn't have a BIOS setting '{name}'"
        raise errors.NotFound(text, what="BIOS setting", ident=name)
    return dict(row)


def put_bios_settings(
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
    before = {row["name"]: row for row in get_bios_settings(conn, node_uuid)}
    after = {one["name"]: {fact: one.get(fact) for fact in BIOS_FACTS} for one in settings}
    new = [name for name in after if name not in before]
    changed = [
        name for name in after if name in before and _setting_differs(before[name], after[name])
    ]
    gone = [name for name in before if name not in after]
    made = {"node_uuid": node_uuid, "created_at": at, "updated_at": None}
    _execute_many(conn, _INSERT_SETTING, [{**made, "name": name, **after[name]} for name in new])
    key = {"k_node": node_uuid}
    _execute_many(
        conn,
        _UPDATE_SETTING,
        [{**key, "k_name": name, **after[name], "updated_at": at} for name in changed],
    )
    _execute_many(conn, _DELETE_SETTING, [{**key, "k_name": name} for name in gone])


def _setting_differs(before: RowView, after: RowView) -> bool:
    return any(before[fact] != after[fact] for fact in BIOS_FACTS)


def _execute_many(conn: Connection, statement: sa.Executable, rows: Sequence[Row]) -> None:
    if rows:
        conn.execute(statement, rows)


# Queries on firmware versions: first, current and last flashed, by component.

FIRMWARE_COLUMNS: tuple[str, ...] = models.columns(models.firmware_components)
FIRMWARE_IDENTITY = ("vendor", "model", "serial_number")

_FIRMWARE = models.firmware_components
_FIRMWARE_OF_NODE = _FIRMWARE.c.node_uuid == sa.bindparam("k_node")
_INSERT_COMPONENT = _FIRMWARE.insert().inline()
_UPDATE_COMPONENT = _FIRMWARE.update().where(
    _FIRMWARE_OF_NODE, _FIRMWARE.c.component == sa.bindparam("k_component")
)


def _list_components() -> sa.Select[Any]:
    return sa.select(_FIRMWARE).where(_FIRMWARE_OF_NODE).order_by(_FIRMWARE.c.component)


def get_firmware(conn: Connection, node_uuid: str) -> list[Row]:
    """Return all components of a node, by name; empty without a report by its BMC."""
    found = prepared.parts(
        conn, _list_components, (), {"k_node": node_uuid}, names=FIRMWARE_COLUMNS, size=_PART
    )
    return [row for some in found for row in some]


def put_firmware(
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
    before = {row["component"]: row for row in get_firmware(conn, node_uuid)}
    new, changed = [], []
    for one in components:
        facts = {name: one.get(name) for name in ("current_version", *FIRMWARE_IDENTITY)}
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
        conn.execute(_INSERT_COMPONENT, new)
    if changed:
        conn.execute(_UPDATE_COMPONENT, changed)


# Queries on inventories: the result of each node's last inspection.
#
# An inventory has some ten kilobytes that one request reads. A column of the node would burden
# lists of nodes and sweeps.

_INVENTORIES = models.inventories
_INVENTORY_OF_NODE = _INVENTORIES.c.node_uuid == sa.bindparam("k_node")
_GET_INVENTORY = sa.select(_INVENTORIES.c.inventory, _INVENTORIES.c.plugin_data).where(
    _INVENTORY_OF_NODE
)
_GET_FOUND = _GET_INVENTORY.with_only_columns(_INVENTORIES.c.inventory)
_INSERT_INVENTORY = _INVENTORIES.insert().inline()
_UPDATE_INVENTORY = _INVENTORIES.update().where(_INVENTORY_OF_NODE)


def get_inventory(conn: Connection, node_uuid: str) -> Row:
    """Return ``{"inventory": object, "plugin_data": object}`` of a node.

    :raises errors.NotFound: no inspection of it has succeeded.
    """
    found = conn.execute(_GET_INVENTORY, {"k_node": node_uuid}).first()
    if found is None:
        raise errors.NotFound(what="Node inventory record for node", ident=node_uuid)
    return {"inventory": found.inventory, "plugin_data": found.plugin_data}


def inventory(conn: Connection, node_uuid: str) -> JsonView | None:
    """Return what the last inspection of a node has found, without its plugin_data, or None."""
    found: JsonView | None = conn.execute(_GET_FOUND, {"k_node": node_uuid}).scalar()
    return found


def put_inventory(
    conn: Connection,
    node_uuid: str,
    inventory: RowView,
    plugin_data: RowView,
    *,
    at: datetime.datetime,
) -> None:
    """Replace the inventory of a node; only the holder of its lock may call this."""
    values = {"inventory": dict(inventory), "plugin_data": dict(plugin_data)}
    if not conn.execute(
        _UPDATE_INVENTORY, {**values, "updated_at": at, "k_node": node_uuid}
    ).rowcount:
        made = {"node_uuid": node_uuid, "created_at": at, "updated_at": None}
        conn.execute(_INSERT_INVENTORY, {**values, **made})
    call_followers(conn, node_uuid, {"inventory": inventory})


# Queries on the clean steps that a node's last agent has listed.
#
# They are a few kilobytes that one request reads. A column of the node would burden lists of nodes
# and sweeps.
#
# Source: S1.25, C29.

_AGENT_STEPS = models.agent_steps
_STEPS_OF_AGENT = _AGENT_STEPS.c.node_uuid == sa.bindparam("k_node")
_GET_STEPS = sa.select(_AGENT_STEPS.c.steps).where(_STEPS_OF_AGENT)
_GET_DATED_STEPS = sa.select(_AGENT_STEPS.c.steps, _AGENT_STEPS.c.refreshed_at).where(
    _STEPS_OF_AGENT
)
_DELETE_STEPS = _AGENT_STEPS.delete().where(_STEPS_OF_AGENT)
_INSERT_STEPS = _AGENT_STEPS.insert().inline()


def get_agent_steps(conn: Connection, node_uuid: str) -> StepsByInterface | None:
    """Return the steps by interface; None if no agent has listed any yet."""
    found: StepsByInterface | None = conn.execute(_GET_STEPS, {"k_node": node_uuid}).scalar()
    return found


def get_dated_agent_steps(
    conn: Connection, node_uuid: str
) -> tuple[StepsByInterface, datetime.datetime] | None:
    """Return the steps by interface, and when the agent has listed them; None as for `get`."""
    found = conn.execute(_GET_DATED_STEPS, {"k_node": node_uuid}).first()
    return None if found is None else (found.steps, found.refreshed_at)


def put_agent_steps(
    conn: Connection, node_uuid: str, steps: StepsByInterface, *, at: datetime.datetime
) -> None:
    """Replace the steps of a node; only the holder of its lock may call this."""
    conn.execute(_DELETE_STEPS, {"k_node": node_uuid})
    conn.execute(_INSERT_STEPS, {"node_uuid": node_uuid, "steps": dict(steps), "refreshed_at": at})
