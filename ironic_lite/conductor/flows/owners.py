"""Changes of a node's owner and lessee by the service itself.

As after a PATCH of these fields, the former users keep nothing that acts on the node.
"""

from __future__ import annotations

import functools

from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import consoles
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import allocations, events, nodes, runs
from ironic_lite.domain import allocations as domain
from ironic_lite.domain import history
from ironic_lite.domain.run_stops import Stop, StopProgress

Hands = domain.Hands


def change(task: Task, hands: Hands) -> None:
    """Set owner and lessee with the next save; end the console, and work that has not begun.

    This takes the node out of the allocation of a project that has lost it, and withdraws the stop
    that such a project has asked for.

    :param hands: the next owner and lessee.
    """
    before = (task.node.owner, task.node.lessee)
    if hands == before:
        return
    consoles.end(task)
    _leave_allocation(task, before, hands)
    task.node.owner, task.node.lessee = hands
    gone = [project for project in before if project is not None and project not in hands]
    task.add_write(functools.partial(_take_out, task, gone))


def _leave_allocation(task: Task, before: Hands, hands: Hands) -> None:
    ident = task.node.allocation_uuid
    if ident is None:
        return
    project = task.runtime.database.read(lambda conn: allocations.owner_of(conn, ident))
    columns = domain.left(task.node.as_dict(), project, before, hands)
    for name, value in columns.items():
        setattr(task.node, name, value)
    if columns:
        task.add_write(lambda conn: allocations.forget(conn, task.context, ident))


def _take_out(task: Task, gone: list[str], conn: Connection) -> None:
    for listener in task.runtime.moved:
        listener(conn, [task.node.uuid], clock.now())
    row = nodes.get(conn, task.node.uuid, ("run_stop", "run_uuid"), lock_row=True)
    stop = Stop.read(row["run_stop"], row["run_uuid"])
    if stop is None or stop.progress is not StopProgress.ASKED:
        return
    asked = events.of_stop(conn, task.node.uuid, stop.run)
    data = (asked and asked["data"]) or {}
    if data.get("project") not in gone:
        return
    runs.put_stop(conn, task.node.uuid, stop.run, None)
    event = {
        **{"at": clock.now(), "node_uuid": task.node.uuid, "run_uuid": stop.run},
        **{"kind": "stop_withdrawn", "event": str(stop.how), "conductor": task.runtime.host},
        **task.context.recorded(),
        "data": {**data, **history.standing(task.node)},
    }
    events.add(conn, [event])
