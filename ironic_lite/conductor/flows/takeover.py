"""Taking over a node whose conductor is gone, by the table ``recovery``.

From ``watch/orphans``, which finds the node and has its lock; on to ``stepper``, or to the flow of
the verb that was under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ironic_lite import errors, recovery
from ironic_lite.conductor import stepper
from ironic_lite.conductor.flows import (
    aborts,
    adopt,
    clean,
    delete,
    deploy,
    failure,
    inspect,
    orders,
    power,
    rescue,
    service,
    verify,
)
from ironic_lite.conductor.flows.resume import halted
from ironic_lite.conductor.phases import Phase
from ironic_lite.conductor.task import Task
from ironic_lite.recovery import Act, Moment
from ironic_lite.states import State
from ironic_lite.steps import StepKind

PHASES: Mapping[State, Phase] = MappingProxyType(
    {
        State.VERIFYING: verify.PHASE,
        State.CLEANING: clean.PHASE,
        State.DEPLOYING: deploy.PHASE,
        State.SERVICING: service.PHASE,
    }
)
"""States in which steps are run."""

_WHOLE: Mapping[State, Callable[[Task], None]] = MappingProxyType(
    {
        State.INSPECTING: inspect.start,
        State.DELETING: delete.start,
        State.ADOPTING: adopt.start,
        State.RESCUING: rescue.start,
        State.UNRESCUING: rescue.start_unrescue,
    }
)
"""States whose work has no steps."""


def found(task: Task) -> Act:
    """Return what is to be done with a node that its conductor has left."""
    act = recovery.TABLE[task.state].at(_moment(task))
    # Something else than an abort may have been under way in a state that aborts lead to.
    return Act.TELL if act is Act.TIDY and not task.notes.untidied else act


def _moment(task: Task) -> Moment:
    phase, notes = PHASES.get(task.state), task.notes
    if phase is not None:
        return stepper.moment(task, phase)
    ordered = notes.untidied or notes.order is not None or task.node.target_power_state
    return Moment.DURING if ordered else Moment.BEFORE


# -- at once, under the lock -----------------------------------------------------------------


def end_orders(task: Task, dead: str) -> None:
    """End a power change or another order; whether the BMC had it by then is not known.

    :param dead: the host that left the node.
    """
    if task.node.target_power_state is not None:
        power.failed(
            task,
            f"The power change was cut short: the conductor {dead} went away. "
            "Look at power_state and repeat the request.",
        )
    if task.notes.order is not None:
        why = f"the conductor {dead} went away. Look at the machine and repeat the request."
        orders.failed(task, why)
    task.save()


# -- by a worker -----------------------------------------------------------------------------


def go_on(task: Task, act: Act, dead: str) -> None:
    """Do what the table says.

    :param act: one of ``recovery.WORK``.
    :param dead: the host that left the node.
    """
    data, run = {"from": dead}, task.node.run_uuid
    task.journal.event("taken_over", run=run, before=str(task.state), data=data)
    if halted(task):
        return
    if run is not None:
        task.journal.run(run, conductor=task.desk.host)
    _ACTS[act](task, dead)


def _tidy(task: Task, _dead: str) -> None:
    aborts.tidy(task)


def _begin(task: Task, dead: str) -> None:
    """Begin the work of this state again: counted before, for it may be what ends conductors."""
    if _in_one_piece(task):
        failure.give_up(task, _interrupted(task, dead))
        return
    times = task.notes.begin_again(f"{task.node.run_uuid}/{task.state}")
    if times > recovery.MOST_ATTEMPTS:
        text = (
            f"{recovery.MOST_ATTEMPTS} times a conductor, last {dead}, went away while {task.state}"
            " this node. If nobody stopped them, look into their logs for what this does to them, "
            "before you repeat the request."
        )
        failure.give_up(task, _interrupted(task, dead, text))
        return
    task.save()
    phase = PHASES.get(task.state)
    begin = _WHOLE[task.state] if phase is None else phase.prepare
    begin(task)


def _repeat(task: Task, _dead: str) -> None:
    stepper.repeat(task, PHASES[task.state], harmless=True)


def _repeat_if_harmless(task: Task, _dead: str) -> None:
    stepper.repeat(task, PHASES[task.state], harmless=False)


def _next(task: Task, _dead: str) -> None:
    stepper.go_on(task, PHASES[task.state])


def _in_one_piece(task: Task) -> bool:
    """Tell whether this is a deployment of the old way (S3.19), which nobody may run twice."""
    without_list = not task.notes.listed(StepKind.DEPLOY)
    return task.state is State.DEPLOYING and without_list and deploy.is_old(task)


def _interrupted(task: Task, dead: str, text: str | None = None) -> errors.Interrupted:
    facts = {"host": dead, "action": str(task.state), "by": task.desk.host}
    return errors.Interrupted(text, **facts)


_ACTS: Mapping[Act, Callable[[Task, str], None]] = MappingProxyType(
    {
        Act.TIDY: _tidy,
        Act.BEGIN: _begin,
        Act.REPEAT: _repeat,
        Act.REPEAT_IF_HARMLESS: _repeat_if_harmless,
        Act.GO_ON: _next,
    }
)
