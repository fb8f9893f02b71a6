"""Queries for explanations: the newest run with its steps and lines, and events of failures."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, runs
from ironic_lite.db.tables import models
from ironic_lite.domain import run_log
from ironic_lite.records import Event, Run, RunStep

_EVENT = models.events.c
_RUN = models.runs.c
_STEP = models.run_steps.c
_LOG = models.run_logs.c
_OF_RUN = ("uuid", "node_uuid", "verb", "state", "ended_at", "error", "owner", "lessee")
_NEWEST_FAILURES = 10
_FAILURES = (
    sa.select(*models.events.c, *(_RUN[name] for name in _OF_RUN))
    .select_from(models.events.outerjoin(models.runs, _RUN.uuid == _EVENT.run_uuid))
    .where(
        _EVENT.node_uuid == sa.bindparam("k_node"),
        sa.or_(
            sa.and_(_EVENT.kind == "fault", _EVENT.event != "recovered"),
            sa.and_(
                _EVENT.kind.in_(("power", "management", "provision")),
                _EVENT.event.in_(("fail", "abort")),
            ),
        ),
    )
    .order_by(_EVENT.id.desc())
    .limit(_NEWEST_FAILURES)
)
_REFUSED_AGENT = (
    sa.select(models.events)
    .where(
        _EVENT.node_uuid == sa.bindparam("k_node"),
        _EVENT.kind == "agent_refused",
        _EVENT.at >= sa.bindparam("k_since"),
    )
    .order_by(_EVENT.id.desc())
    .limit(1)
)
_RUN_SHOWN = tuple(name for name in runs.COLUMNS if name != "listed")
_STEP_SHOWN = tuple(name for name in runs.STEP_COLUMNS if name != "args")
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
_NEWEST_LOG_TEXTS = (
    sa.select(_LOG.text)
    .where(_LOG.run_uuid == sa.bindparam("k_run"))
    .order_by(_LOG.id.desc())
    .limit(sa.bindparam("limit_", type_=sa.Integer))
)


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


def failures(conn: Connection, node_uuid: str) -> list[tuple[Event, Run | None]]:
    """Return a node's newest events of failures, each with its run, by one statement.

    Of a run there are the columns that a failure needs.
    """
    found = []
    for row in conn.execute(_FAILURES, {"k_node": node_uuid}):
        about = dict(zip(_OF_RUN, row[len(events.COLUMNS) :], strict=True))
        run = cast(Run, about) if about["uuid"] is not None else None
        found.append((_event(row[: len(events.COLUMNS)]), run))
    return found


def refused_agent(conn: Connection, node_uuid: str, since: datetime.datetime) -> Event | None:
    """Return a node's newest event of a refused ramdisk since a time, None without one."""
    found = conn.execute(_REFUSED_AGENT, {"k_node": node_uuid, "k_since": since}).first()
    return _event(found) if found is not None else None


def log_tail(conn: Connection, run: Run, lines: int) -> list[str]:
    """Return the newest stored lines of a run, without its events; one statement."""
    found = conn.execute(_NEWEST_LOG_TEXTS, {"k_run": run["uuid"], "limit_": lines}).scalars()
    return run_log.merge((), reversed(found.all()))[-lines:]


def _event(found: Sequence[Any]) -> Event:
    return cast(Event, dict(zip(events.COLUMNS, found, strict=True)))
