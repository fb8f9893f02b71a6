"""Queries for steps that have been under way for long."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from functools import cache
from typing import Any, TypedDict, cast

import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.tables import models
from ironic_lite.records import RunStep

_PAGE = 500
_STEP, _RUN, _NODE = models.run_steps.c, models.runs.c, models.nodes.c
_OPEN = ("running", "waiting")
_BY_ID = _STEP.id + 0
"""The order of steps, as an expression: PostgreSQL would read all steps by their primary key."""


class LongStep(TypedDict):
    """A step that has not ended, with the columns of its node that name owner and machine."""

    id: int
    run_uuid: str
    ordinal: int
    kind: str
    interface: str
    step: str
    state: str
    attempt: int
    started_at: datetime.datetime
    overdue_at: datetime.datetime | None
    uuid: str
    driver: str
    resource_class: str | None
    conductor_group: str
    maintenance: bool
    fault: str | None


_NAMES = tuple(LongStep.__annotations__)
_OF_STEP = _NAMES[: _NAMES.index("uuid")]
_COLUMNS = (*(_STEP[name] for name in _OF_STEP), *(_NODE[name] for name in _NAMES[len(_OF_STEP) :]))
_JOINED = models.runs.join(models.run_steps, _STEP.run_uuid == _RUN.uuid).join(
    models.nodes, _NODE.uuid == _RUN.node_uuid
)
_IS_OPEN = sa.and_(_RUN.state.in_(_OPEN), _STEP.state.in_(_OPEN))
_MARKED = _STEP.overdue_at >= _STEP.started_at
"""The condition of a step that is marked: an earlier attempt may have been, too."""


@cache
def _long_steps(of_owner: bool) -> sa.Select[Any]:
    wanted = [
        _IS_OPEN,
        sa.or_(
            _STEP.started_at <= sa.bindparam("k_before"),
            _STEP.started_at > sa.bindparam("k_ahead"),
            _MARKED,
        ),
        sa.bindparam("k_after", type_=sa.BigInteger) < _BY_ID,
    ]
    if of_owner:
        project = sa.bindparam("k_owner", type_=sa.String)
        theirs = (_NODE.owner, _NODE.lessee, _RUN.owner)
        wanted.append(sa.or_(*(column == project for column in theirs)))
    statement = sa.select(*_COLUMNS).select_from(_JOINED).where(*wanted)
    return statement.order_by(_BY_ID).limit(sa.bindparam("limit_", type_=sa.Integer))


_ONE = (
    sa.select(*_COLUMNS)
    .select_from(_JOINED)
    .where(_IS_OPEN, _STEP.id == sa.bindparam("k_id", type_=sa.BigInteger))
)
_MARK = (
    models.run_steps.update()
    .where(
        _STEP.id == sa.bindparam("k_id", type_=sa.BigInteger),
        _STEP.attempt == sa.bindparam("k_attempt", type_=sa.Integer),
        _STEP.state.in_(_OPEN),
        sa.or_(_STEP.overdue_at.is_(None), sa.not_(_MARKED)),
    )
    .values(overdue_at=sa.bindparam("k_at"))
)


def long_steps(
    database: Transactions, before: datetime.datetime, *, owner: str | None = None
) -> Iterator[LongStep]:
    """Yield the steps under way that began before a moment, or are marked.

    So are steps that may have begun by a clock that was ahead. One statement for each 500.

    :param owner: only those of runs and nodes with this owner, and of nodes with this lessee.
    """
    values: Row = {"k_before": before, "k_ahead": clock.ahead_since(), "k_after": 0}
    values["limit_"] = _PAGE
    if owner is not None:
        values["k_owner"] = owner
    statement = _long_steps(owner is not None)
    while True:
        page = database.read(lambda conn: conn.execute(statement, values).all())
        yield from map(_step_of_row, page)
        if len(page) < _PAGE:
            return
        values["k_after"] = page[-1].id


def get(conn: Connection, ident: int) -> LongStep | None:
    """Return a step by its id; None if it is not under way."""
    found = conn.execute(_ONE, {"k_id": ident}).first()
    return _step_of_row(found) if found is not None else None


def _step_of_row(row: Any) -> LongStep:
    return cast(LongStep, dict(zip(_NAMES, row, strict=True)))


def is_marked(step: LongStep | RunStep) -> bool:
    """Return whether this attempt at a step is marked as overdue."""
    begun, marked = step["started_at"], step["overdue_at"]
    return marked is not None and begun is not None and marked >= begun


def mark(conn: Connection, ident: int, *, attempt: int, at: datetime.datetime) -> bool:
    """Mark an attempt at a step as overdue; False if it is marked, or not under way any more."""
    values = {"k_id": ident, "k_attempt": attempt, "k_at": at}
    return conn.execute(_MARK, values).rowcount == 1
