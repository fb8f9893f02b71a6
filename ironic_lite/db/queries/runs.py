"""Queries on runs and their steps: the durable record of every verb run on a node."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds, paging, whose
from ironic_lite.db.tables import models
from ironic_lite.records import Run, RunStep

COLUMNS: tuple[str, ...] = models.columns(models.runs)
STEP_COLUMNS: tuple[str, ...] = models.columns(models.run_steps)
_OPEN = ("running", "waiting")
_PROGRESS = ("state", "attempt", "started_at", "ended_at", "error")
_TOGETHER = 2  # steps that one UPDATE changes

_RUN = models.runs.c
_STEP = models.run_steps.c
_STEP_BLANK: Row = {
    "args": None,
    "priority": 0,
    "abortable": False,
    "state": "pending",
    "attempt": 0,
    "started_at": None,
    "ended_at": None,
    "error": None,
    "done_in": None,
    "waiver": None,
}

# -- statements ------------------------------------------------------------------------------

_INSERT = prepared.Write(models.runs.insert().inline(), computed=whose.OF_NODE)
_UPDATE = prepared.Write(models.runs.update().where(_RUN.uuid == sa.bindparam("k_uuid")))
_INSERTED = tuple(name for name in COLUMNS if name != "id")


def _insert_unless(*found: sa.ColumnElement[bool]) -> prepared.Write:
    """Build the INSERT of a run that writes nothing if one of these rows exists."""
    values = {name: sa.bindparam(f"v_{name}", type_=_RUN[name].type) for name in _INSERTED}
    chosen = sa.select(*values.values()).where(*(sa.not_(one) for one in found))
    return prepared.Write(models.runs.insert().from_select(_INSERTED, chosen), columns=False)


_BEFORE = models.runs.alias("before")
_TAKEN = sa.exists().where(
    _BEFORE.c.request_id == sa.bindparam("v_request_id"),
    _BEFORE.c.node_uuid == sa.bindparam("v_node_uuid"),
)
_HOLD = models.holds.c
_ANY_HOLD = sa.exists().where(
    _HOLD.node_uuid == sa.bindparam("v_node_uuid"),
    holds.in_force_at(sa.bindparam("k_now", type_=_HOLD.until.type)),
)
_INSERT_FIRST = _insert_unless(_TAKEN)
_INSERT_UNHELD = _insert_unless(_TAKEN, _ANY_HOLD)
_GET = sa.select(models.runs).where(_RUN.uuid == sa.bindparam("k_uuid"))
_CURRENT = (
    sa.select(models.runs)
    .where(_RUN.node_uuid == sa.bindparam("k_node"), _RUN.state.in_(_OPEN))
    .order_by(_RUN.id.desc())
    .limit(1)
)
_NEWEST = (
    sa.select(models.runs)
    .where(_RUN.node_uuid == sa.bindparam("k_node"))
    .order_by(_RUN.id.desc())
    .limit(1)
)
_ASKED = (
    sa.select(_RUN.uuid)
    .where(_RUN.request_id == sa.bindparam("k_request"), _RUN.node_uuid == sa.bindparam("k_node"))
    .limit(1)
)
_STEPS = (
    sa.select(models.run_steps).where(_STEP.run_uuid == sa.bindparam("k_run")).order_by(_STEP.id)
)
_RUN_SHOWN = tuple(name for name in COLUMNS if name != "listed")
_STEP_SHOWN = tuple(name for name in STEP_COLUMNS if name != "args")
# The list once, in the row of the first step, because it may be long.
_LIST_ONCE = sa.case((_STEP.ordinal == 0, _RUN.listed), else_=sa.null())
_NEWEST_WITH_STEPS = (
    sa.select(
        *(_RUN[name] for name in _RUN_SHOWN),
        _LIST_ONCE,
        *(_STEP[name] for name in _STEP_SHOWN),
    )
    .select_from(models.runs.outerjoin(models.run_steps, _STEP.run_uuid == _RUN.uuid))
    .where(
        _RUN.id
        == sa.select(sa.func.max(_RUN.id))
        .where(_RUN.node_uuid == sa.bindparam("k_node"))
        .correlate(None)
        .scalar_subquery()
    )
    .order_by(_STEP.id)
)
_OF_NEWEST = ("uuid", "node_uuid", "verb", "listed", "owner", "lessee")
_NEWEST_OF = sa.select(*(_RUN[name] for name in _OF_NEWEST)).where(
    _RUN.id.in_(
        sa.select(sa.func.max(_RUN.id))
        .where(_RUN.node_uuid.in_(sa.bindparam("k_nodes", expanding=True)))
        .group_by(_RUN.node_uuid)
    )
)
_STEPS_OF = (
    sa.select(models.run_steps)
    .where(_STEP.run_uuid.in_(sa.bindparam("k_runs", expanding=True)))
    .order_by(_STEP.id)
)
_INSERT_STEPS = prepared.Write(models.run_steps.insert().inline())
_DROP_PENDING = models.run_steps.delete().where(
    _STEP.run_uuid == sa.bindparam("k_run"),
    _STEP.kind == sa.bindparam("k_kind"),
    _STEP.ordinal >= sa.bindparam("k_first"),
    _STEP.state == "pending",
)
_NEVER_REACHED = _STEP.state == "pending"
_WHY = sa.bindparam("k_error", type_=_STEP.error.type)
# MariaDB assigns from left to right, and later expressions see the new state: so the state comes
# last.
_END_STEPS = (
    models.run_steps.update()
    .where(_STEP.run_uuid == sa.bindparam("k_run"), _STEP.state.in_((*_OPEN, "pending")))
    .ordered_values(
        (_STEP.ended_at, sa.case((_NEVER_REACHED, None), else_=sa.bindparam("k_at"))),
        (_STEP.error, sa.case((_NEVER_REACHED, sa.null()), else_=_WHY)),
        (_STEP.state, sa.case((_NEVER_REACHED, "skipped"), else_=sa.bindparam("k_state"))),
    )
)


@functools.cache
def _update_steps(shape: tuple[tuple[str, ...], ...]) -> prepared.Write:
    """Return the UPDATE of one step for each item of ``shape``, which names its columns."""
    chosen = [
        sa.and_(
            _STEP.kind == sa.bindparam(f"kind_{place}"),
            _STEP.ordinal == sa.bindparam(f"ordinal_{place}"),
        )
        for place in range(len(shape))
    ]
    changes: dict[str, sa.ColumnElement[Any]] = {}
    for name in sorted({name for names in shape for name in names}):
        cases = [
            (this, sa.bindparam(f"{name}_{place}", type_=_STEP[name].type))
            for place, (this, names) in enumerate(zip(chosen, shape, strict=True))
            if name in names
        ]
        changes[name] = sa.case(*cases, else_=_STEP[name]) if len(shape) > 1 else cases[0][1]
    of_run = _STEP.run_uuid == sa.bindparam("k_run")
    update = models.run_steps.update().where(of_run, sa.or_(*chosen)).values(changes)
    return prepared.Write(update, columns=False)


# -- runs ------------------------------------------------------------------------------------


def insert(conn: Connection, values: RowView) -> None:
    """Add a run."""
    _INSERT.insert_all(conn, [{"owner": None, "lessee": None, **values}])


def insert_first(conn: Connection, values: RowView, *, unheld: bool) -> bool:
    """Add a run unless its request has one on its node already; return whether it was added.

    The node's row is locked, so no run and no hold are added meanwhile.

    :param unheld: also add none if the node has a hold in force, whatever the hold blocks.
    """
    row = {f"v_{name}": values.get(name) for name in _INSERTED}
    if not unheld:
        return bool(_INSERT_FIRST.execute(conn, row))
    return bool(_INSERT_UNHELD.execute(conn, {**row, "k_now": clock.now()}))


def refuse_again(conn: Connection, node_uuid: str, request_id: str) -> None:
    """Refuse a request that has a run on this node, as a broker may repeat a message.

    The node's lock is held, so no run is added meanwhile.

    :raises errors.Conflict: naming that run.
    """
    uuid = of_request(conn, request_id, node_uuid)
    if uuid is not None:
        raise errors.Conflict(
            f"Request {request_id} has been taken on node {node_uuid} before: its run is "
            f"{uuid}. Ask again, by a request of its own, if it is to be done once more.",
            node=node_uuid,
            repeated=True,
        )


def of_request(conn: Connection, request_id: str, node_uuid: str) -> str | None:
    """Return the UUID of the run that a request has opened on a node, None without one."""
    values = {"k_request": request_id, "k_node": node_uuid}
    found: str | None = conn.execute(_ASKED, values).scalar()
    return found


def update(conn: Connection, uuid: str, values: RowView) -> None:
    """Change a run's state, ended_at, error, code, conductor or listed."""
    _UPDATE.execute(conn, {**values, "k_uuid": uuid})


def get(conn: Connection, uuid: str) -> Run:
    """Return a run as column -> value.

    :raises errors.NotFound:
    """
    found = conn.execute(_GET, {"k_uuid": uuid}).first()
    if found is None:
        raise errors.NotFound(what="Run", ident=uuid)
    return _run_of_row(found)


def current(conn: Connection, node_uuid: str) -> Run | None:
    """Return the running or waiting run of a node, or None."""
    found = conn.execute(_CURRENT, {"k_node": node_uuid}).first()
    return _run_of_row(found) if found is not None else None


def _run_of_row(found: sa.Row[Any]) -> Run:
    return cast(Run, dict(zip(COLUMNS, found, strict=True)))


def latest(conn: Connection, node_uuid: str) -> Run | None:
    """Return the newest run of a node, or None."""
    found = conn.execute(_NEWEST, {"k_node": node_uuid}).first()
    return _run_of_row(found) if found is not None else None


def newest_of(conn: Connection, node_uuids: Sequence[str]) -> dict[str, Run]:
    """Return the newest run of each node that has one, by a few columns."""
    found = conn.execute(_NEWEST_OF, {"k_nodes": list(node_uuids)})
    rows = [dict(zip(_OF_NEWEST, row, strict=True)) for row in found]
    return {str(row["node_uuid"]): cast(Run, row) for row in rows}


def newest_with_steps(conn: Connection, node_uuid: str) -> tuple[Run | None, list[RunStep]]:
    """Return the newest run of a node with its steps, by one statement.

    The arguments of steps are left out.
    """
    found = conn.execute(_NEWEST_WITH_STEPS, {"k_node": node_uuid}).all()
    if not found:
        return None, []
    count = len(_RUN_SHOWN)
    about = dict(zip(_RUN_SHOWN, found[0][:count], strict=True))
    about["listed"] = next((row[count] for row in found if row[count]), None)
    rows = [dict(zip(_STEP_SHOWN, row[count + 1 :], strict=True)) for row in found]
    steps_of_run = [{"args": None, **one} for one in rows if one["id"] is not None]
    return cast(Run, about), [cast(RunStep, one) for one in steps_of_run]


UNDER_WAY = sa.or_(*(_RUN.state == state for state in _OPEN))
LISTING = paging.Listing(models.runs, whose.filters(models.runs, UNDER_WAY))


def page(
    conn: Connection,
    node_uuid: str,
    *,
    columns: Sequence[str] | None = None,
    where: RowView | None = None,
    marker_id: str | None = None,
    direction: str = "desc",
    limit: int = 100,
) -> list[Row]:
    """Return a page of a node's runs, the newest first unless ``direction`` is ``asc``.

    :param where: further columns, as in ``paging.Listing.page``.
    :param marker_id: UUID of the last run of the page before.
    :raises errors.NotFound: no run is the marker.
    """
    return LISTING.page(
        conn,
        columns=columns,
        where={**(where or {}), "node_uuid": node_uuid},
        marker_id=marker_id,
        sort="id",
        direction=direction,
        limit=limit,
    )


# -- steps -----------------------------------------------------------------------------------


def insert_steps(conn: Connection, rows: Sequence[RowView]) -> None:
    """Add pending steps: run_uuid, ordinal, kind, interface, step; others default."""
    if rows:
        _INSERT_STEPS.insert_all(conn, [{**_STEP_BLANK, **row} for row in rows])


def drop_pending(conn: Connection, run_uuid: str, kind: str, *, first: int) -> None:
    """Remove the pending steps of a list, from the ordinal ``first`` on."""
    conn.execute(_DROP_PENDING, {"k_run": run_uuid, "k_kind": kind, "k_first": first})


def update_steps(conn: Connection, run_uuid: str, rows: Sequence[RowView]) -> None:
    """Change steps of a run: two by one statement, as one step ends and the next begins.

    :param rows: ``kind`` and ``ordinal`` name the step; the given ones of state, attempt,
        started_at, ended_at and error are set. A row without one of them changes nothing.
    :raises KeyError: a row has another column.
    """
    for row in rows:
        if unknown := row.keys() - {"kind", "ordinal", *_PROGRESS}:
            raise KeyError(*sorted(unknown))
    changed = [row for row in rows if not row.keys().isdisjoint(_PROGRESS)]
    for first in range(0, len(changed), _TOGETHER):
        some = changed[first : first + _TOGETHER]
        values: Row = {"k_run": run_uuid}
        for place, row in enumerate(some):
            values |= {f"{name}_{place}": value for name, value in row.items()}
        shape = tuple(tuple(name for name in _PROGRESS if name in row) for row in some)
        _update_steps(shape).execute(conn, values)


def end_steps(
    conn: Connection, run_uuid: str, *, state: str, at: datetime.datetime, error: Row | None = None
) -> None:
    """End the running or waiting steps of a run that has ended before them.

    Steps that were never reached become ``skipped``, without an end.

    :param state: ``failed`` or ``aborted``, as the run's own.
    :param error: the reason, as data.
    """
    values = {"k_run": run_uuid, "k_state": state, "k_at": at, "k_error": error}
    conn.execute(_END_STEPS, values)


def steps_of(conn: Connection, run_uuids: Sequence[str]) -> dict[str, list[RunStep]]:
    """Return the steps of several runs, by run, in the order they were planned."""
    found: dict[str, list[RunStep]] = {}
    for row in conn.execute(_STEPS_OF, {"k_runs": list(run_uuids)}):
        step = cast(RunStep, dict(zip(STEP_COLUMNS, row, strict=True)))
        found.setdefault(step["run_uuid"], []).append(step)
    return found


def steps(conn: Connection, run_uuid: str) -> list[RunStep]:
    """Return a run's steps in the order they were planned."""
    found = conn.execute(_STEPS, {"k_run": run_uuid}).all()
    return [cast(RunStep, dict(zip(STEP_COLUMNS, row, strict=True))) for row in found]
