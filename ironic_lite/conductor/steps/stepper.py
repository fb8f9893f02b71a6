"""The engine that runs the steps of all phases.

Intent before effect: the step is saved as running before its driver is called, so a crash costs at
most this step (S2.13, S2.24). Only the engine moves the node; a step returns DONE, WAIT or raises.
"""

from __future__ import annotations

import functools
import logging

from ironic_lite import errors
from ironic_lite.conductor.steps import (
    agent_steps,
    children,
    evidence,
    firmware_cache,
    list_inputs,
    maintenance,
    poll_timeout,
    step_execution,
    stops,
)
from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, run_lines
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import runs
from ironic_lite.domain import causes, states, step_planning, steps
from ironic_lite.domain.recovery import MOST_ATTEMPTS, CrashPoint
from ironic_lite.domain.steps import WAIT, StepKind
from ironic_lite.records import RunStep, StoredStep

LOG = logging.getLogger(__name__)

_ENGINE_ERRORS = (errors.LockLost, errors.Stopping)
MOST_CHANGES = 3  # of the agent in one run; more changes are a fault


def start(task: Task, phase: Phase, listed: list[StoredStep], *, complete: bool = True) -> None:
    """Record a list of steps in the run, and run it from its first step.

    :param complete: False if an agent may still add steps.
    """
    task.notes.enlist(phase.kind, listed)
    task.notes.note_list(list_inputs.digest(task.node, phase.kind), complete=complete)
    _plan_steps(task, phase, listed)
    task.run_record.begin_flow(phase.activity, listed)
    run(task, phase)


def restart(task: Task, phase: Phase, listed: list[StoredStep]) -> None:
    """Run the steps of a list that a retry left; the run's record has the list already."""
    task.notes.enlist(phase.kind, listed)
    task.notes.note_list(list_inputs.digest(task.node, phase.kind), complete=True)
    task.run_record.begin_flow(phase.activity, listed)
    run(task, phase)


def replace(task: Task, phase: Phase, done: int, listed: list[StoredStep]) -> None:
    """Replace the steps after the step with index ``done``, and continue.

    The new steps take the ordinals of the old ones in the run's record. The record shows one list:
    the steps done and the steps that remain.
    """
    known = task.notes.listed(phase.kind)
    task.notes.note_list(task.notes.list_inputs, complete=True)
    if known[done + 1 :] == listed:
        task.run_record.take_list(phase.activity, known)
        return
    _unplan_steps(task, phase, done + 1)
    whole = [*known[: done + 1], *listed]
    task.notes.relist(phase.kind, whole)
    _plan_steps(task, phase, listed, done + 1)
    task.run_record.take_list(phase.activity, whole)


def run(task: Task, phase: Phase, *, first: int = 0, attempt: int | None = None) -> None:
    """Run steps from index ``first`` until one must wait or all are done.

    :param attempt: number of this attempt at the first step; None for the run's first attempt.
    """
    listed = task.notes.listed(phase.kind)
    for index in range(first, len(listed)):
        if task.notes.skipped(index):
            continue
        again = attempt if index == first else None
        number = again or task.notes.first_attempt(index)
        begin = functools.partial(_begin_step, task, phase, index, attempt=number)
        if again is not None:  # the step under way once more, no next step
            begin()
            task.save()
        elif stops.stopped(task, phase, _step_ordinal(task, index), begin):
            return
        try:
            event = _perform_step(task, phase, listed[index])
        except _ENGINE_ERRORS:
            raise
        except errors.AgentChanged as why:
            _agent_changed(task, phase, index, why)
            return
        except Exception as why:  # a driver may raise anything; the step fails
            _fail_phase(task, phase, index, why)
            return
        if event is not None:
            _note_step(task, phase, index, state="waiting")
            task.move(event, last=True)
            return
        _record_end(task, phase, index)
    phase.finish(task)


def resume(
    task: Task, phase: Phase, *, poll: bool, changed: errors.AgentChanged | None = None
) -> None:
    """Continue a node in its wait state.

    :param poll: a timer was due: ask the step's driver whether it has ended. False: an agent or an
        unhold reports the end.
    :param changed: the step has not ended, because another agent than before refused it.
    """
    index = task.notes.index(phase.kind)
    if index is None or task.notes.paused:
        _resume_between_steps(task, phase)
        return
    step = task.notes.listed(phase.kind)[index]
    if poll and step["step"] not in step_planning.RESERVED:
        try:
            if not _poll_step(task, phase, index, step):
                return
        except errors.AgentChanged as why:
            changed = why
    if changed is None:
        # The step's end is saved with the next move, so no crash can separate the two.
        _record_end(task, phase, index)
    if phase.current(task).get("abort_after"):
        phase.call_off(task)
        phase.finish_abort(task)
        return
    if maintenance.forbids(task):
        phase.give_up(task, maintenance.ended(str(phase.kind), steps.title(step)))
        return
    task.move("resume")
    if changed is not None:
        _agent_changed(task, phase, index, changed)
        return
    run_next(task, phase)


def _resume_between_steps(task: Task, phase: Phase) -> None:
    """Make the list and run it; after a stop continue with the step that has not begun."""
    task.move("resume")
    if task.notes.paused:
        run_next(task, phase)
    else:
        phase.begin(task)


def must_end(task: Task, phase: Phase) -> bool:
    """Return whether the waiting step must not be interrupted."""
    free = task.notes.paused or step_planning.interruptible(phase.current(task))
    return not free and states.kind(task.state) is states.Kind.WAIT


def moment(task: Task, phase: Phase) -> CrashPoint:
    """Return the crash point: how far a lost conductor had come with the list."""
    if task.notes.paused:
        return CrashPoint.AFTER
    index = task.notes.index(phase.kind)
    if index is None:
        return CrashPoint.BEFORE
    known = _recorded_step(task, phase, index)
    done = known is not None and known["state"] == "done"
    return CrashPoint.AFTER if done else CrashPoint.DURING


def run_next(task: Task, phase: Phase) -> None:
    """Run the steps after the current one, which has ended; after a pause perhaps the first."""
    index = task.notes.index(phase.kind)
    if index is None:
        run(task, phase)
        return
    phase.hear(task, index)
    run(task, phase, first=index + 1)


def rerun_step(task: Task, phase: Phase, *, harmless: bool) -> None:
    """Run the current step again after a crash during it.

    A step that must not run twice, or was begun too often, fails the phase.

    :param harmless: True: every step of this kind may run twice; False: only marked steps may.
    """
    index = task.notes.index(phase.kind)
    assert index is not None
    step = task.notes.listed(phase.kind)[index]
    attempt = _last_attempt(task, phase, index)
    if not (harmless or rerunnable(task, phase.kind, step)):
        why = (
            f"the conductor was lost during the step, and {steps.title(step)} must not be run twice"
        )
        _fail_phase(task, phase, index, errors.StepInterrupted(reason=why))
    elif (lost := attempt - task.notes.first_attempt(index) + 1) >= MOST_ATTEMPTS:
        why = (
            f"{lost} times a conductor was lost during this step. If no operator stopped them, "
            "look into their logs for the effect of this step."
        )
        _fail_phase(task, phase, index, errors.StepInterrupted(reason=why))
    else:
        LOG.info("Node %s: %s runs again", task.node.uuid, steps.title(step))
        run(task, phase, first=index, attempt=attempt + 1)


# -- another agent ---------------------------------------------------------------------------


def _agent_changed(task: Task, phase: Phase, index: int, why: errors.AgentChanged) -> None:
    """Ask a changed agent for its steps; run the new list, or the step once more.

    An agent that keeps changing ends as a failure (S2.29).
    """
    if task.notes.agent_changes >= MOST_CHANGES:
        reason = f"{why.message}, for the {MOST_CHANGES + 1}th time in this run"
        _fail_phase(task, phase, index, errors.HardwareError(reason=reason))
        return
    restarts = phase.restarts(task) and not task.notes.retries  # a retry keeps its list
    step = task.notes.listed(phase.kind)[index]
    data = {**_step_facts(task, index, step), "error": why.message}
    text = "Node %s: another agent refused %s"
    LOG.info(text, task.node.uuid, steps.title(step), extra=run_lines.OMITTED)
    task.journal.event("agent_changed", run=task.node.run_uuid, event=phase.kind, data=data)
    if restarts:
        _start_over(task, phase, index, why)
        return
    attempt = _last_attempt(task, phase, index) + 1
    task.notes.count_change()
    agent_steps.record_agent_steps(task, phase.kind)
    run(task, phase, first=index, attempt=attempt)


def _start_over(task: Task, phase: Phase, index: int, why: errors.AgentChanged) -> None:
    """Make a new list; steps done of the old one stay before it in the run's record."""
    about = causes.record(why, task.journal.hide)
    _note_step(task, phase, index, state="aborted", ended_at=clock.now(), error=about)
    _unplan_steps(task, phase, index + 1)
    task.notes.place(_step_ordinal(task, index + 1))
    task.notes.count_change()
    phase.begin(task)


def _unplan_steps(task: Task, phase: Phase, index: int) -> None:
    """Record, for the next save, that the steps from ``index`` on will not run."""
    if task.node.run_uuid is not None:
        first = _step_ordinal(task, index)
        task.journal.unplan(task.node.run_uuid, phase.kind, first=first)


# -- one step --------------------------------------------------------------------------------


def _begin_step(task: Task, phase: Phase, index: int, *, attempt: int) -> None:
    """Record, for the next save, that a step runs."""
    step = task.notes.listed(phase.kind)[index]
    task.notes.advance(phase.kind, index)
    task.notes.forget_pause()
    task.node.wake_at = None  # a timer of an earlier step must not end this one
    phase.show(task, step)
    evidence.begins(task, phase.kind)
    started = {"state": "running", "attempt": attempt, "started_at": clock.now()}
    _note_step(task, phase, index, **started)
    task.journal.event(
        "step_started",
        run=task.node.run_uuid,
        event=phase.kind,
        data=_step_facts(task, index, step),
    )


def _recorded_step(task: Task, phase: Phase, index: int) -> RunStep | None:
    """Return the run's record of a step; None if there is no record."""
    run_uuid = task.node.run_uuid
    if run_uuid is None:
        return None
    place = (phase.kind, _step_ordinal(task, index))
    rows = task.runtime.database.read(lambda conn: runs.steps(conn, run_uuid))
    return next((one for one in rows if (one["kind"], one["ordinal"]) == place), None)


def _last_attempt(task: Task, phase: Phase, index: int) -> int:
    """Return the number of the last attempt at a step."""
    known = _recorded_step(task, phase, index)
    return 1 if known is None else known["attempt"]


def _perform_step(task: Task, phase: Phase, step: StoredStep) -> str | None:
    """Run one step; return the event it leads to (wait, hold), None when it is done."""
    if step_planning.for_children(step):
        children.execute(task, phase, step)
        return None
    return step_execution.perform(task, phase, step)


def _poll_step(task: Task, phase: Phase, index: int, step: StoredStep) -> bool:
    """Ask the driver whether a waiting step has ended; handle failures and new waits."""
    task.node.wake_at = None
    interface = task.driver.interface(step["interface"])
    try:
        outcome = interface.poll_step(task, phase.kind, step)
        if outcome is WAIT:
            poll_timeout.note_still_running(task)
    except (*_ENGINE_ERRORS, errors.AgentChanged):
        raise
    except Exception as why:  # as in run: the step fails
        _fail_phase(task, phase, index, why)
        return False
    if outcome is WAIT:
        evidence.reported_early(task, phase.kind, step, _step_ordinal(task, index))
        task.save_on_release = True
        return False
    return True


def _record_end(task: Task, phase: Phase, index: int) -> None:
    """Record, for the next save, a step's end and its changes of firmware."""
    _note_step(task, phase, index, state="done", ended_at=clock.now())
    step = task.notes.listed(phase.kind)[index]
    if not step_planning.for_children(step):
        firmware_cache.after(task, step)
        evidence.ended(task, phase.kind, step, _step_ordinal(task, index))
    task.journal.event(
        "step_ended", run=task.node.run_uuid, event=phase.kind, data=_step_facts(task, index, step)
    )


def _fail_phase(task: Task, phase: Phase, index: int, why: Exception) -> None:
    step = task.notes.listed(phase.kind)[index]
    failure = _step_failure(phase, step, why)
    about = causes.record(failure, task.journal.hide)
    _note_step(task, phase, index, state="failed", ended_at=clock.now(), error=about)
    if not step_planning.for_children(step):
        evidence.ended(task, phase.kind, step, _step_ordinal(task, index), failure)
    data = {**_step_facts(task, index, step), "error": failure.message}
    task.journal.event("step_ended", run=task.node.run_uuid, event=phase.kind, data=data)
    LOG.warning(
        "Node %s: %s",
        task.node.uuid,
        failure.message,
        exc_info=None if isinstance(why, errors.Error) else why,
        extra=run_lines.OMITTED,
    )
    phase.give_up(task, failure)


def _step_failure(phase: Phase, step: StoredStep, why: Exception) -> errors.StepFailed:
    cause = causes.failure(why)
    text = cause.facts.get("reason") if isinstance(cause, errors.StepFailed) else None
    text = text or cause.message
    sentence = f"{str(phase.kind).capitalize()} step {steps.title(step)} failed: {text}"
    return phase.failure(sentence, step=steps.title(step), reason=text).because(cause)


def rerunnable(task: Task, kind: StepKind, step: StoredStep) -> bool:
    ask = children.rerunnable if step_planning.for_children(step) else step_execution.rerunnable
    return ask(task, kind, step)


def _note_step(task: Task, phase: Phase, index: int, **changes: object) -> None:
    if task.node.run_uuid is not None:
        task.journal.step(task.node.run_uuid, phase.kind, _step_ordinal(task, index), **changes)


def _plan_steps(task: Task, phase: Phase, listed: list[StoredStep], index: int = 0) -> None:
    """Record, for the next save, the steps from ``index`` on."""
    if task.node.run_uuid is not None:
        first = _step_ordinal(task, index)
        task.journal.plan(task.node.run_uuid, phase.kind, listed, first=first)


def _step_ordinal(task: Task, index: int) -> int:
    """Return the ordinal, in the run's record, of a step of the current list."""
    return task.notes.first_ordinal + index


def _step_facts(task: Task, index: int, step: StoredStep) -> Json:
    return {"step": steps.title(step), "ordinal": _step_ordinal(task, index)}
