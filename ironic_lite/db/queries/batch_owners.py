"""Owners and lessees of nodes in batches, for which the rights of a caller were checked."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batches
from ironic_lite.db.tables import models
from ironic_lite.domain.batches import UNDER_WAY, NodeState, change_of_hands, rights_lost

_BATCH, _MEMBER, _NODE = models.batches.c, models.batch_nodes.c, models.nodes.c
_ROWS = 500
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
    .limit(1)
)


def refuse_taken(
    conn: Connection, nodes: Sequence[str], shown: Callable[[str | None], bool] = lambda _: True
) -> None:
    """Refuse nodes that have not ended in another batch.

    A node that has changed hands before its start there is free: see `take_out`.

    :param shown: whether the caller may see a batch of this project.
    :raises errors.Conflict: naming the first of them, and its batch if the caller may see it.
    """
    for first in range(0, len(nodes), _ROWS):
        found = conn.execute(_TAKEN, {"k_nodes": list(nodes[first : first + _ROWS])}).first()
        if found is None:
            continue
        node, name, batch, title, project = found
        if not shown(project):
            reason = "it is in an open batch of another project; wait for its end there"
            raise errors.Conflict(node=name or node, reason=reason)
        known = f"{batch} ({title})" if title else batch
        reason = f"it is in the open batch {known}; wait for its end there, or abort it"
        raise errors.Conflict(node=name or node, batch=batch, reason=reason)


def take_out(conn: Connection, nodes: Sequence[str], at: datetime.datetime) -> None:
    """Skip nodes that wait in an open batch and have changed hands since it was made.

    The new owner may then put them into a batch, and none of their former users acts on them.
    """
    for first in range(0, len(nodes), _ROWS):
        found = conn.execute(_LEAVING, {"k_nodes": list(nodes[first : first + _ROWS])}).all()
        for batch, node, owner, lessee, new_owner, new_lessee in found:
            error = rights_lost(change_of_hands((owner, lessee), (new_owner, new_lessee)))
            batches.skip_pending(conn, batch, at, error, nodes=[node])


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
        batches.change_node(conn, uuid, node, {"keeps_run": True}, states=UNDER_WAY)
