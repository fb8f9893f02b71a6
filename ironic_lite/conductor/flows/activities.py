"""The one table of activities, and what it decides by a node's state: failure, abort, continuation.

``domain/activities`` has the states and words, each flow the functions. Everything that depends on
the state of a node asks here: failures, aborts, waits, time-outs, takeovers and verbs.
"""

from __future__ import annotations

from collections.abc import Mapping

from ironic_lite import errors
from ironic_lite.conductor.engine import stepper
from ironic_lite.conductor.engine.phases import Flow, Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import (
    adopt,
    clean,
    delete,
    deploy,
    inspect,
    operations,
    rescue,
    service,
    verify,
)
from ironic_lite.domain import activities, states, step_lists, steps
from ironic_lite.domain.activities import Activity
from ironic_lite.domain.states import Kind
from ironic_lite.drivers import registry

FLOWS: Mapping[Activity, Flow] = {
    flow.activity: flow
    for flow in (
        verify.PHASE,
        inspect.FLOW,
        clean.PHASE,
        deploy.PHASE,
        service.PHASE,
        delete.FLOW,
        adopt.FLOW,
        rescue.FLOW,
        rescue.UNRESCUE,
    )
}


def flow_of(state: str) -> Flow | None:
    """Return the functions of the activity that a state belongs to; None for a state of rest."""
    activity = activities.of(state)
    return None if activity is None else FLOWS[activity]


def waiting_flow(state: str) -> Flow | None:
    """Return the functions of the activity that waits in this state."""
    flow = flow_of(state)
    return flow if flow is not None and state == flow.activity.waiting else None


def waiting_steps(state: str) -> Phase | None:
    """Return the functions of the activity whose steps wait in this state."""
    flow = waiting_flow(state)
    return flow if isinstance(flow, Phase) else None


def running_steps(state: str) -> Phase | None:
    """Return the functions of the activity whose steps run in this state."""
    flow = flow_of(state)
    return flow if isinstance(flow, Phase) and state == flow.activity.busy else None


def failed_steps(state: str) -> Phase | None:
    """Return the functions of the activity whose steps have failed in this state."""
    flow = flow_of(state)
    return flow if isinstance(flow, Phase) and state == flow.activity.failed else None


# Failures from outside a flow: an error, a time-out, a lost conductor.
#
# The worker's error handler, the time-out sweep and the recovery sweep use the same table by state.


def give_up(task: Task, why: errors.Error) -> None:
    """Move the node to the fail state of its current state; ignore a node at rest.

    A node in a fail state may have an abort under way, and one in enroll a discovery, which fails.
    """
    flow, kind = flow_of(task.state), states.kind(task.state)
    if flow is not None and kind in (Kind.BUSY, Kind.WAIT):
        flow.give_up(task, why)
    elif kind in (Kind.FAIL, Kind.STABLE) and task.node.run_uuid is not None:
        task.run_record.end(task.node.run_uuid, why)
        task.node.last_error = why.message
        task.notes.untidied = False
        task.save()


def give_up_unseen(task: Task, why: errors.Error, reason: str) -> None:
    """Move the node as `give_up`, without a call of its driver: the machine is left as it is.

    :param task: has no unsaved changes.
    :param reason: why nothing is called; the sentence about a clean-up that failed contains it.
    """
    silent = registry.refusing_driver(task.driver, reason)
    node, held = task.node, task.held
    give_up(Task(task.runtime, task.context, node, silent, held, other_nodes=task.other_nodes), why)


def undo_start(task: Task, refusal: errors.Error) -> None:
    """Undo the notes of an endpoint when no worker is available any more.

    In a busy state nothing is undone: the node's next owner continues.
    """
    if states.kind(task.state) is Kind.BUSY:
        return
    if task.node.target_power_state:
        operations.fail_power_change(task, refusal.message, refusal)
    if task.notes.order:
        operations.fail_operation(task, refusal.message, refusal)
    task.save()


# Aborts on request: an immediate change of state, then clean-up.
#
# The state changes at once, so that no crash can lose the abort; the clean-up may take its time
# (S5.16). ``endpoints/provision`` calls this module. ``takeover`` finishes the clean-up of a lost
# conductor.


def start_abort(task: Task) -> None:
    """Move the node now, and let a worker clean up."""
    _aborted_flow(task).call_off(task)
    task.hand_over(finish_abort)


def finish_abort(task: Task) -> None:
    """Clean up after work that was aborted."""
    _aborted_flow(task).finish_abort(task)


def _aborted_flow(task: Task) -> Flow:
    flow = flow_of(task.state)
    assert flow is not None  # the state table has aborts of activities only
    return flow


# Continuation of waiting nodes, by wait state.


def end_in_maintenance(task: Task) -> bool:
    """End work that maintenance forbids; return whether work was ended.

    A step that must not be interrupted ends first; the stepper then begins no other. An inspection
    continues, because it provisions nothing.
    """
    flow = waiting_flow(task.state) or running_steps(task.state)
    if flow is None or flow.activity.in_maintenance or not stepper.maintenance_forbids(task):
        return False
    phase = waiting_steps(task.state)
    if phase is not None and stepper.must_end(task, phase):
        return False
    step = phase.current(task) if phase is not None else None
    title = steps.title(step) if step else None
    give_up(task, stepper.ended_by_maintenance(flow.activity.name, title))
    return True


def resume(task: Task, *, poll: bool) -> None:
    """Continue a node in a wait state; ignore a node in any other state."""
    flow = waiting_flow(task.state)
    if flow is None or end_in_maintenance(task):
        return
    if flow.resume is not None:
        flow.resume(task, poll=poll)
    elif isinstance(flow, Phase):
        stepper.resume(task, flow, poll=poll)


def resume_changed(task: Task, why: errors.AgentChanged) -> None:
    """Continue a node whose step was refused by an agent other than the known one.

    Requirement S2.29.
    """
    phase = waiting_steps(task.state)
    if phase is not None:
        stepper.resume(task, phase, poll=False, changed=why)


def in_timed_wait(task: Task) -> bool:
    """Return whether a step of the service waits for its timer; no heartbeat ends it."""
    phase = waiting_steps(task.state)
    if phase is None or task.node.wake_at is None:
        return False
    if task.notes.paused:
        return True
    step = phase.current(task)
    return bool(step) and step["step"] in step_lists.RESERVED
