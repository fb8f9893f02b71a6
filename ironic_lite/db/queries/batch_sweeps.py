"""Queries with which a conductor looks at open batches: each is one statement for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models
from ironic_lite.domain.batches import NodeState

OPEN = (
    *("uuid", "name", "state", "wave", "options", "max_failures", "forgiven", "abort_runs"),
    *("updated_at", "ended_at", "project"),
)
"""The columns of a batch that decide its next state; the request may be large, and is secret."""
_BATCH, _MEMBER = models.batches.c, models.batch_nodes.c
_NODE, _RUN, _EVENT = models.nodes.c, models.runs.c, models.events.c
NODE_COLUMNS: tuple[str, ...] = models.columns(models.batch_nodes)
_MACHINE = ("driver", "conductor_group", "provision_state", "target_power_state", "reservation")
_JOINED = models.batch_nodes.outerjoin(models.nodes, _NODE.uuid == _MEMBER.node_uuid)
MEMBERS = sa.select(
    models.batch_nodes, *(_NODE[name] for name in _MACHINE), _NODE.uuid.label("present")
).select_from(_JOINED)
"""Nodes of batches, for `member`."""
_IN_BATCHES = _MEMBER.batch_uuid.in_(sa.bindparam("k_batches", expanding=True))
_RUNNING = _MEMBER.state == NodeState.RUNNING.value
_LIMIT = sa.bindparam("k_limit", type_=sa.Integer)
_OF_LIVING: sa.BindParameter[Any] = sa.bindparam("k_hosts", expanding=True)
_OF_RUN = ("batch_uuid", "node_uuid", "run_uuid", "state", "error", "ended_at")
_OWNED = ("driver", "conductor_group", "present")

_OPEN = (
    sa.select(*(_BATCH[name] for name in OPEN)).where(_BATCH.ended_at.is_(None)).order_by(_BATCH.id)
)
_ENDED_RUNS = (
    sa.select(
        *(_MEMBER.batch_uuid, _MEMBER.node_uuid, _MEMBER.run_uuid),
        *(_RUN.state, _RUN.error, _RUN.ended_at),
        *(_NODE.driver, _NODE.conductor_group, _NODE.uuid),
    )
    .select_from(_JOINED.outerjoin(models.runs, _RUN.uuid == _MEMBER.run_uuid))
    .where(
        _IN_BATCHES,
        _RUNNING,
        _MEMBER.run_uuid.is_not(None),
        sa.or_(_RUN.uuid.is_(None), _RUN.state.in_(("done", "failed", "aborted"))),
    )
    .order_by(_MEMBER.id)
    .limit(_LIMIT)
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
    .limit(_LIMIT)
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
        sa.or_(
            _MEMBER.host == sa.bindparam("k_me"),
            _MEMBER.host.is_(None),
            _MEMBER.host.not_in(_OF_LIVING),
        ),
    )
    .order_by(_MEMBER.id)
    .limit(_LIMIT)
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
    """Return the columns `OPEN` of the batches that have not ended, the oldest first."""
    return [dict(zip(OPEN, found, strict=True)) for found in conn.execute(_OPEN)]


def ended_runs(conn: Connection, uuids: Sequence[str], *, limit: int) -> list[Row]:
    """Return running nodes whose run has ended or was removed.

    Keys: batch_uuid, node_uuid, run_uuid, state, error, ended_at; driver, conductor_group and
    present as in `member`. State is None for a removed run.
    """
    found = conn.execute(_ENDED_RUNS, {"k_batches": list(uuids), "k_limit": limit})
    return [dict(zip((*_OF_RUN, *_OWNED), row, strict=True)) for row in found]


def ended_power(
    conn: Connection, uuids: Sequence[str], hosts: Sequence[str], *, limit: int
) -> list[Row]:
    """Return running nodes without a run whose power change is not under way, as `member`.

    Their node was removed, has no target power state, or no living conductor holds its lock.

    :param hosts: the living conductors.
    """
    values = {"k_batches": list(uuids), "k_hosts": list(hosts), "k_limit": limit}
    return [member(row) for row in conn.execute(_ENDED_POWER, values)]


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


def left(
    conn: Connection, uuids: Sequence[str], host: str, hosts: Sequence[str], *, limit: int
) -> list[Row]:
    """Return nodes that this conductor or one that is lost has claimed and not started.

    :param host: this conductor.
    :param hosts: the living conductors.
    """
    values = {"k_batches": list(uuids), "k_me": host, "k_hosts": list(hosts), "k_limit": limit}
    return [member(row) for row in conn.execute(_LEFT, values)]


def under_way(conn: Connection, uuids: Sequence[str]) -> list[Row]:
    """Return the nodes whose run in these batches is under way and may be aborted.

    Keys: batch_uuid, node_uuid, run_uuid, owner and lessee at the abort, driver, conductor_group,
    provision_state, run_stop, generation, automated_clean.
    """
    names = (*_OF_RUN[:3], "owner", "lessee", *_STANDS)
    found = conn.execute(_UNDER_WAY, {"k_batches": list(uuids)}) if uuids else ()
    return [dict(zip(names, row, strict=True)) for row in found]


def member(row: sa.Row[Any]) -> Row:
    """Return a row of `MEMBERS`.

    It has the columns of ``batch_nodes``, and of the node ``driver``, ``conductor_group``,
    ``provision_state``, ``target_power_state``, ``reservation``, and ``present``, which is None for
    a removed node.
    """
    return dict(zip((*NODE_COLUMNS, *_MACHINE, "present"), row, strict=True))
