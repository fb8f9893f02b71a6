"""Continuation of waiting nodes, by wait state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from ironic_lite import errors
from ironic_lite.conductor.flows import clean, deploy, failure, inspect, rescue, service
from ironic_lite.conductor.steps import maintenance, stepper
from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.conductor.work.task import Task
from ironic_lite.domain import step_planning, steps
from ironic_lite.domain.states import State


class Resume(Protocol):
    """Continues a waiting node."""

    def __call__(self, task: Task, *, poll: bool) -> None:
        """Continue; ``poll``: a timer was due, so ask the driver; else the wait is over."""


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
"""The action of each state that maintenance may end."""


def halted(task: Task) -> bool:
    """End work that maintenance forbids; return whether work was ended.

    A step that must not be interrupted ends first; the stepper then begins no other. An inspection
    continues, because it provisions nothing.
    """
    action = _HALTED.get(task.state)
    if action is None or not maintenance.forbids(task):
        return False
    phase = PHASES.get(task.state)
    if phase is not None and stepper.must_end(task, phase):
        return False
    step = phase.current(task) if phase is not None else None
    failure.give_up(task, maintenance.ended(action, steps.title(step) if step else None))
    return True


def resume(task: Task, *, poll: bool) -> None:
    """Continue a node in a wait state; ignore a node in any other state."""
    go_on = WAITING.get(task.state)
    if go_on is not None and not halted(task):
        go_on(task, poll=poll)


def resume_changed(task: Task, why: errors.AgentChanged) -> None:
    """Continue a node whose step was refused by an agent other than the known one.

    Requirement S2.29.
    """
    phase = PHASES.get(task.state)
    if phase is not None:
        stepper.resume(task, phase, poll=False, changed=why)


def asleep(task: Task) -> bool:
    """Return whether a step of the service waits for its timer; no heartbeat ends it."""
    phase = PHASES.get(task.state)
    if phase is None or task.node.wake_at is None:
        return False
    step = phase.current(task)
    return bool(step) and step["step"] in step_planning.RESERVED
