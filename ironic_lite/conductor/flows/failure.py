"""Failures from outside a flow: an error, a time-out, a lost conductor.

The worker's error handler, the time-out sweep and the recovery sweep use the same table by state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ironic_lite import errors
from ironic_lite.conductor.flows import (
    adopt,
    bmc_operations,
    clean,
    delete,
    deploy,
    inspect,
    power,
    rescue,
    service,
    verify,
)
from ironic_lite.conductor.work.task import Task
from ironic_lite.domain import states
from ironic_lite.domain.states import State

GIVE_UP: Mapping[State, Callable[[Task, errors.Error], None]] = MappingProxyType(
    {
        State.VERIFYING: verify.give_up,
        State.INSPECTING: inspect.give_up,
        State.INSPECTWAIT: inspect.give_up,
        State.CLEANING: clean.give_up,
        State.CLEANWAIT: clean.give_up,
        State.DEPLOYING: deploy.give_up,
        State.DEPLOYWAIT: deploy.give_up,
        State.DELETING: delete.give_up,
        State.ADOPTING: adopt.give_up,
        State.RESCUING: rescue.give_up,
        State.RESCUEWAIT: rescue.give_up,
        State.UNRESCUING: rescue.give_up_unrescue,
        State.SERVICING: service.give_up,
        State.SERVICEWAIT: service.give_up,
    }
)


def give_up(task: Task, why: errors.Error) -> None:
    """Move the node to the fail state of its current state; ignore a node at rest."""
    end = GIVE_UP.get(task.state)
    if end is not None:
        end(task, why)


def turn_away(task: Task, refusal: errors.Error) -> None:
    """Undo the notes of an endpoint when no worker is available any more.

    In a busy state nothing is undone: the node's next owner continues.
    """
    if states.kind(task.state) is states.Kind.BUSY:
        return
    if task.node.target_power_state:
        power.failed(task, refusal.message)
    if task.notes.order:
        bmc_operations.failed(task, refusal.message)
    task.save()
