"""Stops of runs, as the step loop sees them: before a step begins.

The statement that begins a step has the condition that the stop of the run has not changed. So
every stop that was accepted before the step began takes effect. A stop that takes effect is first
recorded as taken, together with the end of the step before it: from there on it cannot be taken
back, and a conductor that takes the node over carries it out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import run_lines
from ironic_lite.db.queries.run_stops import StopChanged
from ironic_lite.domain.run_stops import How, Progress, Stop

LOG = logging.getLogger(__name__)


def stopped(task: Task, phase: Phase, ordinal: int, begin: Callable[[], None]) -> bool:
    """Save that a step begins and return False, or stop the run and return True.

    :param ordinal: of the step.
    :param begin: records the begin of the step for the next save.
    """
    if phase.activity.held is None or task.node.run_uuid is None:
        begin()
        task.save()
        return False
    while True:  # once more for each request of a client that comes in between
        stop = Stop.read(task.node.run_stop, task.node.run_uuid)
        if stop is None or not stop.due(ordinal):
            if _saved(task, begin):
                return False
        elif stop.progress is Progress.TAKEN or _take(task, stop):
            _carry_out(task, phase, stop)
            return True


def abort_waiting(task: Task) -> bool:
    """Take the abort that was asked for a waiting run; return False if none is due.

    The caller has checked that the step under way may be interrupted.
    """
    stop = Stop.read(task.node.run_stop, task.node.run_uuid)
    if stop is None or stop.how is not How.ABORT or stop.after is not None:
        return False
    return stop.progress is Progress.ASKED and _take(task, stop)


def _saved(task: Task, change: Callable[[], None]) -> bool:
    """Save a change unless the stop has changed; return whether it was saved."""
    known, node, history = task.node.run_stop, task.node.snapshot(), task.journal.snapshot()
    change()
    try:
        task.save_unless_stopped(known)
    except StopChanged as now:
        task.node.restore(node, run_stop=now.text)
        task.journal.restore(history)
        return False
    return True


def _take(task: Task, stop: Stop) -> bool:
    """Record that a stop takes effect; return False if a client was faster."""

    def change() -> None:
        task.notes.pause()
        task.node.run_stop = stop._replace(progress=Progress.TAKEN).text

    return _saved(task, change)


def _carry_out(task: Task, phase: Phase, stop: Stop) -> None:
    LOG.info(
        "Node %s: the run is stopped by request (%s)",
        task.node.uuid,
        stop.how,
        extra=run_lines.OMITTED,
    )
    if stop.how is How.HOLD:
        task.node.run_stop = stop._replace(progress=Progress.DONE).text
        task.move("hold")
        return
    current = phase.current(task)
    if current:
        phase.show(task, {**current, "abort_after": True})
    phase.call_off(task)
    phase.finish_abort(task)
