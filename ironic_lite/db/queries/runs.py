"""Queries on runs: the durable record of every verb run on a node, its steps, stop and log."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Unpack, cast

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection, write_node
from ironic_lite.db.queries import paging
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

_UPDATE = prepared.Write(models.runs.update().where(_RUN.uuid == sa.bindparam("k_uuid")))
_INSERTED = tuple(name for name in COLUMNS if name != "id")
_BEFORE = models.runs.alias("before")
_TAKEN = sa.exists().where(
    _BEFORE.c.request_id == sa.bindparam("v_request_id"),
    _BEFORE.c.node_uuid == sa.bindparam("v_node_uuid"),
)
_INSERT = prepared.Write(
    models.runs.insert().from_select(
        _INSERTED,
        sa.select(*(sa.bindparam(f"v_{name}", type_=_RUN[name].type) for name in _INSERTED)).where(
            sa.not_(_TAKEN)
        ),
    ),
    columns=False,
)
_GET = sa.select(models.runs).where(_RUN.uuid == sa.bindparam("k_uuid"))
_VERB = sa.select(_RUN.verb).where(_RUN.uuid == sa.bindparam("k_uuid"))
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
    """Add a run, unless its request has one on its node already.

    :raises errors.Conflict: as `refuse_again`.
    """
    if not _INSERT.execute(conn, {f"v_{name}": values.get(name) for name in _INSERTED}):
        refuse_again(conn, values["node_uuid"], values["request_id"])


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


def verb(conn: Connection, uuid: str) -> str:
    """Return the verb of a run."""
    return str(conn.execute(_VERB, {"k_uuid": uuid}).scalar())


def update(conn: Connection, uuid: str, values: RowView) -> None:
    """Change a run's state, ended_at, error, code, cause, conductor or listed."""
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


# The walk from the newest run meets the newest ones first, so a page looks at few others.
_OTHER = models.runs.alias("other")
NEWEST = (
    sa.select(sa.func.max(_OTHER.c.id))
    .where(_OTHER.c.node_uuid == _RUN.node_uuid)
    .correlate(models.runs)
    .scalar_subquery()
)
"""The id of the newest run of a run's node."""
UNDER_WAY = sa.or_(*(_RUN.state == state for state in _OPEN))
LISTING = paging.Listing(models.runs, paging.owner_filters(models.runs, UNDER_WAY))


def page(
    conn: Connection,
    node_uuid: str,
    *,
    columns: Sequence[str] | None = None,
    where: RowView | None = None,
    **place: Unpack[paging.Place],
) -> list[Row]:
    """Return a page of 100 of a node's runs, the newest first unless ``place`` says otherwise.

    :param where: further columns, as in ``paging.Listing.page``.
    :raises errors.NotFound: no run is the marker.
    """
    place = {"direction": "desc", "limit": 100, **place}
    of_node = {**(where or {}), "node_uuid": node_uuid}
    return LISTING.page(conn, columns=columns, where=of_node, **place)


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


def steps(conn: Connection, run_uuid: str) -> list[RunStep]:
    """Return a run's steps in the order they were planned."""
    found = conn.execute(_STEPS, {"k_run": run_uuid}).all()
    return [cast(RunStep, dict(zip(STEP_COLUMNS, row, strict=True))) for row in found]


Step = RunStep
_NODE = models.nodes.c
_STEP_COLUMNS = (
    "run_uuid",
    "kind",
    "ordinal",
    "interface",
    "step",
    "state",
    "attempt",
    "started_at",
)
_NODE_COLUMNS = ("driver", "resource_class", "run_stop")
_OWNER_COLUMNS = ("owner", "lessee")
_STEPS_WITH_NODES = (
    sa.select(
        _RUN.uuid,
        *(_STEP[name] for name in _STEP_COLUMNS),
        *(_NODE[name] for name in _NODE_COLUMNS),
        *(_RUN[name] for name in _OWNER_COLUMNS),
    )
    .select_from(
        models.runs.join(models.nodes, _NODE.uuid == _RUN.node_uuid).outerjoin(
            models.run_steps, _STEP.run_uuid == _RUN.uuid
        )
    )
    .where(_RUN.uuid.in_(sa.bindparam("k_runs", expanding=True, type_=_RUN.uuid.type)))
    .order_by(_STEP.id)
)


def steps_with_nodes(conn: Connection, runs: Sequence[str]) -> dict[str, tuple[list[Step], Row]]:
    """Return the steps of each run as planned, and driver, resource_class, run_stop of its node.

    Beside these are the owner and the lessee of the time of the run.

    :param runs: UUIDs, at most those of one page.
    """
    found: dict[str, tuple[list[Step], Row]] = {}
    for run, *row in conn.execute(_STEPS_WITH_NODES, {"k_runs": list(runs)}):
        step = dict(zip(_STEP_COLUMNS, row, strict=False))
        node = dict(zip((*_NODE_COLUMNS, *_OWNER_COLUMNS), row[len(_STEP_COLUMNS) :], strict=True))
        steps, _ = found.setdefault(run, ([], node))
        if step["run_uuid"] is not None:
            steps.append(cast(RunStep, step))
    return found


# Queries on the stop of a node's run, which the API writes while a conductor holds the lock.
#
# Only the column ``run_stop`` is written that way. It is no part of the node's generation, because
# no client of Ironic sees it.

_LOCKED_BY_US = (_NODE.uuid == sa.bindparam("k_uuid"), _NODE.lock_token == sa.bindparam("k_token"))
_SAVE_UNLESS_STOPPED = prepared.Write(
    models.nodes.update()
    .where(
        *_LOCKED_BY_US, _NODE.run_stop.is_not_distinct_from(sa.bindparam("k_stop", type_=sa.Text))
    )
    .values(generation=_NODE.generation + 1)
)
_GET_STOP = sa.select(_NODE.run_stop).where(*_LOCKED_BY_US)
_SET_STOP = models.nodes.update().where(
    _NODE.uuid == sa.bindparam("k_uuid"), _NODE.run_uuid == sa.bindparam("k_run")
)


class StopChanged(Exception):
    """The stop of a run is another one than the conductor has read; nothing was written.

    :ivar text: the node's column ``run_stop`` now.
    """

    def __init__(self, text: str | None) -> None:
        super().__init__("the stop of the run has changed")
        self.text = text


def save_unless_stopped(
    conn: Connection,
    node_uuid: str,
    values: RowView,
    *,
    token: str,
    at: datetime.datetime,
    known: str | None,
) -> None:
    """Write columns of a locked node as `nodes.save`, unless the stop of its run has changed.

    :param known: the node's column ``run_stop`` as last read.
    :raises errors.LockLost: the lock is lost, or the node is gone.
    :raises StopChanged: the API has written another stop.
    """
    mine = {"k_uuid": node_uuid, "k_token": token}
    guard = {**mine, "k_stop": known, "updated_at": at}
    if write_node(conn, _SAVE_UNLESS_STOPPED, node_uuid, values, guard):
        return
    found = conn.execute(_GET_STOP, mine).first()
    if found is None:
        raise errors.LockLost(node=node_uuid)
    raise StopChanged(found[0])


def put_stop(conn: Connection, node_uuid: str, run_uuid: str, text: str | None) -> bool:
    """Write or remove the stop of a run; return False if the run has ended.

    The caller holds the node's row, so that no step begins meanwhile.
    """
    values = {"k_uuid": node_uuid, "k_run": run_uuid, "run_stop": text}
    return bool(conn.execute(_SET_STOP, values).rowcount)


# Queries on the lines of runs: rows of one line or more, in the order of writing.

_LOG = models.run_logs.c
_AFTER_ROW = sa.bindparam("k_after", type_=sa.BigInteger)
_LIMIT = sa.bindparam("limit_", type_=sa.Integer)
# Adds nothing for a run that has been removed, so that its last lines fail no save.
_APPEND_LINES = models.run_logs.insert().from_select(
    ["run_uuid", "at", "text"],
    sa.select(
        _RUN.uuid,
        sa.bindparam("k_at", type_=_LOG.at.type),
        sa.bindparam("k_text", type_=_LOG.text.type),
    ).where(_RUN.uuid == sa.bindparam("k_run")),
)
_LOG_ROWS = (
    sa.select(_LOG.id, _LOG.at, _LOG.text)
    .where(_LOG.run_uuid == sa.bindparam("k_run"), _LOG.id > _AFTER_ROW)
    .order_by(_LOG.id)
    .limit(_LIMIT)
)
_LOG_BYTES = {
    "sqlite": sa.func.length(sa.cast(_LOG.text, sa.LargeBinary)),
    "postgresql": sa.func.octet_length(_LOG.text),
    "mysql": sa.func.octet_length(_LOG.text),
}
_LOG_SIZES = {
    kind: sa.select(sa.func.coalesce(sa.func.sum(length), 0)).where(
        _LOG.run_uuid == sa.bindparam("k_run")
    )
    for kind, length in _LOG_BYTES.items()
}
_REPLACE_LOG_ROW = (
    models.run_logs.update()
    .where(_LOG.id == sa.bindparam("k_id", type_=sa.BigInteger))
    .values(text=sa.bindparam("k_text", type_=_LOG.text.type))
)
_REMOVE_LOG_ROWS = models.run_logs.delete().where(
    _LOG.id.in_(sa.bindparam("k_ids", expanding=True, type_=sa.BigInteger))
)


class StoredLines(NamedTuple):
    """A row: lines that were written together."""

    id: int
    at: datetime.datetime
    text: str


def append_lines(conn: Connection, run_uuid: str, *, at: datetime.datetime, text: str) -> None:
    """Add lines to the log of a run, nothing if the run does not exist any more.

    :param text: one line or more, joined by line ends.
    """
    conn.execute(_APPEND_LINES, {"k_run": run_uuid, "k_at": at, "k_text": text})


def log_rows(
    conn: Connection, run_uuid: str, *, after: int = 0, limit: int = 10_000
) -> list[StoredLines]:
    """Return the rows of a run after a row's id, the oldest first."""
    values = {"k_run": run_uuid, "k_after": after, "limit_": limit}
    return [StoredLines(*row) for row in conn.execute(_LOG_ROWS, values)]


def log_size(conn: Connection, run_uuid: str) -> int:
    """Return the bytes of all texts of a run; the database sums them up."""
    statement = _LOG_SIZES.get(conn.dialect.name, _LOG_SIZES["mysql"])
    return int(conn.execute(statement, {"k_run": run_uuid}).scalar_one())


def replace_log_rows(conn: Connection, ids: Sequence[int], text: str) -> None:
    """Replace rows by one with another text, at the place of the first."""
    conn.execute(_REPLACE_LOG_ROW, {"k_id": ids[0], "k_text": text})
    remove_log_rows(conn, ids[1:])


def remove_log_rows(conn: Connection, ids: Collection[int]) -> None:
    """Remove rows."""
    if ids:
        conn.execute(_REMOVE_LOG_ROWS, {"k_ids": list(ids)})
