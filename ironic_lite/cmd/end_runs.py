"""``ironic-lite-dbsync end_runs``: end the runs of a restored database."""

from __future__ import annotations

import datetime
import functools
import sys
import uuid
from typing import NamedTuple

from ironic_lite import errors, features, membership
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import activities, takeover
from ironic_lite.conductor.service import ConductorService
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.core import clock, context
from ironic_lite.core.json_types import JsonView, Row
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import (
    allocations,
    conductors,
    events,
    holds,
    nodes,
    server_health,
    sweeps,
)
from ironic_lite.domain import history, states
from ironic_lite.domain import holds as hold_rules
from ironic_lite.domain.allocations import AllocationState
from ironic_lite.domain.holds import BY_RESTORE
from ironic_lite.domain.states import Kind, State
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry

# End of all work that a restored database shows as under way, without a look at the machines.
#
# A conductor would continue it: recovery repeats the step under way, timers poll or retry,
# allocations take nodes, and the power sync restores old power states. The machines may be in use
# since the backup, so nothing is sent to them. Each change is complete by itself: after an
# interruption, another call ends the rest.

WORK = states.of_kind(Kind.BUSY, Kind.WAIT, Kind.HELD)
"""States of a node whose run is under way."""
_LOCK = ("uuid", "reservation", "lock_token", "lock_expires")
_NODES_AT_ONCE = 1000
_FREEZE = "freeze"
_LATEST = datetime.datetime(9999, 1, 1)
_NO_NODE = (
    "The database was restored from a backup, so nodes that it shows as available may be in use. "
    "Check them, and create the allocation again."
)
_NOT_CALLED = "it was not called, because the database was restored"


class UnfinishedWork(NamedTuple):
    """Work that conductors would continue.

    :ivar nodes: with a run under way, a lock, or the timer of an automatic retry, by UUID.
    :ivar allocations: in search of a node, by UUID.
    """

    nodes: dict[str, sweeps.SweptNode]
    allocations: list[str]


def find_work(conn: Connection) -> UnfinishedWork:
    """Return the work that conductors would continue."""
    found: dict[str, sweeps.SweptNode] = {}
    last = 0
    while page := sweeps.held(conn, limit=_NODES_AT_ONCE, after_id=last):
        found.update((row["uuid"], row) for row in page)
        last = page[-1]["id"]
    last, under_way = 0, [str(state) for state in WORK]
    while page := sweeps.unheld(conn, states=under_way, limit=_NODES_AT_ONCE, after_id=last):
        found.update((row["uuid"], row) for row in page)
        last = page[-1]["id"]
    timer: sweeps.Due | None = None
    while timers := sweeps.due(conn, now=_LATEST, limit=_NODES_AT_ONCE, after=timer):
        found.update((row["uuid"], row) for row in timers)
        timer = timers[-1]
    return UnfinishedWork(found, [row["uuid"] for row in allocations.unsettled(conn)])


def outcome(row: sweeps.SweptNode) -> str:
    """Return what `end_work` does to a node, for a list."""
    state = State(row["provision_state"])
    if state not in WORK:
        return f"{state}: its lock or timer is removed"
    waits = states.follow(state, "unhold") if states.kind(state) is Kind.HELD else state
    return f"{state}: becomes {states.follow(waits, 'fail')}"


def end_work(
    tasks: TaskRunner, found: UnfinishedWork, *, hold: str | None = None
) -> dict[str, errors.Error]:
    """Forget power states, end allocations, runs and what features have left, remove locks.

    :param tasks: of a service that is not started; no conductor may be alive.
    :param hold: the reason of a hold of the kind freeze on every node, None for no holds.
    :returns: the nodes that could not be changed, by UUID, each with the reason.
    :raises errors.Error: the database is away.
    """

    def begin(conn: Connection) -> None:
        # All holds at once and first, so that no node is free after an interruption.
        if hold is not None:
            _hold_all(conn, hold)
        nodes.forget_power(conn)

    tasks.runtime.database.write(begin)
    for leftover in features.leftovers():
        leftover.end(tasks.runtime.database, tasks.runtime.host)
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
    values = {"kind": _FREEZE, "reason": reason, "created_by": hold_rules.BY_RESTORE}
    columns = ("uuid", "name", *history.STANDING)
    while page := holds.without(conn, values, {}, columns=columns, limit=_NODES_AT_ONCE):
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
        "requester": hold_rules.BY_RESTORE,
        "data": hold_rules.event_data(row, history.standing_of(node), None),
    }


def _end_allocation(conn: Connection, allocation: str) -> None:
    who = context.internal("restore")
    allocations.settle(conn, who, allocation, AllocationState.ERROR, last_error=_NO_NODE)


def _end_node(tasks: TaskRunner, node: str) -> None:
    row = tasks.runtime.database.read(functools.partial(nodes.get, ident=node, columns=_LOCK))
    stale, who = nodes.Lease.seen(row), context.internal("restore")
    with tasks.lock(who, node, patient=False, stale=stale, whole=False) as task:
        _end_work_of_node(task, row["reservation"] or "of that time")


def _end_work_of_node(task: Task, host: str) -> None:
    """End a node's work; ``host`` is the conductor that had it."""
    takeover.end_orders(task, host)
    task.notes.untidied = False
    task.node.wake_at = None
    if states.kind(task.state) is Kind.HELD:
        task.move("unhold")  # a hold has no row to a fail state
    task.save()
    activities.give_up_unseen(task, errors.DatabaseRestored(), _NOT_CALLED)


_PAGE = 500


def run(conf: Configuration, database: Database, confirmed: bool, hold: str | None = None) -> int:
    """List the work that conductors would continue, and end it if ``confirmed``.

    :param hold: the reason of a hold of the kind freeze on every node, None for no holds.
    :returns: the exit status: 1 if a node could not be changed.
    :raises errors.Error: a conductor is alive, or the database is away.
    """
    seconds = conf.conductor.heartbeat_timeout
    membership.refuse_living(lambda: database.read(conductors.all), seconds, "you end runs")
    found = database.read(find_work)
    for row in found.nodes.values():
        print(f"node {row['uuid']}: {outcome(row)}")
    counts = [f"{len(found.nodes)} nodes"]
    for leftover in features.leftovers():
        lines = database.read(leftover.find)
        print(*lines, sep="\n", end="\n" if lines else "")
        counts.append(f"{len(lines)} {leftover.name}")
    for allocation in found.allocations:
        print(f"allocation {allocation}: allocating: becomes error")
    number = ", ".join([*counts, f"{len(found.allocations)} allocations"])
    if hold is not None:
        count = sum(each for *_, each in database.read(server_health.node_groups))
        print(f"every node, {count}: becomes held (freeze), unless this command has held it before")
    if not confirmed:
        print(f"{number}. Nothing was changed. Repeat the command with --yes to do this.")
        return 0
    failed = _end(conf, database, found, hold)
    for node, why in failed.items():
        print(f"node {node}: its run has not ended: {why}", file=sys.stderr)
    if failed:
        print("Start no conductor before these runs have ended too.", file=sys.stderr)
        return 1
    print(f"Done: {number}. Conductors will read the power states from the machines.")
    return 0


def end_holds(database: Database, where: JsonView, reason: str) -> int:
    """End the holds of restored databases on the chosen nodes, while the service runs.

    :param where: ``owner`` or ``conductor_group`` of the nodes, or ``uuid``, names or UUIDs of
        nodes; empty for all nodes.
    :raises errors.NodeNotFound: a node does not exist; no hold has been ended.
    """
    chosen = dict(where)
    if "uuid" in chosen:
        idents = chosen["uuid"]
        chosen["uuid"] = [database.read(functools.partial(_uuid, ident=ident)) for ident in idents]
    count = 0
    while ended := database.write(functools.partial(_end_some, where=chosen, reason=reason)):
        count += ended
    print(f"{count} holds have ended.")
    return 0


def _uuid(conn: Connection, ident: str) -> str:
    return str(nodes.get(conn, ident, ("uuid",))["uuid"])


def _end_some(conn: Connection, where: JsonView, reason: str) -> int:
    """End the oldest of these holds, by one transaction; return their number."""
    now, written = clock.now(), []
    values = {"ended_at": now, "ended_by": BY_RESTORE, "end_reason": reason}
    columns = ("uuid", *history.STANDING)
    found = holds.such(conn, {"created_by": BY_RESTORE}, where, columns=columns, limit=_PAGE)
    for hold, node in found:
        if holds.end(conn, hold["uuid"], values):
            about = {**hold, "reason": reason}
            data = hold_rules.event_data(about, history.standing_of(node), None)
            event = {"at": now, "node_uuid": node["uuid"], "kind": "hold_ended"}
            written.append({**event, "event": hold["kind"], "requester": BY_RESTORE, "data": data})
    events.add(conn, written)
    return len(found)


def _end(
    conf: Configuration, database: Database, found: UnfinishedWork, hold: str | None
) -> dict[str, errors.Error]:
    # No driver is loaded, so nothing can be sent to a machine. The service is never started.
    registry = Registry({}, {kind: {} for kind in base.KINDS}, {}, {})
    service = ConductorService(conf, database, registry, None)
    try:
        return end_work(service.tasks, found, hold=hold)
    finally:
        service.stop(0)
