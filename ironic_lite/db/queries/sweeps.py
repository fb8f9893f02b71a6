"""Queries of the conductor's sweeps: few columns of many nodes, a limit, an index."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import Any, TypedDict

import sqlalchemy as sa

from ironic_lite.core.json_types import Json, Row
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds
from ironic_lite.db.queries.paging import unindexed
from ironic_lite.db.tables import models
from ironic_lite.domain.holds import ORDER

_NODE = models.nodes.c
_WHOLE = models.columns(models.nodes)


class SweptNode(TypedDict):
    """The columns by which a node has its conductor, and its state."""

    uuid: str
    driver: str
    conductor_group: str
    provision_state: str


class Candidate(SweptNode):
    """A node that a sweep reads whole if this conductor owns it."""

    id: int
    instance_uuid: str | None


class Due(SweptNode):
    """A node whose timer has ended."""

    id: int
    wake_at: datetime.datetime
    updated_at: datetime.datetime | None


class OverdueNode(SweptNode):
    """A node that has waited too long."""

    id: int
    provision_updated_at: datetime.datetime
    wake_at: datetime.datetime | None
    run_uuid: str | None


class LockedNode(SweptNode):
    """A node and its lock, if it is locked."""

    id: int
    reservation: str | None
    lock_token: str | None
    lock_expires: datetime.datetime | None


class Standing(SweptNode):
    """A node that may have files or a program on its conductor.

    ``ports`` changes with its ports: their number and the time of their last change.
    """

    id: int
    provision_updated_at: datetime.datetime | None
    console_enabled: bool
    owner: str | None
    ports: str | None


class NodeNotes(TypedDict):
    """A node with the notes about its work; an ``observed`` one is only looked at."""

    uuid: str
    driver: str
    conductor_group: str
    reservation: str | None
    driver_internal_info: Json | None
    observed: bool


def _list_parameter(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, expanding=True, type_=sa.String)


def _select_nodes(columns: Sequence[str], *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    limit = sa.bindparam("limit_", type_=sa.Integer)
    return sa.select(*(_NODE[name] for name in columns)).where(*where).limit(limit)


def _later_than(time: sa.ColumnElement[Any]) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of rows after the last one of a page ordered by a time and the id."""
    last = sa.bindparam("after", type_=time.type)
    after_id = sa.bindparam("after_id", type_=sa.BigInteger)
    return (time >= last, sa.or_(time > last, _NODE.id > after_id))


def _read_rows(
    conn: Connection, statement: sa.Select[Any], columns: Sequence[str], **values: object
) -> list[Any]:
    found = conn.execute(statement, values).all()
    return [dict(zip(columns, row, strict=True)) for row in found]


# -- statements ------------------------------------------------------------------------------

_FIRST = datetime.datetime(1970, 1, 1)
_AFTER = _NODE.id > sa.bindparam("after_id", type_=sa.BigInteger)
_FREE = _NODE.reservation.is_(None)
_USUALLY_FREE = unindexed(_NODE.reservation).is_(None)
_IN_SERVICE = unindexed(_NODE.retired).is_(sa.false())
_CHANGEABLE = _NODE.uuid.not_in(holds.nodes_refusing(ORDER))
"""No hold forbids to do more with the machine than to look at it."""
_IN_STATES = _NODE.provision_state.in_(_list_parameter("states"))

_DUE_COLUMNS = tuple(Due.__annotations__)
_DUE = _select_nodes(
    _DUE_COLUMNS, _NODE.wake_at <= sa.bindparam("now"), _FREE, *_later_than(_NODE.wake_at)
).order_by(_NODE.wake_at, _NODE.id)

_OVERDUE_COLUMNS = tuple(OverdueNode.__annotations__)
_OVERDUE = _select_nodes(
    _OVERDUE_COLUMNS,
    _NODE.provision_state == sa.bindparam("state", type_=sa.String),
    _NODE.provision_updated_at < sa.bindparam("before"),
    *_later_than(_NODE.provision_updated_at),
    # A node with a running timer is watched already: its step will be polled.
    sa.or_(_NODE.wake_at.is_(None), _NODE.wake_at < sa.bindparam("before")),
    _USUALLY_FREE,
    # An operator watches nodes in maintenance, except nodes in maintenance for the fault of an
    # earlier try (C31), which would wait for ever without a timeout.
    sa.or_(_NODE.maintenance.is_(sa.false()), _NODE.fault.is_not(None)),
).order_by(_NODE.provision_updated_at, _NODE.id)

_LOCK_COLUMNS = tuple(LockedNode.__annotations__)
# Runs every few seconds and finds few rows. The form makes SQLite use the index of the rare value,
# a busy state or a lock, instead of scanning all nodes.
_BY_KEY = _NODE.id + 0
_NOBODY = sa.func.coalesce(_NODE.reservation, "") == ""
_SOMEBODY = _NODE.reservation > ""
_PAST = sa.bindparam("after_id", type_=sa.BigInteger) < _BY_KEY
_UNHELD = _select_nodes(_LOCK_COLUMNS, _PAST, _IN_STATES, _NOBODY).order_by(_BY_KEY)
_HELD = _select_nodes(_LOCK_COLUMNS, _PAST, _SOMEBODY).order_by(_BY_KEY)

# A conductor owns few of these nodes in a large fleet; `whole` reads all columns of its own.
_CANDIDATE_COLUMNS = tuple(Candidate.__annotations__)
_SYNCED = _select_nodes(
    _CANDIDATE_COLUMNS,
    _AFTER,
    _NODE.provision_state.not_in(_list_parameter("states")),
    _USUALLY_FREE,
    unindexed(_NODE.maintenance).is_(sa.false()),
    _IN_SERVICE,
).order_by(_NODE.id)
_IN_FAULT = _select_nodes(
    _CANDIDATE_COLUMNS,
    _AFTER,
    _NODE.fault == sa.bindparam("fault", type_=sa.String),
    _USUALLY_FREE,
    _IN_SERVICE,
    _CHANGEABLE,
).order_by(_NODE.id)
# No index: few conductors use it, and rarely.
_WITH_CONSOLE = _select_nodes(
    _CANDIDATE_COLUMNS, _AFTER, _NODE.console_enabled.is_(sa.true()), _CHANGEABLE
).order_by(_NODE.id)
_OWN = (
    sa.select(*(_NODE[name] for name in _WHOLE))
    .where(_NODE.id.in_(sa.bindparam("ids", expanding=True, type_=sa.BigInteger)))
    .order_by(_NODE.id)
)
_STANDING_COLUMNS = tuple(Standing.__annotations__)
_PORT = models.ports.c
_LAST_CHANGE = sa.func.max(sa.func.coalesce(_PORT.updated_at, _PORT.created_at))
_PORTS = sa.cast(sa.func.count(), sa.String(20)) + sa.cast(_LAST_CHANGE, sa.String(32))
_OF_PORTS = sa.select(_PORTS).where(_PORT.node_uuid == _NODE.uuid).scalar_subquery()
_STANDING = (
    _select_nodes(_STANDING_COLUMNS[:-1], _AFTER, _USUALLY_FREE, _CHANGEABLE)
    .add_columns(sa.case((_IN_STATES, _OF_PORTS), else_=sa.null()))
    .order_by(_NODE.id)
)
_NOTES_COLUMNS = tuple(NodeNotes.__annotations__)
_NOTES = sa.select(
    *(_NODE[name] for name in _NOTES_COLUMNS[:-1]),
    _NODE.uuid.in_(holds.nodes_refusing(ORDER)).label("observed"),
).where(_NODE.uuid.in_(_list_parameter("uuids")))

# Any row serves that exists with every conductor, is never deleted, and is locked before rows of
# nodes, as the keepalive does.
_TURN = (
    sa.select(models.conductors.c.id).order_by(models.conductors.c.id).limit(1).with_for_update()
)


def _count(states: int) -> sa.Select[Any]:
    """Return the count of the nodes in so many states."""
    among = [sa.bindparam(f"state_{place}", type_=sa.String) for place in range(states)]
    chosen = _NODE.provision_state.in_(among)
    return sa.select(sa.func.count()).select_from(models.nodes).where(chosen)


# -- questions -------------------------------------------------------------------------------


def notes(conn: Connection, *, uuids: Collection[str]) -> list[NodeNotes]:
    """Return the notes of these nodes; missing ones are left out."""
    return _read_rows(conn, _NOTES, _NOTES_COLUMNS, uuids=list(uuids))


def due(
    conn: Connection,
    *,
    now: datetime.datetime,
    limit: int,
    after: Due | None = None,
    since: datetime.datetime = _FIRST,
) -> list[Due]:
    """Return the free nodes whose ``wake_at`` has come, earliest first.

    :param since: no nodes whose ``wake_at`` is earlier.
    :param after: the last node of the page before.
    :returns: id, uuid, driver, conductor_group, provision_state, wake_at, updated_at.
    """
    last = (since, 0) if after is None else (after["wake_at"], after["id"])
    values = {"now": now, "limit_": limit, "after": last[0], "after_id": last[1]}
    return _read_rows(conn, _DUE, _DUE_COLUMNS, **values)


def overdue(
    conn: Connection,
    *,
    state: str,
    before: datetime.datetime,
    limit: int,
    after: OverdueNode | None = None,
    since: datetime.datetime = _FIRST,
) -> list[OverdueNode]:
    """Return the free nodes in ``state`` since before ``before``, longest first.

    Nodes that an operator has put into maintenance are left out, because the operator watches them.

    :param after: as in `due`.
    :param since: no nodes that are in the state since an earlier time.
    """
    last = (since, 0) if after is None else (after["provision_updated_at"], after["id"])
    values = {"state": state, "before": before, "after": last[0], "after_id": last[1]}
    return _read_rows(conn, _OVERDUE, _OVERDUE_COLUMNS, **values, limit_=limit)


def unheld(
    conn: Connection,
    *,
    states: Collection[str],
    limit: int,
    after_id: int = 0,
) -> list[LockedNode]:
    """Return the unlocked nodes in ``states``, by id after ``after_id``."""
    return _read_rows(
        conn, _UNHELD, _LOCK_COLUMNS, states=list(states), after_id=after_id, limit_=limit
    )


def held(conn: Connection, *, limit: int, after_id: int = 0) -> list[LockedNode]:
    """Return the locked nodes of any state, by a live or dead holder; as `unheld`."""
    return _read_rows(conn, _HELD, _LOCK_COLUMNS, after_id=after_id, limit_=limit)


def for_power_sync(
    conn: Connection, *, skip_states: Collection[str], after_id: int = 0, limit: int
) -> list[Candidate]:
    """Return free nodes for the power sync, by id after ``after_id``.

    Left out are nodes in ``skip_states``, in maintenance, and retired ones (S4.14, conflict C24).
    """
    return _read_rows(
        conn, _SYNCED, _CANDIDATE_COLUMNS, states=list(skip_states), after_id=after_id, limit_=limit
    )


def in_fault(conn: Connection, *, fault: str, after_id: int = 0, limit: int) -> list[Candidate]:
    """Return free nodes with this fault, by id after ``after_id``, no retired or observed ones."""
    return _read_rows(
        conn, _IN_FAULT, _CANDIDATE_COLUMNS, fault=fault, after_id=after_id, limit_=limit
    )


def whole(conn: Connection, *, ids: Collection[int]) -> list[Row]:
    """Return these nodes with all columns, by id; missing ones are left out."""
    return _read_rows(conn, _OWN, _WHOLE, ids=list(ids))


def standing(
    conn: Connection, *, states: Collection[str], after_id: int = 0, limit: int
) -> list[Standing]:
    """Return free nodes of any state that may be changed, by id after ``after_id``.

    :param states: in which the ports of a node are looked at.
    """
    return _read_rows(
        conn, _STANDING, _STANDING_COLUMNS, states=list(states), after_id=after_id, limit_=limit
    )


def with_console(conn: Connection, *, after_id: int = 0, limit: int) -> list[Candidate]:
    """Return the nodes of any state whose console is started, no observed ones, as `in_fault`."""
    return _read_rows(conn, _WITH_CONSOLE, _CANDIDATE_COLUMNS, after_id=after_id, limit_=limit)


def count_in(conn: Connection, states: Collection[str]) -> int:
    """Return the number of nodes in these provision states."""
    values = {f"state_{place}": str(state) for place, state in enumerate(states)}
    found = prepared.first(conn, _count, (len(states),), values)
    assert found is not None  # a count has one row
    return int(found[0])


def count_alone(conn: Connection, states: Collection[str]) -> int:
    """Return the number of nodes in these states, and exclude other callers.

    Another caller waits until this transaction ends, so a count followed by an insert is not
    overtaken. It goes before all writes of its transaction.
    """
    if conn.dialect.name != "sqlite":  # SQLite has one writer at a time
        conn.execute(_TURN)
    return count_in(conn, states)
