"""The engine that runs the steps of all phases.

Intent before effect: the step is saved as running before its driver is called, so a crash costs at
most this step (S2.13, S2.24). Only the engine moves the node; a step returns DONE, WAIT or raises.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.conductor.engine import evidence, execution, firmware_cache, lists
from ironic_lite.conductor.engine.phases import Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import clock, log_lines
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import runs
from ironic_lite.db.queries.runs import StopChanged
from ironic_lite.domain import failures, fields, retries, states, step_lists, steps
from ironic_lite.domain.recovery import MOST_ATTEMPTS, CrashPoint
from ironic_lite.domain.run_stops import How, Stop, StopProgress
from ironic_lite.domain.steps import WAIT, StepKind
from ironic_lite.records import Node, RunStep, StoredStep

LOG = logging.getLogger(__name__)

_ENGINE_ERRORS = (errors.LockLost, errors.Stopping)
MOST_CHANGES = 3  # of the agent in one run; more changes are a fault


def start(task: Task, phase: Phase, listed: list[StoredStep], *, complete: bool = True) -> None:
    """Record a list of steps in the run, and run it from its first step.

    :param complete: False if an agent may still add steps.
    """
    task.notes.enlist(phase.kind, listed)
    task.notes.note_list(inputs_digest(task.node, phase.kind), complete=complete)
    _plan_steps(task, phase, listed)
    task.run_record.begin_flow(phase.activity, listed)
    run(task, phase)


def restart(task: Task, phase: Phase, listed: list[StoredStep]) -> None:
    """Run the steps of a list that a retry left; the run's record has the list already."""
    task.notes.enlist(phase.kind, listed)
    task.notes.note_list(inputs_digest(task.node, phase.kind), complete=True)
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
        elif _stop_or_begin(task, phase, _step_ordinal(task, index), begin):
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
    if poll and step["step"] not in step_lists.RESERVED:
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
    if maintenance_forbids(task):
        phase.give_up(task, ended_by_maintenance(str(phase.kind), steps.title(step)))
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
    free = task.notes.paused or step_lists.interruptible(phase.current(task))
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
    LOG.info(text, task.node.uuid, steps.title(step), extra=log_lines.OMITTED)
    task.journal.event("agent_changed", run=task.node.run_uuid, event=phase.kind, data=data)
    if restarts:
        _start_over(task, phase, index, why)
        return
    attempt = _last_attempt(task, phase, index) + 1
    task.notes.count_change()
    lists.record_agent_steps(task, phase.kind)
    run(task, phase, first=index, attempt=attempt)


def _start_over(task: Task, phase: Phase, index: int, why: errors.AgentChanged) -> None:
    """Make a new list; steps done of the old one stay before it in the run's record."""
    about = failures.record(why, task.journal.hide)
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
    if step_lists.for_children(step):
        execution.perform_on_children(task, phase, step)
        return None
    return execution.perform(task, phase, step)


def _poll_step(task: Task, phase: Phase, index: int, step: StoredStep) -> bool:
    """Ask the driver whether a waiting step has ended; handle failures and new waits."""
    task.node.wake_at = None
    interface = task.driver.interface(step["interface"])
    try:
        outcome = interface.poll_step(task, phase.kind, step)
        if outcome is WAIT:
            note_still_running(task)
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
    if not step_lists.for_children(step):
        if phase.kind is not StepKind.VERIFY:  # its end reads all
            firmware_cache.after(task, step)
        evidence.ended(task, phase.kind, step, _step_ordinal(task, index))
    task.journal.event(
        "step_ended", run=task.node.run_uuid, event=phase.kind, data=_step_facts(task, index, step)
    )


def _fail_phase(task: Task, phase: Phase, index: int, why: Exception) -> None:
    step = task.notes.listed(phase.kind)[index]
    failure = _step_failure(phase, step, why)
    about = failures.record(failure, task.journal.hide)
    _note_step(task, phase, index, state="failed", ended_at=clock.now(), error=about)
    if not step_lists.for_children(step):
        evidence.ended(task, phase.kind, step, _step_ordinal(task, index), failure)
    data = {**_step_facts(task, index, step), "error": failure.message}
    task.journal.event("step_ended", run=task.node.run_uuid, event=phase.kind, data=data)
    LOG.warning(
        "Node %s: %s",
        task.node.uuid,
        failure.message,
        exc_info=None if isinstance(why, errors.Error) else why,
        extra=log_lines.OMITTED,
    )
    phase.give_up(task, failure)


def _step_failure(phase: Phase, step: StoredStep, why: Exception) -> errors.StepFailed:
    cause = failures.failure(why)
    text = cause.facts.get("reason") if isinstance(cause, errors.StepFailed) else None
    text = text or cause.message
    sentence = f"{str(phase.kind).capitalize()} step {steps.title(step)} failed: {text}"
    return phase.failure(sentence, step=steps.title(step), reason=text).because(cause)


def rerunnable(task: Task, kind: StepKind, step: StoredStep) -> bool:
    ask = (
        execution.rerunnable_on_children if step_lists.for_children(step) else execution.rerunnable
    )
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


# Stops of runs, as the step loop sees them: before a step begins.
#
# The statement that begins a step has the condition that the stop of the run has not changed. So
# every stop that was accepted before the step began takes effect. A stop that takes effect is first
# recorded as taken, together with the end of the step before it: from there on it cannot be taken
# back, and a conductor that takes the node over carries it out.


def _stop_or_begin(task: Task, phase: Phase, ordinal: int, begin: Callable[[], None]) -> bool:
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
            if _save_unless_stopped(task, begin):
                return False
        elif stop.progress is StopProgress.TAKEN or _take_stop(task, stop):
            _carry_out_stop(task, phase, stop)
            return True


def abort_waiting(task: Task) -> bool:
    """Take the abort that was asked for a waiting run; return False if none is due.

    The caller has checked that the step under way may be interrupted.
    """
    stop = Stop.read(task.node.run_stop, task.node.run_uuid)
    if stop is None or stop.how is not How.ABORT or stop.after is not None:
        return False
    return stop.progress is StopProgress.ASKED and _take_stop(task, stop)


def _save_unless_stopped(task: Task, change: Callable[[], None]) -> bool:
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


def _take_stop(task: Task, stop: Stop) -> bool:
    """Record that a stop takes effect; return False if a client was faster."""

    def change() -> None:
        task.notes.pause()
        task.node.run_stop = stop._replace(progress=StopProgress.TAKEN).text

    return _save_unless_stopped(task, change)


def _carry_out_stop(task: Task, phase: Phase, stop: Stop) -> None:
    LOG.info(
        "Node %s: the run is stopped by request (%s)",
        task.node.uuid,
        stop.how,
        extra=log_lines.OMITTED,
    )
    if stop.how is How.HOLD:
        task.node.run_stop = stop._replace(progress=StopProgress.DONE).text
        task.move("hold")
        return
    current = phase.current(task)
    if current:
        phase.show(task, {**current, "abort_after": True})
    phase.call_off(task)
    phase.finish_abort(task)


# The inputs of a list of steps: what its steps were made from, as a digest.
#
# A retry keeps steps only if the inputs are the same. Otherwise a kept step might have written
# another image, or erased another machine. Passwords are no inputs, because a wrong password is a
# common cause of a failure.

_MACHINE_KEY_ENDS = ("_address", "_system_id")
"""Ends of the keys of ``driver_info`` that name the machine."""


def inputs_digest(node: Node, kind: StepKind) -> str:
    """Return the digest of a node's inputs for a list of this kind."""
    inputs: Json = {
        "driver": node.driver,
        "interfaces": [getattr(node, f"{one}_interface") for one in fields.INTERFACE_KINDS],
        "machine": {
            key: node.driver_info[key]
            for key in node.driver_info
            if key.endswith(_MACHINE_KEY_ENDS)
        },
    }
    if kind is StepKind.DEPLOY:
        inputs["instance_info"] = node.instance_info
    return retries.digest(inputs)


# Limit for waits that only polls keep alive.
#
# A poll that finds the step still running counts as a heartbeat: it restarts the time-out of the
# wait state. A driver could give this answer for ever, so all polls of one wait have a limit, too.


def note_still_running(task: Task) -> None:
    """Record, for the next save, that the driver reports the step as still running.

    :raises errors.HardwareError: it has done so for ``[conductor]poll_timeout`` seconds.
    """
    limit = task.runtime.conf.conductor.poll_timeout
    # A clock that was set forward must not end a wait.
    since = task.notes.polled_since(clock.now())
    if limit and clock.lived(since) >= limit:
        reason = (
            f"it has not ended within {limit} s of being asked about ([conductor]poll_timeout), "
            "though nothing has failed. Look at the machine before you repeat the request"
        )
        option = "[conductor]poll_timeout"
        raise errors.HardwareError(reason=reason, option=option, limit=limit, since=since)
    task.node.provision_updated_at = clock.now()


# Maintenance forbids continuing with a node, unless the operator allows it.
#
# The option is ``[conductor]allow_provisioning_in_maintenance``. ``flows/activities`` asks before
# continuing with a waiting node, ``stepper`` between two steps, ``flows/clean`` before an automated
# clean.

_ENDED_BY_MAINTENANCE = (
    "The {action} operation was aborted{where}: the node is in maintenance, and "
    "[conductor]allow_provisioning_in_maintenance is false."
)


def maintenance_forbids(task: Task) -> bool:
    """Return whether maintenance forbids continuing."""
    allowed: bool = task.runtime.conf.conductor.allow_provisioning_in_maintenance
    return task.node.maintenance and not allowed


def ended_by_maintenance(action: str, step: str | None = None) -> errors.Aborted:
    """Return the error of work ended by maintenance.

    :param action: the work, such as ``clean``.
    :param step: the title of the last step.
    """
    where = f' at the step "{step}"' if step else ""
    text = _ENDED_BY_MAINTENANCE.format(action=action, where=where)
    return errors.Aborted(text, action=action, where=where, step=step)
