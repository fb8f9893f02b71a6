"""Continuation of waiting nodes, by wait state."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.flows import activities, failure
from ironic_lite.conductor.steps import maintenance, stepper
from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.conductor.work.task import Task
from ironic_lite.domain import step_planning, steps


def halted(task: Task) -> bool:
    """End work that maintenance forbids; return whether work was ended.

    A step that must not be interrupted ends first; the stepper then begins no other. An inspection
    continues, because it provisions nothing.
    """
    flow = activities.waiting(task.state) or activities.running_steps(task.state)
    if flow is None or flow.activity.in_maintenance or not maintenance.forbids(task):
        return False
    phase = activities.waiting_steps(task.state)
    if phase is not None and stepper.must_end(task, phase):
        return False
    step = phase.current(task) if phase is not None else None
    title = steps.title(step) if step else None
    failure.give_up(task, maintenance.ended(flow.activity.name, title))
    return True


def resume(task: Task, *, poll: bool) -> None:
    """Continue a node in a wait state; ignore a node in any other state."""
    flow = activities.waiting(task.state)
    if flow is None or halted(task):
        return
    if flow.resume is not None:
        flow.resume(task, poll=poll)
    elif isinstance(flow, Phase):
        stepper.resume(task, flow, poll=poll)


def resume_changed(task: Task, why: errors.AgentChanged) -> None:
    """Continue a node whose step was refused by an agent other than the known one.

    Requirement S2.29.
    """
    phase = activities.waiting_steps(task.state)
    if phase is not None:
        stepper.resume(task, phase, poll=False, changed=why)


def in_timed_wait(task: Task) -> bool:
    """Return whether a step of the service waits for its timer; no heartbeat ends it."""
    phase = activities.waiting_steps(task.state)
    if phase is None or task.node.wake_at is None:
        return False
    if task.notes.paused:
        return True
    step = phase.current(task)
    return bool(step) and step["step"] in step_planning.RESERVED
