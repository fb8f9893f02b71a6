"""Queries about nodes that need a person: each is one statement, and groups in the database."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds, nodes, paging, step_durations
from ironic_lite.db.tables import models
from ironic_lite.domain import states
from ironic_lite.features.attention import rules
from ironic_lite.features.attention.rules import LateStep, NodeGroup

MOST_FAILED = 10_000
"""Failed nodes that are grouped, the newest; so many unverified ones, too: each has a run."""
MOST_LATE = 1000
_KEPT = 64
"""Statements of each kind that are kept, by the shape of their filters."""
_LONGEST_RUN = datetime.timedelta(days=2)
"""A run that has failed within the last day is counted if it did not begin earlier than that."""
_OPEN = ("running", "waiting")
_HOUR_DIGITS = 13  # 2026-11-28 20

_NODE = models.nodes.c
_RUN = models.runs.c
_STEP = models.run_steps.c
_HOLD = models.holds.c
_OTHER = models.runs.alias("other").c


_MOST = sa.bindparam("k_most", type_=sa.Integer)


def _ids(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, expanding=True, type_=sa.BigInteger)


def _of_newest_run(value: sa.ColumnElement[Any]) -> sa.ScalarSelect[Any]:
    newest = sa.select(value).where(_RUN.node_uuid == _NODE.uuid).order_by(_RUN.id.desc())
    return newest.limit(1).scalar_subquery()


_HELD = sa.exists().where(
    _HOLD.node_uuid == _NODE.uuid,
    holds.IN_FORCE,
    sa.or_(*(_HOLD.blocks.like(f"%{block}%") for block in rules.SILENCING)),
)
_REASON = _NODE.maintenance_reason
# The reason of a maintenance that the service begins is the error. Another one is an operator's.
_OF_OPERATOR = sa.and_(
    _NODE.maintenance,
    _REASON.is_distinct_from(_NODE.last_error),
    _REASON.is_distinct_from(_of_newest_run(_RUN.error["text"].as_string())),
)
_IN_MAINTENANCE = sa.and_(_NODE.maintenance, _NODE.fault.is_(None))


def _silence(*operators: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
    """Return why a node is silenced: NULL if it is not."""
    cases: list[Any] = [(one, rules.MAINTENANCE) for one in (_IN_MAINTENANCE, *operators)]
    return sa.case(*cases, (_HELD, rules.HELD), else_=None)


_FAULTY = sa.and_(_NODE.fault.in_(sorted(states.FAULTS)), sa.not_(nodes.FAILED))
_UNHEALTHY = sa.and_(
    _NODE.health.in_((rules.CRITICAL, rules.WARNING)),
    _NODE.fault.is_(None),
    sa.not_(nodes.FAILED),
    _NODE.id.not_in(_ids("k_late")),
)
_VERIFIED = sa.not_(nodes.UNVERIFIED)


_ALWAYS, _NEVER = sa.true(), sa.false()
# A run of an earlier release has no cause.
_KEY = sa.func.coalesce(_RUN.cause, _RUN.verb + " " + sa.func.coalesce(_RUN.code, ""))
_SHARED = NodeGroup._fields[:5]


def groups(
    conn: Connection, where: JsonView, own: JsonView, late: Collection[int]
) -> list[NodeGroup]:
    """Return the nodes that need a person, or whose health is a warning, by what they share.

    :param where: filters of nodes.
    :param own: the parameters of `paging.own_rows`; empty for a caller who may read all runs.
    :param late: ids of nodes with an overdue step.
    """
    shape, values = nodes.filters(where)
    values |= {**own, "k_late": list(late), "k_most": MOST_FAILED}
    return [NodeGroup(*row) for row in conn.execute(_groups(shape, bool(own)), values)]


@lru_cache(maxsize=_KEPT)
def _groups(shape: paging.Shape, limited: bool) -> sa.Select[Any]:
    readable = _of_newest_run(paging.own_rows(models.runs)) if limited else _ALWAYS
    of_run = _of_newest_run(_KEY), _silence(_OF_OPERATOR)
    retrying = _NODE.wake_at.is_not(None)
    beside = _silence(), _NEVER, _ALWAYS
    of_runs = (
        _part(rules.FAILED, (*of_run, retrying, readable), nodes.FAILED),
        _part(rules.UNVERIFIED, (*of_run, _NEVER, readable), nodes.UNVERIFIED),
    )
    whole = (
        _part(rules.FAULT, (_NODE.fault, *beside), _FAULTY, _VERIFIED),
        _part(rules.HEALTH, (_NODE.health, *beside), _UNHEALTHY, _VERIFIED),
    )
    found = [nodes.LISTING.matching(part, shape) for part in whole]
    for part in of_runs:
        newest = nodes.LISTING.matching(part, shape).order_by(_NODE.provision_updated_at.desc())
        found.append(sa.select(newest.limit(_MOST).subquery()))
    each = sa.union_all(*found).subquery()
    by = [each.c[name] for name in _SHARED]
    at, ident = each.c.at, each.c.id
    return sa.select(
        *(*by, sa.func.count(), sa.func.min(at), sa.func.max(at)),
        *(sa.func.min(ident), sa.func.max(ident)),
    ).group_by(*by)


def _part(
    kind: str, shared: Sequence[sa.ColumnElement[Any]], *where: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    """Return the nodes of one kind.

    :param shared: what, silence, retrying and readable of `NodeGroup`.
    """
    values = zip(_SHARED, (sa.literal(kind), *shared), strict=True)
    labelled = (value.label(name) for name, value in values)
    at = _NODE.provision_updated_at.label("at")
    return sa.select(*labelled, at, _NODE.id).where(*where)


_OF_NODES = (
    *("id", "uuid", "name", "instance_uuid", "provision_state", "provision_updated_at"),
    *("owner", "lessee", "last_error"),
)
_OF_RUN = ("uuid", "node_uuid", "verb", "state", "ended_at", "error")
_DETAILS = (
    sa.select(
        *(_NODE[name] for name in _OF_NODES),
        # Only of nodes whose texts are shown, because it may be encrypted.
        sa.type_coerce(
            sa.case((_NODE.id.in_(_ids("k_first")), _NODE.driver_info)), _NODE.driver_info.type
        ),
        *(_RUN[name] for name in _OF_RUN),
    )
    .select_from(
        models.nodes.outerjoin(
            models.runs,
            _RUN.id
            == sa.select(sa.func.max(_OTHER.id))
            .where(_OTHER.node_uuid == _NODE.uuid)
            .scalar_subquery(),
        )
    )
    .where(_NODE.id.in_(_ids("k_nodes")))
)


@lru_cache(maxsize=_KEPT)
def _details(shape: paging.Shape, limited: bool) -> sa.Select[Any]:
    readable = paging.own_rows(models.runs) if limited else _ALWAYS
    return nodes.LISTING.matching(_DETAILS.add_columns(readable), shape)


def details(
    conn: Connection, found: Sequence[rules.Cause], where: JsonView, own: JsonView
) -> dict[int, Json]:
    """Return columns of the samples of causes, by id, each with ``run``, its newest run or None.

    A node may have changed since it was grouped: one that the caller may not list is left out, one
    whose run the caller may not read has no run and no ``last_error``.

    :param where: filters of nodes.
    :param own: as for `groups`.
    """
    if not found:
        return {}
    shape, values = nodes.filters(where)
    values |= {**own, "k_first": [one.ids[0] for one in found if one.kind in rules.OF_RUNS]}
    values["k_nodes"] = [ident for one in found for ident in one.ids]
    names = (*_OF_NODES, "driver_info")
    about: dict[int, Json] = {}
    for row in conn.execute(_details(shape, bool(own)), values):
        node = dict(zip(names, row, strict=False))
        run = dict(zip(_OF_RUN, row[len(names) : -1], strict=True))
        hidden: Json = {} if row[-1] else {"last_error": None}
        about[row[0]] = {**node, **hidden, "run": run if run["uuid"] and row[-1] else None}
    return about


_LATE = (
    sa.select(
        *(_NODE.id, _RUN.verb, _STEP.interface, _STEP.step, _STEP.started_at),
        _silence().label("silence"),
    )
    .select_from(
        models.nodes.join(models.runs, _RUN.node_uuid == _NODE.uuid).join(
            models.run_steps, _STEP.run_uuid == _RUN.uuid
        )
    )
    .where(
        _RUN.state.in_(_OPEN),
        _STEP.state.in_(_OPEN),
        step_durations.MARKED,
        _NODE.fault.is_(None),
    )
    .order_by(_STEP.started_at)
    .limit(_MOST)
)


def late_steps(conn: Connection, where: JsonView) -> list[LateStep]:
    """Return the steps under way that are marked as overdue, the longest first."""
    shape, values = nodes.filters(where)
    values["k_most"] = MOST_LATE
    return [LateStep(*row) for row in conn.execute(_late(shape), values)]


@lru_cache(maxsize=_KEPT)
def _late(shape: paging.Shape) -> sa.Select[Any]:
    return nodes.LISTING.matching(_LATE, shape)


_COUNTED = {
    rules.UNVERIFIED: sa.select(sa.func.count()).select_from(models.nodes).where(nodes.UNVERIFIED),
    rules.OVERDUE: _LATE.with_only_columns(sa.func.count()).order_by(None).limit(None),
}


def count(conn: Connection, kind: str, where: JsonView) -> int:
    """Return the number of all nodes that are unverified, or overdue."""
    shape, values = nodes.filters(where)
    return int(conn.execute(_count(kind, shape), values).scalar_one())


@lru_cache(maxsize=_KEPT)
def _count(kind: str, shape: paging.Shape) -> sa.Select[Any]:
    return nodes.LISTING.matching(_COUNTED[kind], shape)


def runs(
    conn: Connection, where: JsonView, own: JsonView, since: datetime.datetime
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of runs under way by state, and of failed ones by the hour of their end.

    :param where: filters of nodes; without any, no node is read.
    :param own: as for `groups`, of runs that have failed.
    """
    shape, values = nodes.filters(where) if where else (None, {})
    values |= {**own, "k_since": since, "k_began": since - _LONGEST_RUN}
    found = conn.execute(_runs(shape, bool(own)), values)
    counts = {str(word): int(number) for word, number in found}
    return {state: counts.pop(state, 0) for state in _OPEN}, counts


@lru_cache(maxsize=_KEPT)
def _runs(shape: paging.Shape | None, limited: bool) -> sa.CompoundSelect[Any]:
    # Numbers in the statement, because PostgreSQL takes two parameters for two expressions.
    first, digits = (sa.literal_column(str(number), sa.Integer) for number in (1, _HOUR_DIGITS))
    hour = sa.func.substr(sa.cast(_RUN.ended_at, sa.String(32)), first, digits)
    since, began = (sa.bindparam(name, type_=_RUN.ended_at.type) for name in ("k_since", "k_began"))
    failed = (_RUN.state == "failed", _RUN.started_at >= began, _RUN.ended_at >= since)
    mine = (paging.own_rows(models.runs),) if limited else ()
    joined = models.nodes.join(models.runs, _RUN.node_uuid == _NODE.uuid)
    found = []
    for word, conditions in ((_RUN.state, (_RUN.state.in_(_OPEN),)), (hour, (*failed, *mine))):
        counted = sa.select(word.label("word"), sa.func.count().label("number")).where(*conditions)
        if shape is None:
            statement = counted.select_from(models.runs)
        else:
            statement = nodes.LISTING.matching(counted.select_from(joined), shape)
        found.append(statement.group_by(word))
    return sa.union_all(*found)


def has_group_without(conn: Connection, living: Collection[str]) -> bool:
    """Return whether a node is in another conductor group than those of living conductors.

    The database looks into the gaps between the names, because it would read the whole index else.
    """
    return conn.execute(_outside(tuple(sorted(set(living))))).first() is not None


@lru_cache(maxsize=_KEPT)
def _outside(known: tuple[str, ...]) -> sa.Select[Any]:
    group = _NODE.conductor_group
    between = [sa.and_(group > low, group < high) for low, high in itertools.pairwise(known)]
    wanted = sa.or_(group < known[0], *between, group > known[-1]) if known else sa.true()
    return sa.select(_NODE.id).where(wanted).limit(1)
