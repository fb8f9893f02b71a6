"""Queries on batches and their nodes.

Every change of a node names the state that it changes, so that two conductors which act for the
same node at once write one of the two results.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batch_sweeps, limits, paging
from ironic_lite.db.tables import models
from ironic_lite.domain.batches import (
    LONGEST_PAUSE,
    MOST_OPEN,
    MOST_OPEN_OF_PROJECT,
    MOST_OPEN_OF_PROJECTS,
    UNDER_WAY,
    NodeState,
)

_BATCH, _MEMBER = models.batches.c, models.batch_nodes.c
_NODE, _RUN, _EVENT = models.nodes.c, models.runs.c, models.events.c
COLUMNS: tuple[str, ...] = models.columns(models.batches)
NODE_COLUMNS = batch_sweeps.NODE_COLUMNS
_ROWS = 500
"""Rows of one INSERT; all are of one transaction."""
_PAGE = 200
"""Pending nodes of one SELECT: a claim takes a few of them, and looks at those of its peers."""

_OF_BATCH = _MEMBER.batch_uuid == sa.bindparam("k_batch")
_OF_NODE = sa.and_(_OF_BATCH, _MEMBER.node_uuid == sa.bindparam("k_node"))
_STATE = sa.select(_BATCH.state).where(_BATCH.uuid == sa.bindparam("k_batch"))
_COUNT_OPEN = (
    sa.select(sa.func.count()).select_from(models.batches).where(_BATCH.ended_at.is_(None))
)
_COUNTS_OF = (
    sa.select(_MEMBER.batch_uuid, _MEMBER.wave, _MEMBER.state, sa.func.count())
    .where(_MEMBER.batch_uuid.in_(sa.bindparam("k_batches", expanding=True)))
    .group_by(_MEMBER.batch_uuid, _MEMBER.wave, _MEMBER.state)
)
_COUNTS = (
    sa.select(_MEMBER.wave, _MEMBER.state, sa.func.count())
    .where(_OF_BATCH)
    .group_by(_MEMBER.wave, _MEMBER.state)
)
_UPDATE = models.batches.update().where(_BATCH.uuid == sa.bindparam("k_batch"))
_UPDATE_NODE = models.batch_nodes.update().where(
    _OF_NODE, _MEMBER.state.in_(sa.bindparam("k_states", expanding=True))
)
_UPDATE_OWN = _UPDATE_NODE.where(_MEMBER.host == sa.bindparam("k_host"))
_PLACE = sa.tuple_(_NODE.conductor_group, _NODE.driver)
_NOT_BEFORE = _MEMBER.not_before.type
_PENDING = (
    batch_sweeps.MEMBERS.where(
        _OF_BATCH,
        _MEMBER.state == NodeState.PENDING.value,
        _MEMBER.wave == sa.bindparam("k_wave", type_=sa.Integer),
        sa.or_(
            sa.and_(
                _MEMBER.not_before.is_(None),
                _MEMBER.place > sa.bindparam("k_passed", type_=sa.Integer),
            ),
            _MEMBER.not_before <= sa.bindparam("k_now", type_=_NOT_BEFORE),
            _MEMBER.not_before > sa.bindparam("k_latest", type_=_NOT_BEFORE),
        ),
        _MEMBER.place > sa.bindparam("k_after", type_=sa.Integer),
    )
    .order_by(_MEMBER.place)
    .limit(sa.bindparam("k_limit", type_=sa.Integer))
)
_OWN_PENDING = _PENDING.where(_PLACE.in_(sa.bindparam("k_own", expanding=True)))
_BY_STATE = (
    sa.select(_BATCH.uuid, _BATCH.state, _MEMBER.state, sa.func.count())
    .select_from(models.batch_nodes.join(models.batches, _BATCH.uuid == _MEMBER.batch_uuid))
    .where(_BATCH.ended_at.is_(None))
    .group_by(_BATCH.uuid, _BATCH.state, _MEMBER.state)
)
_OLD = (
    sa.select(_BATCH.uuid)
    .where(_BATCH.ended_at < sa.bindparam("k_before", type_=_BATCH.ended_at.type))
    .order_by(_BATCH.ended_at)
    .limit(1)
)
_SHOWN = (
    *("batch_uuid", "wave", "state", "run_uuid", "tries", "error"),
    *("batch_name", "batch_state", "paused_by", "project"),
)
_LATEST_OF_NODE = (
    sa.select(
        *(_MEMBER[name] for name in _SHOWN[:6]),
        *(_BATCH.name, _BATCH.state, _BATCH.paused_by, _BATCH.project),
    )
    .select_from(models.batch_nodes.join(models.batches, _BATCH.uuid == _MEMBER.batch_uuid))
    .where(_MEMBER.node_uuid == sa.bindparam("k_node"))
    .order_by(_MEMBER.id.desc())
    .limit(1)
)

_PAUSES = (
    sa.select(_EVENT.node_uuid, _EVENT.kind, _EVENT.at)
    .where(
        _EVENT.node_uuid.in_(sa.bindparam("k_batches", expanding=True)),
        _EVENT.kind.in_(("batch_paused", "batch_resumed")),
    )
    .order_by(_EVENT.id)
)

LISTING = paging.Listing(
    models.batches, {"open": paging.Switch(_BATCH.ended_at.is_(None), _BATCH.ended_at.is_not(None))}
)
NODES = paging.Listing(models.batch_nodes, marker="node_uuid")
RUNS_OF_BATCH = _RUN.uuid.in_(
    sa.select(_MEMBER.run_uuid).where(_MEMBER.batch_uuid == sa.bindparam("batch", type_=sa.String))
)
"""The condition that a row of ``runs`` belongs to a batch."""


# -- whole batches ---------------------------------------------------------------------------


def add(conn: Connection, batch: RowView, members: Sequence[RowView]) -> None:
    """Add a batch with all its nodes.

    :raises errors.TooManyBatches: too many are open, in all or of its project.
    :raises errors.Conflict: a node has not ended in another batch.
    """
    limits.lock(conn, "batches")
    _refuse_too_many(conn, batch["project"])
    conn.execute(models.batches.insert().inline(), dict(batch))
    try:
        for first in range(0, len(members), _ROWS):
            rows = [dict(row) for row in members[first : first + _ROWS]]
            conn.execute(models.batch_nodes.insert().inline(), rows)
    except sa.exc.IntegrityError as why:
        text = "One of the nodes is in an open batch, which has begun meanwhile; repeat the request"
        raise errors.Conflict(f"{text} to see which.") from why


def _refuse_too_many(conn: Connection, project: str | None) -> None:
    """Refuse one more batch; projects leave places to callers of the whole system, None."""
    limits_of_all: list[tuple[sa.ColumnElement[bool], int, str]] = [(sa.true(), MOST_OPEN, "")]
    limits_of_projects = [
        (_BATCH.project == project, MOST_OPEN_OF_PROJECT, f" of project {project}"),
        (_BATCH.project.is_not(None), MOST_OPEN_OF_PROJECTS, " of all projects"),
    ]
    for condition, most, whose in limits_of_all + (limits_of_projects if project else []):
        if conn.execute(_COUNT_OPEN.where(condition)).scalar_one() >= most:
            raise errors.TooManyBatches(limit=most, whose=whose)


def count_open(conn: Connection) -> int:
    """Return the number of batches that have not ended."""
    return int(conn.execute(_COUNT_OPEN).scalar_one())


@cache
def _one(columns: tuple[str, ...], hold: bool) -> sa.Select[Any]:
    found = sa.select(*(_BATCH[name] for name in columns))
    found = found.where(_BATCH.uuid == sa.bindparam("k_batch"))
    return found.with_for_update() if hold else found


def get(
    conn: Connection, uuid: str, columns: tuple[str, ...] = COLUMNS, *, hold: bool = False
) -> Row:
    """Return a batch.

    :param columns: the request may be large, and is encrypted.
    :param hold: prevent other changes until this transaction ends.
    :raises errors.NotFound:
    """
    found = conn.execute(_one(columns, hold), {"k_batch": uuid}).first()
    if found is None:
        raise errors.NotFound(what="Batch", ident=uuid)
    return dict(zip(columns, found, strict=True))


def state_of(conn: Connection, uuid: str) -> str:
    """Return the state of a batch.

    :raises errors.NotFound:
    """
    found: str | None = conn.execute(_STATE, {"k_batch": uuid}).scalar()
    if found is None:
        raise errors.NotFound(what="Batch", ident=uuid)
    return found


def counts(conn: Connection, uuid: str) -> dict[tuple[int, str], int]:
    """Return the number of a batch's nodes by wave and state."""
    found = conn.execute(_COUNTS, {"k_batch": uuid})
    return {(int(wave), str(state)): int(number) for wave, state, number in found}


def counts_of(conn: Connection, uuids: Sequence[str]) -> dict[str, dict[tuple[int, str], int]]:
    """Return the counts of several batches by one statement."""
    found: dict[str, dict[tuple[int, str], int]] = {}
    rows = conn.execute(_COUNTS_OF, {"k_batches": list(uuids)}) if uuids else ()
    for uuid, wave, state, number in rows:
        found.setdefault(str(uuid), {})[int(wave), str(state)] = int(number)
    return found


def paused_times(conn: Connection, uuids: Sequence[str]) -> dict[str, datetime.timedelta]:
    """Return how long batches were paused, by the events of their pauses that have ended.

    One statement; none without ``uuids``.
    """
    begun: dict[str, datetime.datetime] = {}
    found: dict[str, datetime.timedelta] = {}
    for uuid, kind, at in conn.execute(_PAUSES, {"k_batches": list(uuids)}) if uuids else ():
        if kind == "batch_paused":
            begun.setdefault(uuid, at)
        elif uuid in begun:  # the clocks of two machines may differ
            length = max(at - begun.pop(uuid), datetime.timedelta())
            found[uuid] = found.get(uuid, datetime.timedelta()) + length
    return found


def update(conn: Connection, uuid: str, values: RowView) -> None:
    """Change columns of a batch."""
    conn.execute(_UPDATE.values(dict(values)), {"k_batch": uuid})


def delete(conn: Connection, uuid: str) -> None:
    """Remove a batch; its nodes' rows go with it."""
    conn.execute(models.batches.delete().where(_BATCH.uuid == uuid))


def remove_old(conn: Connection, before: datetime.datetime) -> bool:
    """Remove the batch that ended first; return False if all ended after a time or are open."""
    uuid = conn.execute(_OLD, {"k_before": before}).scalar()
    if uuid is not None:
        delete(conn, uuid)
    return uuid is not None


def by_state(conn: Connection) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of open batches, and of nodes in them, by state."""
    whole: dict[str, str] = {}
    members: dict[str, int] = {}
    for uuid, state, result, number in conn.execute(_BY_STATE):
        whole[str(uuid)] = str(state)
        members[str(result)] = members.get(str(result), 0) + int(number)
    return dict(Counter(whole.values())), members


# -- their nodes -----------------------------------------------------------------------------


def pending(
    conn: Connection,
    uuid: str,
    wave: int,
    now: datetime.datetime,
    *,
    own: Collection[tuple[str, str]] | None = None,
    passed: int = -1,
    page: int = _PAGE,
) -> Iterator[Row]:
    """Yield the nodes of a wave that may start now, in their order.

    Rows are those of `batch_sweeps.member`. A caller that stops early leaves the rest unread. A
    node whose next try is further away than the longest pause was postponed by a wrong clock, so
    it may start now.

    :param own: only nodes with one of these conductor groups and drivers; None: all, also nodes
        that were removed.
    :param passed: leave out nodes up to this place, except those that have been postponed.
    :param page: rows of one statement.
    """
    latest = now + datetime.timedelta(seconds=LONGEST_PAUSE)
    values: Json = {"k_batch": uuid, "k_wave": wave, "k_now": now, "k_latest": latest}
    values |= {"k_passed": passed, "k_after": -1, "k_limit": page}
    statement = _PENDING
    if own is not None:
        statement, values = _OWN_PENDING, {**values, "k_own": sorted(own)}
    while True:
        found = [batch_sweeps.member(row) for row in conn.execute(statement, values)]
        yield from found
        if len(found) < page:
            return
        values["k_after"] = found[-1]["place"]


def change_node(
    conn: Connection,
    batch: str,
    node: str,
    values: RowView,
    *,
    states: Sequence[NodeState],
    host: str | None = None,
) -> bool:
    """Change a node that is in one of ``states``; return False if it no longer is.

    :param host: only if this conductor has claimed the node.
    """
    given: Json = {"k_batch": batch, "k_node": node, "k_states": list(states)}
    statement = _UPDATE_NODE
    if host is not None:
        statement, given = _UPDATE_OWN, {**given, "k_host": host}
    return bool(conn.execute(statement.values(dict(values)), given).rowcount)


def end_node(
    conn: Connection,
    batch: str,
    node: str,
    state: str,
    *,
    at: datetime.datetime,
    error: RowView | None = None,
    states: Sequence[NodeState] = UNDER_WAY,
    host: str | None = None,
    run: str | None = None,
) -> bool:
    """Write the result of a node; return False if it has one."""
    values: Json = {"state": str(state), "open_uuid": None, "ended_at": at, "error": error}
    if run is not None:
        values["run_uuid"] = run
    return change_node(conn, batch, node, values, states=states, host=host)


def skip_pending(
    conn: Connection,
    uuid: str,
    at: datetime.datetime,
    error: RowView,
    *,
    nodes: Sequence[str] | None = None,
) -> None:
    """Skip nodes that have not started.

    :param nodes: some hundred of them; None skips all.
    """
    of_these = sa.true() if nodes is None else _MEMBER.node_uuid.in_(list(nodes))
    conn.execute(
        models.batch_nodes.update()
        .where(_OF_BATCH, _MEMBER.state == NodeState.PENDING.value, of_these)
        .values(state=NodeState.SKIPPED.value, open_uuid=None, ended_at=at, error=dict(error)),
        {"k_batch": uuid},
    )


def nodes_with(conn: Connection, uuid: str, state: str) -> list[str]:
    """Return the UUIDs of a batch's nodes in a state, in their order."""
    statement = (
        sa.select(_MEMBER.node_uuid)
        .where(_MEMBER.batch_uuid == uuid, _MEMBER.state == state)
        .order_by(_MEMBER.place)
    )
    return [str(found) for found in conn.execute(statement).scalars()]


def latest_of(conn: Connection, node: str) -> Row | None:
    """Return what an explanation shows of the newest batch with a node, None without one."""
    found = conn.execute(_LATEST_OF_NODE, {"k_node": node}).first()
    return dict(zip(_SHOWN, found, strict=True)) if found is not None else None
