"""Queries on batches and their nodes.

Every change of a node names the state that it changes, so that two conductors which act for the
same node at once write one of the two results.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import limits, paging, runs
from ironic_lite.db.tables import models
from ironic_lite.domain import retries
from ironic_lite.features.batches.rules import (
    LONGEST_PAUSE,
    MOST_OPEN,
    MOST_OPEN_OF_PROJECT,
    MOST_OPEN_OF_PROJECTS,
    NO_TIME,
    UNDER_WAY,
    Counts,
    NodeState,
    document,
    has_pace,
    rights_lost,
)
from ironic_lite.records import Run, RunStep

# Looks of a conductor at open batches: each is one statement for all of them.

OPEN_COLUMNS = (
    *("uuid", "name", "state", "wave", "options", "max_failures", "forgiven", "abort_runs"),
    *("updated_at", "ended_at", "project"),
)
"""The columns of a batch that decide its next state; the request may be large, and is secret."""
_BATCH = models.batches.c
_MEMBER = models.batch_nodes.c
_NODE = models.nodes.c
_RUN = models.runs.c
_EVENT = models.events.c
NODE_COLUMNS: tuple[str, ...] = models.columns(models.batch_nodes)
_MACHINE = ("driver", "conductor_group", "provision_state", "target_power_state", "reservation")
_JOINED = models.batch_nodes.outerjoin(models.nodes, _NODE.uuid == _MEMBER.node_uuid)
MEMBERS = sa.select(
    models.batch_nodes, *(_NODE[name] for name in _MACHINE), _NODE.uuid.label("present")
).select_from(_JOINED)
"""Nodes of batches, for `member_row`."""
_IN_BATCHES = _MEMBER.batch_uuid.in_(sa.bindparam("k_batches", expanding=True))
_RUNNING = _MEMBER.state == NodeState.RUNNING.value
_SWEEP_LIMIT = sa.bindparam("k_limit", type_=sa.Integer)
_OF_LIVING: sa.BindParameter[Any] = sa.bindparam("k_hosts", expanding=True)
_OF_RUN = ("batch_uuid", "node_uuid", "run_uuid", "state", "error", "ended_at")

_OPEN_BATCHES = (
    sa.select(*(_BATCH[name] for name in OPEN_COLUMNS))
    .where(_BATCH.ended_at.is_(None))
    .order_by(_BATCH.id)
)
_ENDED_RUNS = (
    sa.select(
        *(_MEMBER.batch_uuid, _MEMBER.node_uuid, _MEMBER.run_uuid),
        *(_RUN.state, _RUN.error, _RUN.ended_at),
    )
    .select_from(models.batch_nodes.outerjoin(models.runs, _RUN.uuid == _MEMBER.run_uuid))
    .where(
        _IN_BATCHES,
        _RUNNING,
        _MEMBER.run_uuid.is_not(None),
        sa.or_(_RUN.uuid.is_(None), _RUN.state.in_(("done", "failed", "aborted"))),
    )
    .order_by(_MEMBER.id)
    .limit(_SWEEP_LIMIT)
)
_ENDED_POWER = (
    MEMBERS.where(
        _IN_BATCHES,
        _RUNNING,
        _MEMBER.run_uuid.is_(None),
        sa.or_(
            _NODE.uuid.is_(None),
            _NODE.target_power_state.is_(None),
            _NODE.reservation.is_(None),
            _NODE.reservation.not_in(_OF_LIVING),
        ),
    )
    .order_by(_MEMBER.id)
    .limit(_SWEEP_LIMIT)
)
_POWER_ENDS = (
    sa.select(_EVENT.node_uuid, _EVENT.request_id, _EVENT.event, _EVENT.at, _EVENT.data)
    .where(
        _EVENT.node_uuid.in_(sa.bindparam("k_nodes", expanding=True)),
        _EVENT.request_id.in_(sa.bindparam("k_requests", expanding=True)),
        _EVENT.kind.in_(("power", "management")),
        _EVENT.event.in_(("end", "fail")),
    )
    .order_by(_EVENT.id)
)
_LEFT = (
    MEMBERS.where(
        _IN_BATCHES,
        _MEMBER.state == NodeState.STARTING.value,
    )
    .order_by(_MEMBER.id)
    .limit(_SWEEP_LIMIT)
)
_STANDS = (
    *("driver", "conductor_group", "provision_state", "run_stop", "generation"),
    "automated_clean",
)
_UNDER_WAY = (
    sa.select(
        *(_MEMBER.batch_uuid, _MEMBER.node_uuid, _MEMBER.run_uuid),
        *(_MEMBER.owner, _MEMBER.lessee),
        *(_NODE[name] for name in _STANDS),
    )
    .select_from(models.batch_nodes.join(models.nodes, _NODE.uuid == _MEMBER.node_uuid))
    .where(
        _IN_BATCHES,
        _RUNNING,
        _NODE.run_uuid == _MEMBER.run_uuid,
        _MEMBER.keeps_run.is_not(sa.true()),
    )
)


def open_batches(conn: Connection) -> list[Row]:
    """Return the columns `OPEN_COLUMNS` of the batches that have not ended, the oldest first."""
    return [dict(zip(OPEN_COLUMNS, found, strict=True)) for found in conn.execute(_OPEN_BATCHES)]


def ended_runs(conn: Connection, uuids: Sequence[str], *, limit: int) -> list[Row]:
    """Return running nodes whose run has ended or was removed.

    Keys: batch_uuid, node_uuid, run_uuid, state, error, ended_at. State is None for a removed run.
    """
    found = conn.execute(_ENDED_RUNS, {"k_batches": list(uuids), "k_limit": limit})
    return [dict(zip(_OF_RUN, row, strict=True)) for row in found]


def ended_power(
    conn: Connection, uuids: Sequence[str], hosts: Sequence[str], *, limit: int
) -> list[Row]:
    """Return running nodes without a run whose power change is not under way, as `member_row`.

    Their node was removed, has no target power state, or no living conductor holds its lock.

    :param hosts: the living conductors.
    """
    values = {"k_batches": list(uuids), "k_hosts": list(hosts), "k_limit": limit}
    return [member_row(row) for row in conn.execute(_ENDED_POWER, values)]


def power_ends(conn: Connection, members: Sequence[RowView]) -> dict[tuple[str, str], Row]:
    """Return the events that end power changes, by node and request.

    No statement without ``members``.
    """
    if not members:
        return {}
    values = {
        "k_nodes": [one["node_uuid"] for one in members],
        "k_requests": [one["request_id"] for one in members],
    }
    return {
        (node, request): {"event": event, "at": at, "data": data}
        for node, request, event, at, data in conn.execute(_POWER_ENDS, values)
    }


def left_claims(conn: Connection, uuids: Sequence[str], *, limit: int) -> list[Row]:
    """Return nodes that are claimed and not started, as `member_row`."""
    values = {"k_batches": list(uuids), "k_limit": limit}
    return [member_row(row) for row in conn.execute(_LEFT, values)]


def abortable_runs(conn: Connection, uuids: Sequence[str]) -> list[Row]:
    """Return the nodes whose run in these batches is under way and may be aborted.

    Keys: batch_uuid, node_uuid, run_uuid, owner and lessee at the abort, driver, conductor_group,
    provision_state, run_stop, generation, automated_clean.
    """
    names = (*_OF_RUN[:3], "owner", "lessee", *_STANDS)
    found = conn.execute(_UNDER_WAY, {"k_batches": list(uuids)}) if uuids else ()
    return [dict(zip(names, row, strict=True)) for row in found]


def member_row(row: sa.Row[Any]) -> Row:
    """Return a row of `MEMBERS`.

    It has the columns of ``batch_nodes``, and of the node ``driver``, ``conductor_group``,
    ``provision_state``, ``target_power_state``, ``reservation``, and ``present``, which is None for
    a removed node.
    """
    return dict(zip((*NODE_COLUMNS, *_MACHINE, "present"), row, strict=True))


COLUMNS: tuple[str, ...] = models.columns(models.batches)
_ROWS = 500
"""Rows of one INSERT; all are of one transaction."""

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
_CLAIMED = (
    sa.select(_MEMBER.batch_uuid)
    .where(
        _MEMBER.open_uuid == sa.bindparam("k_node"),
        _MEMBER.request_id == sa.bindparam("k_request"),
        _MEMBER.state == NodeState.STARTING.value,
    )
    .with_for_update()
)
_NOT_BEFORE = _MEMBER.not_before.type
_PENDING = (
    MEMBERS.where(
        _OF_BATCH,
        _MEMBER.state == NodeState.PENDING.value,
        _MEMBER.wave == sa.bindparam("k_wave", type_=sa.Integer),
        sa.or_(
            _MEMBER.not_before.is_(None),
            _MEMBER.not_before <= sa.bindparam("k_now", type_=_NOT_BEFORE),
            _MEMBER.not_before > sa.bindparam("k_latest", type_=_NOT_BEFORE),
        ),
    )
    .order_by(_MEMBER.place)
    .limit(_SWEEP_LIMIT)
)
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
_OF_THE_RUN = (
    sa.select(_BATCH.uuid, _BATCH.project)
    .select_from(models.batch_nodes.join(models.batches, _BATCH.uuid == _MEMBER.batch_uuid))
    .where(_MEMBER.run_uuid == sa.bindparam("k_run"))
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


# -- whole batches ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A request for a batch that has passed all checks of the API.

    :ivar request: with the steps of a runbook beside its name.
    :ivar options: waves, concurrency, on_failures, between_waves, and for the conductors
        ``runbook``: uuid, owner and public of the runbook that the caller may use, or None.
    :ivar nodes: the chosen nodes in their order, with uuid, name and provision_state, and for a
        retry ``retry_of``, the run that it continues.
    :ivar left_out: uuid, name, code and text of chosen nodes that cannot get the request; None if
        none may be left out.
    """

    name: str | None
    request: Json
    options: Json
    max_failures: int
    nodes: list[Json]
    left_out: list[Json] | None = None

    def members(self, batch: str) -> Iterator[Json]:
        """Yield the rows of the nodes."""
        place = 0
        for wave, size in enumerate(self.options["waves"]):
            for node in self.nodes[place : place + size]:
                yield {
                    **dict.fromkeys(NODE_COLUMNS[1:]),
                    "batch_uuid": batch,
                    "place": place,
                    "node_uuid": node["uuid"],
                    "open_uuid": node["uuid"],
                    "name": node["name"],
                    "wave": wave,
                    "state": NodeState.PENDING.value,
                    "was": node["provision_state"],
                    "retry_of": node.get("retry_of"),
                    "tries": 0,
                    "owner": node["owner"],
                    "lessee": node["lessee"],
                }
                place += 1


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
def _one(columns: tuple[str, ...], lock_row: bool) -> sa.Select[Any]:
    found = sa.select(*(_BATCH[name] for name in columns))
    found = found.where(_BATCH.uuid == sa.bindparam("k_batch"))
    return found.with_for_update() if lock_row else found


def get(
    conn: Connection, uuid: str, columns: tuple[str, ...] = COLUMNS, *, lock_row: bool = False
) -> Row:
    """Return a batch.

    :param columns: the request may be large, and is encrypted.
    :param lock_row: prevent other changes until this transaction ends.
    :raises errors.NotFound:
    """
    found = conn.execute(_one(columns, lock_row), {"k_batch": uuid}).first()
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


def page(conn: Connection, **page: Any) -> list[Json]:
    """Return the documents of a page of batches; parameters as `paging.Listing.page`."""
    found = LISTING.page(conn, **page)
    known = counts_of(conn, [row["uuid"] for row in found])
    return documents(conn, [(row, known.get(row["uuid"], {})) for row in found])


def documents(conn: Connection, found: Sequence[tuple[Json, Counts]]) -> list[Json]:
    """Return the documents of batches; one statement if the end of one can be estimated."""
    estimated = [row["uuid"] for row, counts in found if has_pace(row, counts)]
    paused = paused_times(conn, estimated)
    return [document(row, counts, paused.get(row["uuid"], NO_TIME)) for row, counts in found]


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
    conn: Connection, uuid: str, wave: int, now: datetime.datetime, *, limit: int
) -> list[Row]:
    """Return the first nodes of a wave that may start now, as `member_row`, in their order.

    A node whose next try is further away than the longest pause was postponed by a wrong clock, so
    it may start now.
    """
    latest = now + datetime.timedelta(seconds=LONGEST_PAUSE)
    values: Json = {"k_batch": uuid, "k_wave": wave, "k_now": now, "k_latest": latest}
    return [member_row(row) for row in conn.execute(_PENDING, {**values, "k_limit": limit})]


def change_node(
    conn: Connection,
    batch: str,
    node: str,
    values: RowView,
    *,
    states: Sequence[NodeState],
) -> bool:
    """Change a node that is in one of ``states``; return False if it no longer is."""
    given: Json = {"k_batch": batch, "k_node": node, "k_states": list(states)}
    return bool(conn.execute(_UPDATE_NODE.values(dict(values)), given).rowcount)


def lock_claim(conn: Connection, node: str, request_id: str) -> str | None:
    """Lock the row of a claimed node; return its batch, None if that waits for no such request."""
    batch: str | None = conn.execute(_CLAIMED, {"k_node": node, "k_request": request_id}).scalar()
    return batch


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


def of_run(conn: Connection, run: str) -> tuple[str, str | None] | None:
    """Return UUID and project of the batch in which a run was begun, None without one."""
    found = conn.execute(_OF_THE_RUN, {"k_run": run}).first()
    return (found.uuid, found.project) if found is not None else None


# Owners and lessees of nodes in batches, for which the rights of a caller were checked.

_NODES_AT_ONCE = 500
"""Nodes of one statement."""
_TAKES = _MEMBER.open_uuid.in_(sa.bindparam("k_nodes", expanding=True))
_CHANGED_HANDS = sa.and_(
    _MEMBER.state == NodeState.PENDING.value,
    sa.or_(
        _MEMBER.owner.is_distinct_from(_NODE.owner), _MEMBER.lessee.is_distinct_from(_NODE.lessee)
    ),
)
_LEAVING = (
    sa.select(
        *(_MEMBER.batch_uuid, _MEMBER.node_uuid),
        *(_MEMBER.owner, _MEMBER.lessee, _NODE.owner, _NODE.lessee),
    )
    .select_from(models.batch_nodes.join(models.nodes, _NODE.uuid == _MEMBER.node_uuid))
    .where(_TAKES, _CHANGED_HANDS)
)
_TAKEN = (
    sa.select(_MEMBER.node_uuid, _MEMBER.name, _MEMBER.batch_uuid, _BATCH.name, _BATCH.project)
    .select_from(
        models.batch_nodes.join(models.batches, _BATCH.uuid == _MEMBER.batch_uuid).outerjoin(
            models.nodes, _NODE.uuid == _MEMBER.node_uuid
        )
    )
    .where(_TAKES, sa.not_(_CHANGED_HANDS))
    .order_by(_MEMBER.place)
)


class Taken(NamedTuple):
    """A node that has not ended in another batch, and that batch."""

    node: str
    name: str | None
    batch: str
    title: str | None
    project: str | None

    def where(self, shown: Callable[[str | None], bool]) -> str:
        """Return the name of the batch, if the caller may see the batches of its project."""
        known = f"{self.batch} ({self.title})" if self.title else self.batch
        return f"the open batch {known}" if shown(self.project) else OTHERS


OTHERS = "an open batch of another project"
_MOST_NAMED = 20


def taken(conn: Connection, nodes: Sequence[str]) -> list[Taken]:
    """Return those of the nodes that have not ended in another batch, by one statement for many.

    A node that has changed hands before its start there is free: see `take_out`.
    """
    return [
        Taken(*row)
        for first in range(0, len(nodes), _NODES_AT_ONCE)
        for row in conn.execute(_TAKEN, {"k_nodes": list(nodes[first : first + _NODES_AT_ONCE])})
    ]


def refusal(found: Sequence[Taken], shown: Callable[[str | None], bool]) -> errors.Conflict:
    """Return the error that names some of these nodes, and the batches that the caller may see."""
    first = found[0]
    place = first.where(shown)
    batch = {} if place == OTHERS else {"batch": first.batch}
    if len(found) == 1:
        end = "wait for its end there" if place == OTHERS else "wait for its end there, or abort it"
        return errors.Conflict(
            node=first.name or first.node, **batch, reason=f"it is in {place}; {end}"
        )
    by_place: dict[str, list[str]] = {}
    for one in found[:_MOST_NAMED]:
        by_place.setdefault(one.where(shown), []).append(one.name or one.node)
    listed = "; ".join(f"in {where}: {', '.join(names)}" for where, names in by_place.items())
    if len(found) > _MOST_NAMED:
        listed += f"; and {len(found) - _MOST_NAMED} more"
    return errors.Conflict(
        f"{len(found)} nodes are in open batches; wait for their end there, abort these batches, "
        f"or leave the nodes out. They are {listed}.",
        node=first.name or first.node,
        **batch,
    )


def refuse_taken(
    conn: Connection, nodes: Sequence[str], shown: Callable[[str | None], bool] = lambda _: True
) -> None:
    """Refuse nodes that have not ended in another batch.

    :param shown: whether the caller may see a batch of this project.
    :raises errors.Conflict: naming up to 20 of them, and their batches if the caller may see these.
    """
    found = taken(conn, nodes)
    if found:
        raise refusal(found, shown)


def take_out(conn: Connection, nodes: Sequence[str], at: datetime.datetime) -> None:
    """Skip nodes that wait in an open batch and have changed hands since it was made.

    The new owner may then put them into a batch, and none of their former users acts on them.
    """
    for first in range(0, len(nodes), _NODES_AT_ONCE):
        found = conn.execute(
            _LEAVING, {"k_nodes": list(nodes[first : first + _NODES_AT_ONCE])}
        ).all()
        for batch, node, owner, lessee, new_owner, new_lessee in found:
            error = rights_lost(retries.change_of_hands((owner, lessee), (new_owner, new_lessee)))
            skip_pending(conn, batch, at, error, nodes=[node])


def with_owners(conn: Connection, uuid: str, states: Sequence[NodeState]) -> list[Row]:
    """Return the nodes of a batch in these states with the owners that they have now.

    Keys: uuid, owner, lessee. Removed nodes are left out.
    """
    statement = (
        sa.select(_NODE.uuid, _NODE.owner, _NODE.lessee)
        .select_from(models.batch_nodes.join(models.nodes, _NODE.uuid == _MEMBER.node_uuid))
        .where(_MEMBER.batch_uuid == uuid, _MEMBER.state.in_([str(state) for state in states]))
        .order_by(_MEMBER.place)
    )
    return [dict(row) for row in conn.execute(statement).mappings()]


def mark_aborts(conn: Connection, uuid: str, kept: Sequence[str]) -> None:
    """Record the owners of nodes whose runs are to be aborted.

    :param kept: nodes whose runs go on, because the caller may not abort them.
    """
    values = {
        name: sa.select(_NODE[name]).where(_NODE.uuid == _MEMBER.node_uuid).scalar_subquery()
        for name in ("owner", "lessee")
    }
    of_batch = (_MEMBER.batch_uuid == uuid, _MEMBER.state.in_([str(one) for one in UNDER_WAY]))
    conn.execute(models.batch_nodes.update().where(*of_batch).values(values))
    for node in kept:
        change_node(conn, uuid, node, {"keeps_run": True}, states=UNDER_WAY)


def refuse_starting(conn: Connection, uuid: str, lost: Sequence[str]) -> None:
    """Refuse a resume while nodes are starting that the caller has no right to.

    Their requests would go on under the name of this caller. Conductors soon record whether they
    have begun.
    """
    starting = set(nodes_with(conn, uuid, NodeState.STARTING))
    for node in lost:
        if node in starting:
            raise errors.Conflict(
                f"Batch {uuid} cannot be resumed while its node {node} is starting, because the "
                "caller may not send its request to this node. Try again in a minute.",
                batch=uuid,
                node=node,
            )


# The newest runs of nodes, for retries.

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
    .where(models.run_steps.c.run_uuid.in_(sa.bindparam("k_runs", expanding=True)))
    .order_by(models.run_steps.c.id)
)


def newest_of(conn: Connection, node_uuids: Sequence[str]) -> dict[str, Run]:
    """Return the newest run of each node that has one, by a few columns."""
    found = conn.execute(_NEWEST_OF, {"k_nodes": list(node_uuids)})
    rows = [dict(zip(_OF_NEWEST, row, strict=True)) for row in found]
    return {str(row["node_uuid"]): cast(Run, row) for row in rows}


def steps_of(conn: Connection, run_uuids: Sequence[str]) -> dict[str, list[RunStep]]:
    """Return the steps of several runs, by run, in the order they were planned."""
    found: dict[str, list[RunStep]] = {}
    for row in conn.execute(_STEPS_OF, {"k_runs": list(run_uuids)}):
        step = cast(RunStep, dict(zip(runs.STEP_COLUMNS, row, strict=True)))
        found.setdefault(step["run_uuid"], []).append(step)
    return found
