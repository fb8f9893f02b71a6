"""Changes of the state of a batch: pause, resume and abort, and the rights that they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.api.resources import batch_requests, runbook_access
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batch_owners, batches, events
from ironic_lite.domain import batches as core
from ironic_lite.domain import event_rows
from ironic_lite.domain.batches import BatchState

_STOP_RULE = "baremetal:node:runs:stop"
_NO_RIGHT = core.rights_lost(
    "the caller who resumed the batch may not send its request to the node"
)


class Lost(NamedTuple):
    """Nodes of a batch for which the caller who changes it lacks a right.

    :ivar skipped: by a resume.
    :ivar kept: the nodes whose runs an abort leaves alone.
    """

    skipped: list[str]
    kept: list[str]


def without_right(service: Service, request: Request, batch: JsonView, body: JsonView) -> Lost:
    """Return the nodes for which the caller may not resume a batch, or abort its runs.

    The state of the batch is not asked, because it may be paused until the change is written.

    :param batch: with uuid, and the request if rules bind the caller.
    :param body: of ``PUT /batches/{ident}/state``.
    """
    if not request.access.limited:
        return Lost([], [])
    if body["target"] == "resume":
        return Lost(_lost_by_resume(service, request, batch), [])
    if body.get("runs") == "abort":
        found = _present_nodes(service, batch, core.UNDER_WAY)
        return Lost([], _unusable(request, found, (_STOP_RULE,), {}))
    return Lost([], [])


def _lost_by_resume(service: Service, request: Request, batch: JsonView) -> list[str]:
    """Return the nodes to start for which the caller may not send the request of a batch.

    A pause keeps no right: the caller who resumes a batch needs the rights of its request.

    :param batch: with uuid and request.
    """
    asked = dict(batch["request"])
    if "runbook" in asked:
        try:
            runbook_access.to_use(service, request, asked["runbook"])
        except errors.Error:  # without the runbook, its steps are those of the caller
            del asked["runbook"]
    found = _present_nodes(service, batch, (core.NodeState.PENDING, core.NodeState.STARTING))
    more = (
        batch_requests.name_runs(service, request, found) if asked.get("target") == "retry" else {}
    )
    return _unusable(request, found, batch_requests.rules(request, asked), more)


def _present_nodes(
    service: Service, batch: JsonView, states: Sequence[core.NodeState]
) -> list[Json]:
    return service.database.read(lambda conn: batch_owners.with_owners(conn, batch["uuid"], states))


def _unusable(
    request: Request,
    found: Sequence[Json],
    names: Sequence[str],
    more: Mapping[str, tuple[str, ...]],
) -> list[str]:
    """Return the nodes that the caller may not see, or not use in this way."""
    lost = []
    for node in found:
        try:
            lost += [uuid for uuid, _ in batch_requests.refused(request, [node], names, more)]
        except errors.NodeNotFound:
            lost.append(node["uuid"])
    return lost


# -- the change ---------------------------------------------------------------------------------


def change(
    conn: Connection, request: Request, row: Json, body: Json, rights: Lost
) -> tuple[Json, core.Counts]:
    """Write the change of a batch with its event; return its row and counts afterwards."""
    uuid, now, target_ = row["uuid"], clock.now(), body["target"]
    counts = batches.counts(conn, uuid)
    values = _CHANGES[target_](request, row, counts, body)
    if not values:
        return row, counts
    if values.get("state") == BatchState.RUNNING:
        for node in rights.skipped:
            batches.skip_pending(conn, uuid, now, _NO_RIGHT, nodes=[node])
        _refuse_starting(conn, uuid, rights.skipped)
    if "abort_runs" in values:
        batch_owners.mark_aborts(conn, uuid, rights.kept)
    if values.get("state") == BatchState.ABORTED:
        batches.skip_pending(conn, uuid, now, core.SKIPPED_BY_ABORT)
    values["updated_at"] = now
    batches.update(conn, uuid, values)
    row.update(values)
    if target_ != "resume" or "state" in values:
        by = {"by": request.who.user}
        events.add(conn, [event(request, row, _EVENTS[target_], by)])
    return row, batches.counts(conn, uuid)


def _pause(request: Request, row: Json, _counts: core.Counts, _body: Json) -> Json:
    _refuse_ended(row, "paused")
    if row["state"] == BatchState.PAUSED:
        return {}
    return {"state": BatchState.PAUSED.value, "paused_by": request.who.user or "anonymous"}


def _resume(request: Request, row: Json, counts: core.Counts, body: Json) -> Json:
    _refuse_ended(row, "resumed")
    values: Json = {}
    if "max_failures" in body:
        count = sum(counts.values())
        values["max_failures"] = core.failures_allowed(body["max_failures"], count)
    if row["state"] == BatchState.PAUSED:
        values |= {
            "state": BatchState.RUNNING.value,
            "paused_by": None,
            "forgiven": core.total(counts, core.FAILURES),
            # From now on the nodes start with the rights of this caller.
            "context": request.who.as_dict(),
        }
    return values


def _abort(request: Request, row: Json, _counts: core.Counts, body: Json) -> Json:
    values: Json = {}
    if body.get("runs") == "abort":
        # No node starts any more: what conductors ask for from now on, this caller asks for.
        values = {"abort_runs": True, "context": request.who.as_dict()}
    if row["ended_at"] is None and row["state"] == BatchState.ABORTED:
        return {} if row["abort_runs"] else values
    _refuse_ended(row, "aborted")
    return {"state": BatchState.ABORTED.value, "paused_by": None, **values}


def _refuse_starting(conn: Connection, uuid: str, lost: Sequence[str]) -> None:
    """Refuse a resume while nodes are starting that the caller has no right to.

    Their requests would go on under the name of this caller. Conductors soon record whether they
    have begun.
    """
    starting = set(batches.nodes_with(conn, uuid, core.NodeState.STARTING))
    for node in lost:
        if node in starting:
            raise errors.Conflict(
                f"Batch {uuid} cannot be resumed while its node {node} is starting, because the "
                "caller may not send its request to this node. Try again in a minute.",
                batch=uuid,
                node=node,
            )


def _refuse_ended(row: Json, what: str) -> None:
    if row["ended_at"] is not None or row["state"] == BatchState.ABORTED:
        raise errors.Conflict(
            f"Batch {row['uuid']} is {row['state']} and cannot be {what}. Begin another batch "
            'with {"batch": ..., "result": ...} as its nodes.',
            batch=row["uuid"],
        )


_EVENTS = {"pause": "batch_paused", "resume": "batch_resumed", "abort": "batch_aborted"}
_CHANGES = {"pause": _pause, "resume": _resume, "abort": _abort}


def event(request: Request, row: JsonView, kind: str, data: Json) -> Json:
    """Return an event of a batch; its UUID stands in place of a node's."""
    about = {"batch": row["uuid"], "name": row["name"], **data}
    told = event_rows.of(request.who, row["uuid"], kind, about)
    return {**told, "owner": row["project"]}
