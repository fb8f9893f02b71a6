"""What the conductor's sweeps ask about many nodes at once: few columns, a limit, an index."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_lite.db import models
from ironic_lite.db.session import Connection

Row = dict[str, Any]

_NODE = models.nodes.c
_PLACE = ("uuid", "driver", "conductor_group", "provision_state")
_WHOLE = models.columns(models.nodes)


def _several(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, expanding=True, type_=sa.String)


def _nodes(columns: Sequence[str], *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    limit = sa.bindparam("limit_", type_=sa.Integer)
    return sa.select(*(_NODE[name] for name in columns)).where(*where).limit(limit)


def _rows(
    conn: Connection, statement: sa.Select[Any], columns: Sequence[str], **values: Any
) -> Any:
    found = conn.execute(statement, values).all()
    return [dict(zip(columns, row, strict=True)) for row in found]


# -- statements ------------------------------------------------------------------------------

_SKIP = sa.bindparam("skip", type_=sa.Integer)
_AFTER = _NODE.id > sa.bindparam("after_id", type_=sa.BigInteger)
_FREE = _NODE.reservation.is_(None)
_IN_STATES = _NODE.provision_state.in_(_several("states"))

_DUE_COLUMNS = (*_PLACE, "wake_at")
_DUE = (
    _nodes(_DUE_COLUMNS, _NODE.wake_at <= sa.bindparam("now"), _FREE)
    .order_by(_NODE.wake_at, _NODE.id)
    .offset(_SKIP)
)

_OVERDUE_COLUMNS = (*_PLACE, "provision_updated_at")
_OVERDUE = (
    _nodes(
        _OVERDUE_COLUMNS,
        _NODE.provision_state == sa.bindparam("state", type_=sa.String),
        _NODE.provision_updated_at < sa.bindparam("before"),
        # One with a timer still running is looked after: its step will be polled.
        sa.or_(_NODE.wake_at.is_(None), _NODE.wake_at < sa.bindparam("before")),
        _FREE,
        # In maintenance somebody looks after a node, unless it is ours, for the fault of a try
        # before this one (C31): without a time-out that would wait for ever.
        sa.or_(_NODE.maintenance.is_(sa.false()), _NODE.fault.is_not(None)),
    )
    .order_by(_NODE.provision_updated_at, _NODE.id)
    .offset(_SKIP)
)

_HOLD_COLUMNS = ("id", *_PLACE, "reservation", "lock_token", "lock_expires")
# Asked every few seconds, and few are found. Written so that SQLite goes by the index of what is
# rare, a busy state or a lock, and not through all nodes by their key, or through all free ones.
_BY_KEY = _NODE.id + 0
_NOBODY = sa.func.coalesce(_NODE.reservation, "") == ""
_SOMEBODY = _NODE.reservation > ""
_PAST = sa.bindparam("after_id", type_=sa.BigInteger) < _BY_KEY
_UNHELD = _nodes(_HOLD_COLUMNS, _PAST, _IN_STATES, _NOBODY).order_by(_BY_KEY)
_HELD = _nodes(_HOLD_COLUMNS, _PAST, _SOMEBODY).order_by(_BY_KEY)

_SYNCED = _nodes(
    _WHOLE,
    _AFTER,
    _NODE.provision_state.not_in(_several("states")),
    _FREE,
    _NODE.maintenance.is_(sa.false()),
    _NODE.retired.is_(sa.false()),
).order_by(_NODE.id)
_IN_FAULT = _nodes(
    _WHOLE,
    _AFTER,
    _NODE.fault == sa.bindparam("fault", type_=sa.String),
    _FREE,
    _NODE.retired.is_(sa.false()),
).order_by(_NODE.id)
# No index: few conductors ask, and seldom.
_WITH_CONSOLE = _nodes(_WHOLE, _AFTER, _NODE.console_enabled.is_(sa.true())).order_by(_NODE.id)
_STANDING_COLUMNS = ("id", *_PLACE, "provision_updated_at", "console_enabled")
_REACHED = _NODE.console_enabled.is_(sa.true())
_STANDING = _nodes(_STANDING_COLUMNS, _AFTER, sa.or_(_IN_STATES, _REACHED), _FREE).order_by(
    _NODE.id
)
_NOTES_COLUMNS = ("uuid", "driver", "conductor_group", "reservation", "driver_internal_info")
_NOTES = sa.select(*(_NODE[name] for name in _NOTES_COLUMNS)).where(
    _NODE.uuid.in_(_several("uuids"))
)
_COUNT = sa.select(sa.func.count()).select_from(models.nodes).where(_IN_STATES)

# Any row would do that is there whenever a conductor is, that none ever deletes, and that each
# locks before rows of nodes, as the keepalive does.
_TURN = (
    sa.select(models.conductors.c.id).order_by(models.conductors.c.id).limit(1).with_for_update()
)


# -- questions -------------------------------------------------------------------------------


def notes(conn: Connection, *, uuids: Collection[str]) -> list[Row]:
    """Return what those of these nodes that exist have noted.

    :returns: uuid, driver, conductor_group, reservation, driver_internal_info.
    """
    found: list[Row] = _rows(conn, _NOTES, _NOTES_COLUMNS, uuids=list(uuids))
    return found


def due(conn: Connection, *, now: datetime.datetime, limit: int, skip: int = 0) -> list[Row]:
    """Return the free nodes whose ``wake_at`` has come, the earliest first.

    :param skip: how many to leave out at the start, those of the pages before.
    :returns: uuid, driver, conductor_group, provision_state, wake_at.
    """
    found: list[Row] = _rows(conn, _DUE, _DUE_COLUMNS, now=now, limit_=limit, skip=skip)
    return found


def overdue(
    conn: Connection, *, state: str, before: datetime.datetime, limit: int, skip: int = 0
) -> list[Row]:
    """Return the free nodes that stand in ``state`` since before ``before``, the longest first.

    Nodes that an operator has put into maintenance are left out: somebody looks after them.

    :param skip: as in `due`.
    :returns: uuid, driver, conductor_group, provision_state, provision_updated_at.
    """
    found: list[Row] = _rows(
        conn, _OVERDUE, _OVERDUE_COLUMNS, state=state, before=before, limit_=limit, skip=skip
    )
    return found


def unheld(
    conn: Connection,
    *,
    states: Collection[str],
    limit: int,
    after_id: int = 0,
) -> list[Row]:
    """Return the nodes in ``states`` that nobody has locked, by id after ``after_id``.

    :returns: id, uuid, driver, conductor_group, provision_state, reservation, lock_token,
        lock_expires.
    """
    found: list[Row] = _rows(
        conn, _UNHELD, _HOLD_COLUMNS, states=list(states), after_id=after_id, limit_=limit
    )
    return found


def held(conn: Connection, *, limit: int, after_id: int = 0) -> list[Row]:
    """Return the nodes of any state that somebody has locked, dead or alive; as `unheld`."""
    found: list[Row] = _rows(conn, _HELD, _HOLD_COLUMNS, after_id=after_id, limit_=limit)
    return found


def for_power_sync(
    conn: Connection, *, skip_states: Collection[str], after_id: int = 0, limit: int
) -> list[Row]:
    """Return free nodes whose power state is to be compared, by id after ``after_id``.

    Left out are nodes in ``skip_states``, in maintenance, and retired ones (S4.14, conflict C24).

    :returns: all columns, so that the driver can be asked without another statement.
    """
    found: list[Row] = _rows(
        conn, _SYNCED, _WHOLE, states=list(skip_states), after_id=after_id, limit_=limit
    )
    return found


def in_fault(conn: Connection, *, fault: str, after_id: int = 0, limit: int) -> list[Row]:
    """Return free nodes with this fault, by id after ``after_id``, retired ones left out.

    :returns: all columns.
    """
    found: list[Row] = _rows(conn, _IN_FAULT, _WHOLE, fault=fault, after_id=after_id, limit_=limit)
    return found


def standing(
    conn: Connection, *, states: Collection[str], after_id: int = 0, limit: int
) -> list[Row]:
    """Return the free nodes in these states, and those whose console was started, by id after
    ``after_id``.

    :returns: id, uuid, driver, conductor_group, provision_state, provision_updated_at,
        console_enabled.
    """
    found: list[Row] = _rows(
        conn, _STANDING, _STANDING_COLUMNS, states=list(states), after_id=after_id, limit_=limit
    )
    return found


def with_console(conn: Connection, *, after_id: int = 0, limit: int) -> list[Row]:
    """Return the nodes of any state whose console is started, by id after ``after_id``.

    :returns: all columns.
    """
    found: list[Row] = _rows(conn, _WITH_CONSOLE, _WHOLE, after_id=after_id, limit_=limit)
    return found


def count_in(conn: Connection, states: Collection[str]) -> int:
    """Return how many nodes are in one of these provision states."""
    return int(conn.execute(_COUNT, {"states": list(states)}).scalar_one())


def count_alone(conn: Connection, states: Collection[str]) -> int:
    """Return how many nodes are in one of these states; before this transaction ends, nobody else
    is told: who counts, and then adds one, is not overtaken.

    It goes before all writes of its transaction.
    """
    if conn.dialect.name != "sqlite":  # which has one writer at a time
        conn.execute(_TURN)
    return count_in(conn, states)
