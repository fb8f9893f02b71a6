"""How each state ends when something outside a flow goes wrong: an error, a time-out, a dead owner.

One table for the worker's last resort, the time-out sweep and the recovery sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ironic_lite import errors, states
from ironic_lite.conductor.flows import (
    adopt,
    clean,
    delete,
    deploy,
    inspect,
    orders,
    power,
    rescue,
    service,
    verify,
)
from ironic_lite.conductor.task import Task
from ironic_lite.states import State

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
    """Put the node into the fail state of where it stands; a node that is at rest is left alone."""
    end = GIVE_UP.get(task.state)
    if end is not None:
        end(task, why)


def turn_away(task: Task, refusal: errors.Error) -> None:
    """Undo what an endpoint has noted for a worker that cannot be had any more.

    Nothing is undone in a busy state: whoever owns the node next goes on with it.
    """
    if states.kind(task.state) is states.Kind.BUSY:
        return
    if task.node.target_power_state:
        power.failed(task, refusal.message)
    if task.notes.order:
        orders.failed(task, refusal.message)
    task.save()
