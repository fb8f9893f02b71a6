"""The functions of an activity; the flows define the records, ``flows/activities`` lists them.

Cleaning, deploying, servicing and verifying differ only in the fields of ``Phase`` (invariant 4).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain.activities import Activity, StepActivity
from ironic_lite.domain.steps import StepKind
from ironic_lite.domain.verbs import Verb
from ironic_lite.records import StoredStep

if TYPE_CHECKING:
    from ironic_lite.conductor.engine.task import Task


Checks = tuple[Callable[[], object], ...]
"""Checks in their order; each raises its refusal. None needs the machine."""
Plan = Callable[["Task", Verb, JsonView, Any], Any]
"""Adds refusals of a verb to a ``planning.Findings``; returns its ``planning.Listed`` or None."""
Start = Callable[["Task", Verb, JsonView], None]
"""Starts an activity by a verb with its body: check, move the node, hand over to a worker."""


class Resume(Protocol):
    """Continues a waiting node."""

    def __call__(self, task: Task, *, poll: bool) -> None:
        """Continue; ``poll``: a timer was due, so ask the driver; else the wait is over."""


def _not_abortable(task: Task) -> None:
    raise errors.InvalidState(verb="abort", node=task.node.uuid, state=str(task.state))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The functions of one activity.

    ``checks`` refuse a request, with its body, while the client waits. ``start`` starts the
    activity by a verb; None: after the checks, the node is moved. ``plan`` makes the checks of
    ``start`` and changes nothing; None: ``checks`` alone. ``prepare`` starts from the beginning,
    also after a crash; ``give_up`` handles a failure.
    ``resume`` continues a waiting node; None: the stepper does, or nothing waits. ``call_off`` is
    an abort: the state changes at once, and ``tidy`` then cleans up and saves last.
    """

    activity: Activity
    prepare: Callable[[Task], None]
    give_up: Callable[[Task, errors.Error], None]
    checks: Callable[[Task, JsonView], Checks] = lambda _task, _body: ()
    start: Start | None = None
    plan: Plan | None = None
    resume: Resume | None = None
    call_off: Callable[[Task], None] = _not_abortable
    tidy: Callable[[Task], None] = _not_abortable

    def finish_abort(self, task: Task) -> None:
        """Clean up after ``call_off``.

        :raises errors.Stopping: the service stops; the next owner of the node cleans up.
        """
        task.notes.untidied = False  # saved with the last change of the clean-up
        try:
            self.tidy(task)
        except errors.Stopping:
            task.notes.untidied = True
            raise


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Phase(Flow):
    """The functions of an activity that runs a list of steps.

    ``prepare`` calls ``begin``, which makes the list and runs it (once a ramdisk, if any, has an
    agent); ``finish`` follows the last step. ``failure`` is the error class of a failed step.
    ``hear`` runs after a waiting step has ended (its index) and before the next one, because an
    agent may have started. ``restarts`` is true if another agent means a new list from its first
    step, instead of the step again (S2.29).
    """

    activity: StepActivity
    begin: Callable[[Task], None]
    finish: Callable[[Task], None]
    failure: type[errors.StepFailed] = errors.StepFailed
    hear: Callable[[Task, int], None] = lambda _task, _index: None
    restarts: Callable[[Task], bool] = lambda _task: False

    @property
    def kind(self) -> StepKind:
        """The kind of the steps."""
        return self.activity.kind

    def current(self, task: Task) -> StoredStep:
        """Return the step under way, as the node shows it; empty between steps."""
        return self.activity.step_of(task.node)

    def show(self, task: Task, step: StoredStep | None) -> None:
        """Let the node show a step as the one under way."""
        if self.activity.column:
            setattr(task.node, self.activity.column, step)
