"""Aborts on request: an immediate change of state, then clean-up.

The state changes at once, so that no crash can lose the abort; the clean-up may take its time
(S5.16). ``endpoints/provision`` calls this module. ``takeover`` finishes the clean-up of a lost
conductor.
"""

from __future__ import annotations

from ironic_lite.conductor.flows import activities
from ironic_lite.conductor.steps.phases import Flow
from ironic_lite.conductor.work.task import Task


def start(task: Task) -> None:
    """Move the node now, and let a worker clean up."""
    _flow_of(task).call_off(task)
    task.hand_over(tidy)


def tidy(task: Task) -> None:
    """Clean up after work that was aborted."""
    _flow_of(task).finish_abort(task)


def _flow_of(task: Task) -> Flow:
    flow = activities.of(task.state)
    assert flow is not None  # the state table has aborts of activities only
    return flow
