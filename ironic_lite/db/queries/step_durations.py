"""Times of steps: usual durations, and the steps that have been under way for long."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypedDict, cast

import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.core.slots import Newest
from ironic_lite.db.engine.session import Connection, Transactions
from ironic_lite.db.tables import models
from ironic_lite.domain import step_times
from ironic_lite.domain.step_times import Sample, Usual
from ironic_lite.records import RunStep

# Usual durations of steps, from the steps that have ended well lately.
#
# Nothing is stored: the newest rows of a step say how long it takes, so a fleet that changes its
# disks is described after a few runs.

MOST_SAMPLES = 200
"""Samples of a step that count."""
_SCANNED = 20_000
"""Rows of a step that a search for samples reads at most; others may have failed or be pending."""
FRESH_SECONDS = 300.0
"""Seconds for which the samples of a step are kept."""
FRESH_SECONDS_IF_FEW = 1.0
"""The same for a step with too few samples, which may soon have enough."""
FRESH_SECONDS_IF_NONE = 30.0
"""The same for a step without samples."""
_KEPT = 256
"""Steps whose samples are kept."""
_AT_ONCE = 50
"""Names of steps in one statement."""

StepName = tuple[str, str]
"""The interface and the name of a step."""

_STEP = models.run_steps.c
_RUN = models.runs.c
_NODE = models.nodes.c
_SKIPPED = sa.bindparam("k_scanned", type_=sa.BigInteger)
_LIMIT = sa.bindparam("k_newest", type_=sa.Integer)


def _samples_of_name(place: int) -> sa.Select[Any]:
    """Return the part of a statement for the samples of one name; it shows its place."""
    of_name = (
        _STEP.interface == sa.bindparam(f"k_interface_{place}", type_=sa.String),
        _STEP.step == sa.bindparam(f"k_step_{place}", type_=sa.String),
    )
    # Reads only the index.
    oldest = sa.select(_STEP.id).where(*of_name).order_by(_STEP.id.desc()).limit(1)
    before = sa.func.coalesce(oldest.offset(_SKIPPED).scalar_subquery(), 0)
    done = (
        sa.select(_STEP.run_uuid, _STEP.started_at, _STEP.ended_at)
        .where(
            *of_name,
            _STEP.id > before,
            _STEP.state == "done",
            _STEP.done_in.is_(None),  # kept by a retry: the earlier run has the sample
            _STEP.started_at.is_not(None),
            _STEP.ended_at.is_not(None),
        )
        .order_by(_STEP.id.desc())
        .limit(_LIMIT)
        .subquery("done")
    )
    joined = done.join(models.runs, _RUN.uuid == done.c.run_uuid).join(
        models.nodes, _NODE.uuid == _RUN.node_uuid
    )
    shown = (done.c.started_at, done.c.ended_at, _NODE.driver, _NODE.resource_class)
    number: sa.ColumnElement[int] = sa.literal_column(str(place), sa.Integer).label("place")
    return sa.select(number, *shown).select_from(joined)


@cache
def _samples_of_names(count: int) -> sa.CompoundSelect[Any]:
    return sa.union_all(*map(_samples_of_name, range(count)))


def samples(conn: Connection, names: Sequence[StepName]) -> dict[StepName, list[Sample]]:
    """Return the durations of the newest steps of each name that ended well; no order.

    :param names: at least one, and not so many that a database refuses the statement.
    """
    values: Row = {"k_newest": MOST_SAMPLES, "k_scanned": _SCANNED}
    for place, (interface, step) in enumerate(names):
        values |= {f"k_interface_{place}": interface, f"k_step_{place}": step}
    found: dict[StepName, list[Sample]] = {name: [] for name in names}
    rows = conn.execute(_samples_of_names(len(names)), values)
    for place, started, ended, driver, resource_class in rows:
        seconds = (ended - started).total_seconds()
        found[names[place]].append(Sample(seconds, driver, resource_class))
    return found


class UsualTimes:
    """Usual durations of steps; the samples of each are read once in five minutes. Thread-safe.

    :param now: a clock in seconds that cannot be set.
    """

    def __init__(self, database: Transactions, now: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._now = now
        self._guard = threading.Lock()
        # By interface and step: the time until which the samples are fresh, and the samples.
        self._known: Newest[StepName, tuple[float, list[Sample]]] = Newest(_KEPT)

    def of(
        self, interface: str, step: str, driver: str | None, resource_class: str | None
    ) -> Usual | None:
        """Return the usual duration of a step on such a machine; None without enough samples.

        One statement, if the samples of this step are not known.

        :param driver: hardware type of the node.
        :param resource_class: of the node.
        """
        name = (interface, step)
        return self.of_all([name], driver, resource_class)[name]

    def of_all(
        self, names: Iterable[StepName], driver: str | None, resource_class: str | None
    ) -> dict[StepName, Usual | None]:
        """Return the usual duration of each step on such a machine.

        One statement for each 50 steps whose samples are not known.
        """
        wanted = list(dict.fromkeys(names))
        known = self._samples_of([one for one in wanted if one[1] not in step_times.BY_REQUEST])
        return {
            name: step_times.usual(known.get(name, ()), driver, resource_class) for name in wanted
        }

    def _samples_of(self, names: Sequence[StepName]) -> dict[StepName, list[Sample]]:
        at = self._now()
        with self._guard:
            kept = {name: self._known[name] for name in names if name in self._known}
        found = {name: one for name, (until, one) in kept.items() if at < until}
        missing = [name for name in names if name not in found]
        for first in range(0, len(missing), _AT_ONCE):
            some = missing[first : first + _AT_ONCE]
            read = self._database.read(lambda conn, some=some: samples(conn, some))  # type: ignore[misc]
            self._keep(read, at)
            found |= read
        return found

    def _keep(self, found: dict[StepName, list[Sample]], at: float) -> None:
        with self._guard:
            for name, samples_of_name in found.items():
                self._known[name] = (at + _fresh_seconds(samples_of_name), samples_of_name)


def _fresh_seconds(found: Sequence[Sample]) -> float:
    if not found:
        return FRESH_SECONDS_IF_NONE
    return FRESH_SECONDS if len(found) >= step_times.FEWEST else FRESH_SECONDS_IF_FEW


_PAGE = 500
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
MARKED = _STEP.overdue_at >= _STEP.started_at
"""The condition of a step that is marked: an earlier attempt may have been, too."""


@cache
def _long_steps(of_owner: bool) -> sa.Select[Any]:
    wanted = [
        _IS_OPEN,
        sa.or_(
            _STEP.started_at <= sa.bindparam("k_before"),
            _STEP.started_at > sa.bindparam("k_ahead"),
            MARKED,
        ),
        sa.bindparam("k_after", type_=sa.BigInteger) < _BY_ID,
    ]
    if of_owner:
        project = sa.bindparam("k_owner", type_=sa.String)
        theirs = (_NODE.owner, _NODE.lessee, _RUN.owner)
        wanted.append(sa.or_(*(column == project for column in theirs)))
    statement = sa.select(*_COLUMNS).select_from(_JOINED).where(*wanted)
    return statement.order_by(_BY_ID).limit(sa.bindparam("limit_", type_=sa.Integer))


_LONG_STEP = (
    sa.select(*_COLUMNS)
    .select_from(_JOINED)
    .where(_IS_OPEN, _STEP.id == sa.bindparam("k_id", type_=sa.BigInteger))
)
_MARK_OVERDUE = (
    models.run_steps.update()
    .where(
        _STEP.id == sa.bindparam("k_id", type_=sa.BigInteger),
        _STEP.attempt == sa.bindparam("k_attempt", type_=sa.Integer),
        _STEP.state.in_(_OPEN),
        sa.or_(_STEP.overdue_at.is_(None), sa.not_(MARKED)),
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


def get_long_step(conn: Connection, ident: int) -> LongStep | None:
    """Return a step by its id; None if it is not under way."""
    found = conn.execute(_LONG_STEP, {"k_id": ident}).first()
    return _step_of_row(found) if found is not None else None


def _step_of_row(row: Any) -> LongStep:
    return cast(LongStep, dict(zip(_NAMES, row, strict=True)))


def is_marked_overdue(step: LongStep | RunStep) -> bool:
    """Return whether this attempt at a step is marked as overdue."""
    begun, marked = step["started_at"], step["overdue_at"]
    return marked is not None and begun is not None and marked >= begun


def mark_overdue(conn: Connection, ident: int, *, attempt: int, at: datetime.datetime) -> bool:
    """Mark an attempt at a step as overdue; False if it is marked, or not under way any more."""
    values = {"k_id": ident, "k_attempt": attempt, "k_at": at}
    return conn.execute(_MARK_OVERDUE, values).rowcount == 1
