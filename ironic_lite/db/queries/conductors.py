"""Queries on conductors: their heartbeats and drivers; the API reads drivers here."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import NamedTuple, TypedDict, cast

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

COLUMNS = tuple(
    name for name in models.columns(models.conductors) if name not in {"counters", "boot"}
)
"""Columns read of a conductor; its counts are read separately."""


class MemberRow(TypedDict):
    """A registered conductor, alive or not, with the names of its hardware types."""

    hostname: str
    conductor_group: str
    hardware_types: set[str]
    online: bool
    updated_at: datetime.datetime | None


class InterfaceRow(TypedDict):
    """An interface of a conductor; ``online`` and ``updated_at`` are the conductor's.

    ``methods`` are the methods of the contract that it implements, separated by commas; None if
    the conductor has not reported them.
    """

    hardware_type: str
    interface_type: str
    interface_name: str
    is_default: bool
    methods: str | None
    hostname: str
    conductor_group: str
    online: bool
    updated_at: datetime.datetime | None


class Counters(TypedDict):
    """A conductor's counts; None if it has reported nothing yet."""

    counters: Json | None
    updated_at: datetime.datetime | None


_INTERFACE_COLUMNS = tuple(InterfaceRow.__annotations__)
_CONDUCTOR = models.conductors.c
_INTERFACE = models.hardware_interfaces.c

# -- statements ------------------------------------------------------------------------------

_INSERT = models.conductors.insert().inline()
_UPDATE = models.conductors.update().where(_CONDUCTOR.hostname == sa.bindparam("k_host"))
_UPDATE_MINE = _UPDATE.where(_CONDUCTOR.boot == sa.bindparam("k_boot"))
_LIFE = sa.select(_CONDUCTOR.boot, _CONDUCTOR.online, _CONDUCTOR.updated_at).where(
    _CONDUCTOR.hostname == sa.bindparam("k_host")
)
_ID = sa.select(_CONDUCTOR.id).where(_CONDUCTOR.hostname == sa.bindparam("k_host"))
_COLUMNS = [_CONDUCTOR[name] for name in COLUMNS]
_GET = sa.select(*_COLUMNS).where(_CONDUCTOR.hostname == sa.bindparam("k_host"))
_ALL = sa.select(*_COLUMNS).order_by(_CONDUCTOR.hostname)
_ALL_COUNTERS = sa.select(
    _CONDUCTOR.hostname, _CONDUCTOR.online, _CONDUCTOR.updated_at, _CONDUCTOR.counters
).order_by(_CONDUCTOR.hostname)
_COUNTERS = sa.select(_CONDUCTOR.counters, _CONDUCTOR.updated_at).where(
    _CONDUCTOR.hostname == sa.bindparam("k_host")
)
_NAMED = 10
_LOCKED_BY = (
    sa.select(models.nodes.c.uuid)
    .where(models.nodes.c.reservation == sa.bindparam("k_host"))
    .order_by(models.nodes.c.id)
    .limit(_NAMED + 1)
)
_FORGET = models.conductors.delete().where(
    _CONDUCTOR.id == sa.bindparam("k_id", type_=sa.BigInteger),
    _CONDUCTOR.online == sa.bindparam("k_online"),
    _CONDUCTOR.updated_at == sa.bindparam("k_at", type_=_CONDUCTOR.updated_at.type),
)
_CLEAR = models.hardware_interfaces.delete().where(
    _INTERFACE.conductor_id == sa.bindparam("k_conductor")
)
_INSERT_INTERFACES = models.hardware_interfaces.insert().inline()
_PULSE = (_CONDUCTOR.online, _CONDUCTOR.updated_at)
_REGISTERED = (
    sa.select(_CONDUCTOR.hostname, _CONDUCTOR.conductor_group, *_PULSE, _INTERFACE.hardware_type)
    .distinct()
    .select_from(models.conductors.outerjoin(models.hardware_interfaces))
    .order_by(_CONDUCTOR.hostname)
)
_INTERFACES = (
    sa.select(
        _INTERFACE.hardware_type,
        _INTERFACE.interface_type,
        _INTERFACE.interface_name,
        _INTERFACE.is_default,
        _INTERFACE.methods,
        _CONDUCTOR.hostname,
        _CONDUCTOR.conductor_group,
        *_PULSE,
    )
    .select_from(models.conductors.join(models.hardware_interfaces))
    .order_by(_INTERFACE.hardware_type, _CONDUCTOR.hostname, _INTERFACE.id)
)

# -- what a conductor writes -----------------------------------------------------------------


class Life(NamedTuple):
    """The start of a conductor that owns its row, and its last heartbeat."""

    boot: str | None
    online: bool
    updated_at: datetime.datetime


def life(conn: Connection, host: str) -> Life | None:
    """Return the last heartbeat under a name, None without one."""
    found = conn.execute(_LIFE, {"k_host": host}).first()
    return None if found is None or found[2] is None else Life(*found)


def register(
    conn: Connection,
    *,
    host: str,
    group: str,
    version: str | None,
    now: datetime.datetime,
    boot: str | None = None,
) -> int:
    """Register a conductor as alive, without interfaces and counts; return its id.

    Up to four statements; call `set_interfaces` in the same transaction.

    :param boot: the id of this start, by which `touch` recognises its own row.
    """
    values: Row = {"conductor_group": group, "version": version, "online": True, "updated_at": now}
    values |= {"counters": None, "boot": boot}  # the counts belong to its previous start
    if not conn.execute(_UPDATE, {**values, "k_host": host}).rowcount:
        conn.execute(_INSERT, {**values, "hostname": host, "created_at": now})
    conductor_id = int(conn.execute(_ID, {"k_host": host}).scalar_one())
    conn.execute(_CLEAR, {"k_conductor": conductor_id})
    return conductor_id


def set_interfaces(conn: Connection, conductor_id: int, rows: Sequence[RowView]) -> None:
    """Replace the drivers and interfaces of a conductor.

    :param rows: hardware_type, interface_type, interface_name, is_default, and ``methods``.
    """
    conn.execute(_CLEAR, {"k_conductor": conductor_id})
    if rows:
        conn.execute(_INSERT_INTERFACES, [{**row, "conductor_id": conductor_id} for row in rows])


def touch(
    conn: Connection,
    *,
    host: str,
    now: datetime.datetime,
    online: bool = True,
    counters: RowView | None = None,
    boot: str | None = None,
) -> bool:
    """Write a conductor's heartbeat; return False if it must register first.

    :param boot: only the row of this start is written; None: any row of the name.
    :param counters: its counts so far, as JSON; None leaves the stored ones.
    """
    values: Row = {"k_host": host, "updated_at": now, "online": online}
    if counters is not None:
        values["counters"] = counters
    if boot is None:
        return bool(conn.execute(_UPDATE, values).rowcount)
    return bool(conn.execute(_UPDATE_MINE, {**values, "k_boot": boot}).rowcount)


def offline(
    conn: Connection, host: str, now: datetime.datetime, *, boot: str | None = None
) -> None:
    """Mark a conductor as stopped; other conductors own its nodes from now on."""
    touch(conn, host=host, now=now, online=False, boot=boot)


def forget(conn: Connection, row: RowView) -> bool:
    """Delete a conductor and its interfaces; return False if it has changed since it was read.

    :param row: with id, hostname, online and updated_at, as read.
    :raises errors.Conflict: nodes are locked by the conductor.
    """
    locked = list(conn.execute(_LOCKED_BY, {"k_host": row["hostname"]}).scalars())
    if locked:
        more = " and others" if len(locked) > _NAMED else ""
        raise errors.Conflict(
            f"Conductor {row['hostname']} holds the locks of nodes: {', '.join(locked[:_NAMED])}"
            f"{more}. Another conductor of their group releases them when the leases have ended. "
            "Without one, start the conductor once more under its name, and stop it in order.",
            conductor=row["hostname"],
        )
    values = {"k_id": row["id"], "k_online": row["online"], "k_at": row["updated_at"]}
    return bool(conn.execute(_FORGET, values).rowcount)  # a foreign key removes the interfaces


# -- reading ---------------------------------------------------------------------------------


def members(conn: Connection) -> list[MemberRow]:
    """Return all registered conductors, stopped and dead ones too, by one statement.

    ``membership.Membership`` decides which of them are alive.
    """
    found: dict[str, MemberRow] = {}
    for host, group, online, updated_at, hardware_type in conn.execute(_REGISTERED):
        row = found.setdefault(
            host,
            {
                "hostname": host,
                "conductor_group": group,
                "hardware_types": set(),
                "online": online,
                "updated_at": updated_at,
            },
        )
        if hardware_type is not None:
            row["hardware_types"].add(hardware_type)
    return list(found.values())


def interfaces(conn: Connection) -> list[InterfaceRow]:
    """Return the interfaces of all conductors, dead ones too, one row each."""
    found = conn.execute(_INTERFACES).all()
    return [cast(InterfaceRow, dict(zip(_INTERFACE_COLUMNS, row, strict=True))) for row in found]


def all(conn: Connection) -> list[Row]:
    """Return every conductor, dead ones too, by hostname; columns of the table."""
    found = conn.execute(_ALL).all()
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def get(conn: Connection, hostname: str) -> Row:
    """Return one conductor.

    :raises errors.ConductorNotFound:
    """
    found = conn.execute(_GET, {"k_host": hostname}).first()
    if found is None:
        raise errors.ConductorNotFound(conductor=hostname)
    return dict(zip(COLUMNS, found, strict=True))


def counters(conn: Connection, hostname: str) -> Counters:
    """Return a conductor's counts.

    :raises errors.ConductorNotFound:
    """
    found = conn.execute(_COUNTERS, {"k_host": hostname}).first()
    if found is None:
        raise errors.ConductorNotFound(conductor=hostname)
    return {"counters": found[0], "updated_at": found[1]}


def all_counters(conn: Connection) -> list[Row]:
    """Return the counts of every conductor, dead ones too, by one statement.

    :returns: hostname, online, updated_at, ``counters`` (None: nothing yet) and ``age``, the
        seconds since updated_at.
    """
    names = ("hostname", "online", "updated_at", "counters")
    rows = [dict(zip(names, row, strict=True)) for row in conn.execute(_ALL_COUNTERS)]
    for row in rows:
        at = row["updated_at"]
        row["age"] = 0.0 if at is None else clock.lived(at)
    return rows
