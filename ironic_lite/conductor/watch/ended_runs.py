"""End of all work that a restored database shows as under way, without a look at the machines.

A conductor would continue it: recovery repeats the step under way, timers poll or retry, batches
start their next nodes, allocations take nodes, and the power sync restores old power states. The
machines may be in use since the backup, so nothing is sent to them. Each change is complete by
itself: after an interruption, another call ends the rest.
"""

from __future__ import annotations

import datetime
import functools
import uuid
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.flows import failure, takeover
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.batches import Batches
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, context
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import allocations, batch_sweeps, events, holds, nodes, sweeps
from ironic_lite.domain import batches as core
from ironic_lite.domain import history, states
from ironic_lite.domain import holds as hold_rules
from ironic_lite.domain.allocations import State as AllocationState
from ironic_lite.domain.states import Kind, State

WORK = states.of_kind(Kind.BUSY, Kind.WAIT, Kind.HELD)
"""States of a node whose run is under way."""
_LOCK = ("uuid", "reservation", "lock_token", "lock_expires")
_PAGE = 1000
_FREEZE = "freeze"
_LATEST = datetime.datetime(9999, 1, 1)
_NO_NODE = (
    "The database was restored from a backup, so nodes that it shows as available may be in use. "
    "Check them, and create the allocation again."
)
_NOT_CALLED = "it was not called, because the database was restored"


class Found(NamedTuple):
    """Work that conductors would continue.

    :ivar nodes: with a run under way, a lock, or the timer of an automatic retry, by UUID.
    :ivar batches: the running ones; columns of `batch_sweeps.OPEN`.
    :ivar allocations: in search of a node, by UUID.
    """

    nodes: dict[str, sweeps.Place]
    batches: list[Row]
    allocations: list[str]


def find(conn: Connection) -> Found:
    """Return the work that conductors would continue."""
    found: dict[str, sweeps.Place] = {}
    last = 0
    while page := sweeps.held(conn, limit=_PAGE, after_id=last):
        found.update((row["uuid"], row) for row in page)
        last = page[-1]["id"]
    last, under_way = 0, [str(state) for state in WORK]
    while page := sweeps.unheld(conn, states=under_way, limit=_PAGE, after_id=last):
        found.update((row["uuid"], row) for row in page)
        last = page[-1]["id"]
    timer: sweeps.Due | None = None
    while timers := sweeps.due(conn, now=_LATEST, limit=_PAGE, after=timer):
        found.update((row["uuid"], row) for row in timers)
        timer = timers[-1]
    running = core.BatchState.RUNNING
    batches = [row for row in batch_sweeps.open_batches(conn) if row["state"] == running]
    return Found(found, batches, [row["uuid"] for row in allocations.unsettled(conn)])


def outcome(row: sweeps.Place) -> str:
    """Return what `end` does to a node, for a list."""
    state = State(row["provision_state"])
    if state not in WORK:
        return f"{state}: its lock or timer is removed"
    waits = states.follow(state, "unhold") if states.kind(state) is Kind.HELD else state
    return f"{state}: becomes {states.follow(waits, 'fail')}"


def end(
    tasks: Tasks, batches: Batches, found: Found, *, hold: str | None = None
) -> dict[str, errors.Error]:
    """Forget power states, pause batches, end allocations and runs, remove locks and timers.

    :param tasks: of a service that is not started; no conductor may be alive.
    :param hold: the reason of a hold of the kind freeze on every node, None for no holds.
    :returns: the nodes that could not be changed, by UUID, each with the reason.
    :raises errors.Error: the database is away, or a batch cannot be changed.
    """

    def begin(conn: Connection) -> None:
        # All holds at once and first, so that no node is free after an interruption.
        if hold is not None:
            _hold_all(conn, hold)
        nodes.forget_power(conn)

    tasks.runtime.database.write(begin)
    for batch in found.batches:
        batches.pause(batch["uuid"], core.BY_RESTORE)
    for allocation in found.allocations:
        tasks.runtime.database.write(functools.partial(_end_allocation, allocation=allocation))
    failed: dict[str, errors.Error] = {}
    for node in found.nodes:
        try:
            _end_node(tasks, node)
        except errors.Unavailable:
            raise
        except errors.Error as why:
            failed[node] = why  # the others must not be continued because of this one
    return failed


def _hold_all(conn: Connection, reason: str) -> None:
    """Hold each node that is not held by an earlier call: its machine may have a newer life."""
    values = {"kind": _FREEZE, "reason": reason, "created_by": core.BY_RESTORE}
    columns = ("uuid", "name", *history.STANDING)
    while page := holds.without(conn, values, columns=columns, limit=_PAGE):
        now = clock.now()
        rows = [
            {
                **dict.fromkeys(holds.COLUMNS[1:]),
                **values,
                "uuid": str(uuid.uuid4()),
                "node_uuid": node["uuid"],
                "blocks": ",".join(hold_rules.KINDS[_FREEZE]),
                "created_at": now,
            }
            for node in page
        ]
        holds.add_all(conn, rows)
        events.add(conn, [_hold_event(row, node) for row, node in zip(rows, page, strict=True)])


def _hold_event(row: Row, node: Row) -> Row:
    return {
        "at": row["created_at"],
        "node_uuid": node["uuid"],
        "kind": "hold_added",
        "event": _FREEZE,
        "requester": core.BY_RESTORE,
        "data": hold_rules.event_data(row, history.standing_of(node), None),
    }


def _end_allocation(conn: Connection, allocation: str) -> None:
    who = context.internal("restore")
    allocations.settle(conn, who, allocation, AllocationState.ERROR, last_error=_NO_NODE)


def _end_node(tasks: Tasks, node: str) -> None:
    row = tasks.runtime.database.read(functools.partial(nodes.get, ident=node, columns=_LOCK))
    stale, who = nodes.Lease.seen(row), context.internal("restore")
    with tasks.lock(who, node, patient=False, stale=stale, whole=False) as task:
        _end_work(task, row["reservation"] or "of that time")


def _end_work(task: Task, host: str) -> None:
    """End a node's work; ``host`` is the conductor that had it."""
    takeover.end_orders(task, host)
    task.notes.untidied = False
    task.node.wake_at = None
    if states.kind(task.state) is Kind.HELD:
        task.move("unhold")  # a hold has no row to a fail state
    task.save()
    failure.give_up_unseen(task, errors.DatabaseRestored(), _NOT_CALLED)
