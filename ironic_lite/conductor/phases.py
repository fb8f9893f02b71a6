"""A phase says how one kind of steps is run; the records themselves stand in the flows.

Cleaning, deploying, servicing and verifying differ only in what stands here (invariant 4).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from ironic_lite import errors
from ironic_lite.states import State
from ironic_lite.steps import StepKind

if TYPE_CHECKING:
    from ironic_lite.conductor.task import Task


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """One kind of steps.

    ``column`` is the node field naming the step under way; ``failure`` the error a failed step
    becomes; ``action`` the word for sentences; ``waiting`` the state between a step's WAIT and its
    end. ``prepare`` starts from the very beginning; ``begin`` makes the list and runs it (once a
    ramdisk, if any, speaks); ``finish`` follows the last step; ``give_up`` a fault. ``call_off``
    is an abort: the state changes at once, and ``tidy`` then puts away what was set up. ``hear``
    comes between the end of a step that waited (its index) and the next one: an agent may speak by
    now. ``restarts`` tells whether another agent means a new list from its first step, instead of
    the step again (S2.29). What is done after a crash, ``recovery`` says.
    """

    kind: StepKind
    column: str | None
    failure: type[errors.StepFailed]
    action: str
    waiting: State | None
    prepare: Callable[[Task], None]
    begin: Callable[[Task], None]
    finish: Callable[[Task], None]
    give_up: Callable[[Task, errors.Error], None]
    call_off: Callable[[Task], None]
    tidy: Callable[[Task], None]
    hear: Callable[[Task, int], None] = lambda _task, _index: None
    restarts: Callable[[Task], bool] = lambda _task: False
