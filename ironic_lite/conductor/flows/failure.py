"""Failures from outside a flow: an error, a time-out, a lost conductor.

The worker's error handler, the time-out sweep and the recovery sweep use the same table by state.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.flows import activities, bmc_operations, power
from ironic_lite.conductor.work.task import Task
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind
from ironic_lite.drivers import absent_interface


def give_up(task: Task, why: errors.Error) -> None:
    """Move the node to the fail state of its current state; ignore a node at rest.

    A node in a fail state may have an abort under way, which fails.
    """
    flow, kind = activities.of(task.state), states.kind(task.state)
    if flow is not None and kind in (Kind.BUSY, Kind.WAIT):
        flow.give_up(task, why)
    elif kind is Kind.FAIL and task.node.run_uuid is not None:
        task.run_record.fail(task.node.run_uuid, why)
        task.node.last_error = why.message
        task.notes.untidied = False
        task.save()


def give_up_unseen(task: Task, why: errors.Error, reason: str) -> None:
    """Move the node as `give_up`, without a call of its driver: the machine is left as it is.

    :param task: has no unsaved changes.
    :param reason: why nothing is called; the sentence about a clean-up that failed contains it.
    """
    silent = absent_interface.silent(task.driver, reason)
    node, held = task.node, task.held
    give_up(Task(task.runtime, task.context, node, silent, held, other_nodes=task.other_nodes), why)


def undo_start(task: Task, refusal: errors.Error) -> None:
    """Undo the notes of an endpoint when no worker is available any more.

    In a busy state nothing is undone: the node's next owner continues.
    """
    if states.kind(task.state) is Kind.BUSY:
        return
    if task.node.target_power_state:
        power.failed(task, refusal.message, refusal)
    if task.notes.order:
        bmc_operations.failed(task, refusal.message, refusal)
    task.save()
