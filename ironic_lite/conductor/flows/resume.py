"""Going on: what a wait state does when it is woken."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from ironic_lite import errors, plans, steps
from ironic_lite.conductor import maintenance, stepper
from ironic_lite.conductor.flows import clean, deploy, failure, inspect, rescue, service
from ironic_lite.conductor.phases import Phase
from ironic_lite.conductor.task import Task
from ironic_lite.states import State


class Resume(Protocol):
    """Goes on with a waiting node."""

    def __call__(self, task: Task, *, poll: bool) -> None:
        """``poll``: the timer rang, so ask the driver; False: somebody says that it is time."""


def _clean(task: Task, *, poll: bool) -> None:
    stepper.resume(task, clean.PHASE, poll=poll)


def _service(task: Task, *, poll: bool) -> None:
    stepper.resume(task, service.PHASE, poll=poll)


WAITING: Mapping[State, Resume] = MappingProxyType(
    {
        State.CLEANWAIT: _clean,
        State.DEPLOYWAIT: deploy.resume,
        State.SERVICEWAIT: _service,
        State.INSPECTWAIT: inspect.resume,
        State.RESCUEWAIT: rescue.resume,
    }
)

PHASES: Mapping[State, Phase] = MappingProxyType(
    {
        State.CLEANWAIT: clean.PHASE,
        State.DEPLOYWAIT: deploy.PHASE,
        State.SERVICEWAIT: service.PHASE,
    }
)

_HALTED: Mapping[State, str] = MappingProxyType(
    {
        State.CLEANWAIT: "clean",
        State.CLEANING: "clean",
        State.DEPLOYWAIT: "deploy",
        State.DEPLOYING: "deploy",
        State.SERVICEWAIT: "service",
        State.SERVICING: "service",
        State.RESCUEWAIT: "rescue",
    }
)
"""What a node was doing, where maintenance may end that."""


def halted(task: Task) -> bool:
    """End what a node in maintenance must not go on with; tell whether that has been done.

    A step that must not be cut short ends first; the stepper begins none after it. An inspection
    goes on: it provisions nothing.
    """
    action = _HALTED.get(task.state)
    if action is None or not maintenance.forbids(task):
        return False
    phase = PHASES.get(task.state)
    if phase is not None and stepper.must_end(task, phase):
        return False
    step = getattr(task.node, phase.column or "") if phase is not None else None
    failure.give_up(task, maintenance.ended(action, steps.title(step) if step else None))
    return True


def resume(task: Task, *, poll: bool) -> None:
    """Go on with a node in a wait state; in any other state there is nothing to do."""
    go_on = WAITING.get(task.state)
    if go_on is not None and not halted(task):
        go_on(task, poll=poll)


def resume_changed(task: Task, why: errors.AgentChanged) -> None:
    """Go on with a node whose step was refused by another agent than the one known (S2.29)."""
    phase = PHASES.get(task.state)
    if phase is not None:
        stepper.resume(task, phase, poll=False, changed=why)


def asleep(task: Task) -> bool:
    """Tell whether a step of the service itself waits for its timer, which no heartbeat ends."""
    phase = PHASES.get(task.state)
    if phase is None or phase.column is None or task.node.wake_at is None:
        return False
    step = getattr(task.node, phase.column)
    return bool(step) and step["step"] in plans.RESERVED
