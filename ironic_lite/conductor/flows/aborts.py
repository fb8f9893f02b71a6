"""Aborts on request: an immediate change of state, then clean-up.

The state changes at once, so that no crash can lose the abort; the clean-up may take its time
(S5.16). ``endpoints/provision`` calls this module. ``takeover`` finishes the clean-up of a lost
conductor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ironic_lite.conductor.flows import clean, deploy, inspect, rescue, service
from ironic_lite.conductor.work.task import Task
from ironic_lite.domain import states
from ironic_lite.domain.states import State


class Abort(NamedTuple):
    """``call_off`` moves the node; ``tidy`` cleans up, and saves last."""

    call_off: Callable[[Task], None]
    tidy: Callable[[Task], None]


_CLEAN = Abort(clean.call_off, clean.tidy)
_DEPLOY = Abort(deploy.call_off, deploy.tidy)
_SERVICE = Abort(service.call_off, service.tidy)

TABLE: Mapping[State, Abort] = MappingProxyType(
    {
        State.CLEANWAIT: _CLEAN,
        State.CLEANHOLD: _CLEAN,
        State.DEPLOYWAIT: _DEPLOY,
        State.DEPLOYHOLD: _DEPLOY,
        State.INSPECTWAIT: Abort(inspect.call_off, inspect.tidy),
        State.RESCUEWAIT: Abort(rescue.call_off, rescue.tidy),
        State.SERVICEWAIT: _SERVICE,
        State.SERVICEHOLD: _SERVICE,
    }
)
_TIDY = {states.follow(state, "abort"): abort.tidy for state, abort in TABLE.items()}


def start(task: Task) -> None:
    """Move the node now, and let a worker clean up."""
    TABLE[task.state].call_off(task)
    task.hand_over(tidy)


def tidy(task: Task) -> None:
    """Clean up after work that was aborted."""
    task.notes.untidied = False
    _TIDY[task.state](task)
