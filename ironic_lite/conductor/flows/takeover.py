"""Takeover of a node whose conductor is lost, by the table ``recovery``.

``watch/orphans`` finds the node and takes its lock. ``stepper``, or the flow of the current verb,
continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.conductor.engine import stepper
from ironic_lite.conductor.engine.phases import Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import activities, deploy, operations
from ironic_lite.conductor.flows.activities import end_in_maintenance
from ironic_lite.domain import recovery
from ironic_lite.domain.recovery import CrashPoint, RecoveryAction
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind


def found(task: Task) -> RecoveryAction:
    """Return the recovery action for a node that its conductor has left."""
    act = recovery.TABLE[task.state].at(_crash_point(task))
    # A state that aborts lead to may also belong to other work.
    return (
        RecoveryAction.REPORT
        if act is RecoveryAction.FINISH_ABORT and not task.notes.untidied
        else act
    )


def _crash_point(task: Task) -> CrashPoint:
    phase, notes = activities.running_steps(task.state), task.notes
    if phase is not None:
        return stepper.moment(task, phase)
    ordered = notes.untidied or notes.order is not None or task.node.target_power_state
    return CrashPoint.DURING if ordered else CrashPoint.BEFORE


# -- at once, under the lock -----------------------------------------------------------------


def end_orders(task: Task, dead: str) -> None:
    """End a power change or another operation; it is unknown whether the BMC got it.

    :param dead: the host that left the node.
    """
    if task.node.target_power_state is not None:
        operations.fail_power_change(
            task,
            f"The power change was interrupted: the conductor {dead} was lost. "
            "Check power_state and repeat the request.",
            _interruption(task, dead),
        )
    if task.notes.order is not None:
        why = f"the conductor {dead} was lost. Check the machine and repeat the request."
        operations.fail_operation(task, why, _interruption(task, dead))
    if task.state is State.ENROLL and task.node.run_uuid is not None:
        activities.give_up(task, _interruption(task, dead))
    task.save()


# -- by a worker -----------------------------------------------------------------------------


def recover(task: Task, act: RecoveryAction, dead: str) -> None:
    """Carry out a recovery action.

    :param act: one of ``recovery.WORK``.
    :param dead: the host that left the node.
    """
    data, run = {"from": dead}, task.node.run_uuid
    task.journal.event("taken_over", run=run, before=str(task.state), data=data)
    if end_in_maintenance(task):
        return
    if run is not None:
        task.journal.run(run, conductor=task.runtime.host)
    _ACTS[act](task, dead)


def _clean_up_abort(task: Task, _dead: str) -> None:
    activities.finish_abort(task)


def _begin_again(task: Task, dead: str) -> None:
    """Begin the work of this state again; count attempts, as it may crash conductors."""
    if _in_one_piece(task):
        activities.give_up(task, _interruption(task, dead))
        return
    times = task.notes.begin_again(f"{task.node.run_uuid}/{task.state}")
    if times > recovery.MOST_ATTEMPTS:
        text = (
            f"{recovery.MOST_ATTEMPTS} times a conductor, last {dead}, was lost while {task.state}"
            " this node. If no operator stopped them, look into their logs for the cause "
            "before you repeat the request."
        )
        activities.give_up(task, _interruption(task, dead, text))
        return
    task.save()
    flow = activities.flow_of(task.state)
    assert flow is not None  # only activities have rules with work
    flow.prepare(task)


def _repeat_step(task: Task, _dead: str) -> None:
    stepper.rerun_step(task, _phase_of(task), harmless=True)


def _repeat_if_rerunnable(task: Task, _dead: str) -> None:
    stepper.rerun_step(task, _phase_of(task), harmless=False)


def _run_next_step(task: Task, _dead: str) -> None:
    stepper.run_next(task, _phase_of(task))


def _phase_of(task: Task) -> Phase:
    phase = activities.running_steps(task.state)
    assert phase is not None  # the crash point was found in a list of steps
    return phase


def _in_one_piece(task: Task) -> bool:
    """Return whether this is an old-style deployment, which must not be run twice.

    Requirement S3.19.
    """
    without_list = not task.notes.listed(StepKind.DEPLOY)
    return task.state is State.DEPLOYING and without_list and deploy.is_old(task)


def _interruption(task: Task, dead: str, text: str | None = None) -> errors.Interrupted:
    facts = {"host": dead, "action": str(task.state), "by": task.runtime.host}
    return errors.Interrupted(text, **facts)


_ACTS: Mapping[RecoveryAction, Callable[[Task, str], None]] = {
    RecoveryAction.FINISH_ABORT: _clean_up_abort,
    RecoveryAction.BEGIN: _begin_again,
    RecoveryAction.REPEAT: _repeat_step,
    RecoveryAction.REPEAT_IF_RERUNNABLE: _repeat_if_rerunnable,
    RecoveryAction.RUN_NEXT: _run_next_step,
}
