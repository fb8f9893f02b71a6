"""The phase type: how one kind of steps runs; the flows define the records.

Cleaning, deploying, servicing and verifying differ only in the fields of this type (invariant 4).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from ironic_lite import errors
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import StoredStep

if TYPE_CHECKING:
    from ironic_lite.conductor.work.task import Task


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """One kind of steps.

    ``column`` is the node field with the step under way; ``failure`` the error class of a failed
    step; ``action`` the word for sentences; ``waiting`` the state of a waiting step.

    ``prepare`` starts from the beginning; ``begin`` makes the list and runs it (once a ramdisk, if
    any, has an agent); ``finish`` follows the last step; ``give_up`` handles a failure.
    ``call_off`` is an abort: the state changes at once, and ``tidy`` then cleans up. ``hear`` runs
    after a waiting step has ended (its index) and before the next one, because an agent may have
    started. ``restarts`` is true if another agent means a new list from its first step, instead of
    the step again (S2.29). ``recovery`` defines the action after a crash.
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

    def current(self, task: Task) -> StoredStep:
        """Return the step under way; empty if there is none."""
        step: StoredStep | None = getattr(task.node, self.column) if self.column else None
        return step or {}
