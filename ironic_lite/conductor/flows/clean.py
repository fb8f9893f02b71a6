"""Cleaning, automated and manual: prepare, list, run, clean up.

Requirements S1 and S2. The verbs clean, provide and cleaned, and ``flows/delete`` start it.
``stepper.run`` runs the steps and returns here at the end. Any error ends in ``give_up``.
"""

from __future__ import annotations

import functools

from ironic_lite import errors
from ironic_lite.conductor.engine import evidence, firmware_cache, lists, stepper
from ironic_lite.conductor.engine.phases import Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, error_text, planning, retry, verify
from ironic_lite.conductor.flows.planning import Findings, Listed
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import activities, step_lists, steps
from ironic_lite.domain.erasure_records import DataState
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import WAIT, Step, StepKind
from ironic_lite.domain.verbs import Verb
from ironic_lite.records import StoredStep

FAULT = "clean failure"


def enabled(task: Task) -> bool:
    """Return whether automated cleaning applies to this node.

    The node's own setting takes precedence.
    """
    own = task.node.automated_clean
    return bool(task.runtime.conf.conductor.automated_clean_enable if own is None else own)


def request(task: Task, book: lists.Runbook | None = None) -> None:
    """Store an automated clean, with the steps of a runbook if there is one."""
    PHASE.show(task, {})
    if book is None:
        task.notes.request_steps(StepKind.CLEAN)
    else:
        task.notes.request_steps(
            StepKind.CLEAN, book.steps, ramdisk=book.ramdisk, runbook=book.uuid
        )


def start(task: Task, verb: Verb, body: JsonView) -> None:
    """Start a manual clean, or the automated one that makes a node available.

    Requirement S1.34.
    """
    if verb.event == "clean":
        admission.start_listed(task, PHASE, verb, body, goal=State.MANAGEABLE)
        return
    book = None
    if enabled(task):
        book = lists.automated_runbook(task)
        boots = book is None or book.ramdisk
        admission.raise_first(admission.of_drivers(task, PHASE, ramdisk=boots))
    admission.keep_limit(task, PHASE)
    request(task, book)
    task.move(verb.event, verb=verb.target, goal=State.AVAILABLE)
    task.hand_over(prepare)


def plan(task: Task, verb: Verb, body: JsonView, found: Findings) -> Listed | None:
    """Plan a manual clean, or an automated one: drivers' steps or a runbook."""
    if verb.event == "clean":
        return planning.plan_listed(task, PHASE, body, found)
    planning.check_limit(task, PHASE, found)
    if not enabled(task):
        return None
    unusable = lists.Runbook("", [], ramdisk=True)
    book = found.attempt(lambda: lists.automated_runbook(task), unusable)
    boots = book is None or book.ramdisk
    found.extend(admission.of_drivers(task, PHASE, ramdisk=boots))
    if book is not None:
        origins = [planning.Origin("runbook", book.uuid)] * len(book.steps)
        return planning.check_list(task, PHASE, book.steps, origins, found, boots=boots)
    expected = planning.expected_steps(task, StepKind.CLEAN, found, ramdisk=boots)
    chosen = chosen_steps(task, expected.steps)
    return planning.list_chosen(task, PHASE, chosen, expected, boots=boots, fixed=False)


def prepare(task: Task) -> None:
    """Prepare a clean; the agent's steps are only known once its ramdisk runs.

    A manual clean has its list in the notes, stored when the verb was accepted. A disabled
    automated clean is skipped (S2.1).
    """
    if not task.notes.manual(StepKind.CLEAN):
        if not enabled(task) and not task.notes.retries:
            _require_clean_data(task)
            _forget_steps(task)
            _leave_cleaning(task)
            return
        if stepper.maintenance_forbids(task):
            raise errors.NodeInMaintenance(verb="clean", node=task.node.uuid)
        chosen = task.notes.requested_steps(StepKind.CLEAN) is not None or task.notes.retries
        if not chosen:  # after an instance
            request(task, lists.automated_runbook(task))
    task.driver.power.validate(task)
    verify.confirm_machine(task)
    if task.notes.boots_ramdisk(StepKind.CLEAN):
        task.driver.network.validate(task)
        task.driver.deploy.check_ramdisk(task)
        if task.driver.deploy.prepare_cleaning(task) is WAIT:
            task.move("wait", last=True)  # the first heartbeat calls begin()
            return
    begin(task)


def begin(task: Task) -> None:
    """Make the whole list; no step runs unless the whole list is valid.

    Requirement S1.16.
    """
    if task.notes.boots_ramdisk(StepKind.CLEAN):
        lists.record_agent_steps(task, StepKind.CLEAN)
    if task.notes.retries:
        retry.begin(task, PHASE, functools.partial(_complete_list, task))
    else:
        stepper.start(task, PHASE, _planned_steps(task))


def _complete_list(task: Task, wanted: list[StoredStep], skip: retry.Skip = ()) -> list[StoredStep]:
    overrides = task.runtime.clean_priorities
    ramdisk = task.notes.boots_ramdisk(StepKind.CLEAN)
    return lists.complete_request(
        task, StepKind.CLEAN, wanted, overrides=overrides, ramdisk=ramdisk, skip=skip
    )


def _planned_steps(task: Task) -> list[StoredStep]:
    given = task.notes.requested_steps(StepKind.CLEAN)
    if given is not None:
        return _complete_list(task, given)
    chosen = chosen_steps(task, lists.offered_steps(task, StepKind.CLEAN))
    return step_lists.as_stored(chosen, StepKind.CLEAN)


def chosen_steps(task: Task, offered: list[Step]) -> list[Step]:
    """Return the steps of an automated clean without a runbook, in their order."""
    return step_lists.automated(
        offered,
        StepKind.CLEAN,
        overrides=task.runtime.clean_priorities,
        disallowed=task.runtime.conf.api.disallow_clean_steps,
    )


def finish(task: Task) -> None:
    """Clean up after the last step and move to the state this clean leads to.

    Requirements S1.13 and S4.5.
    """
    firmware_cache.note_boot(task)
    _require_clean_data(task)
    if task.notes.boots_ramdisk(StepKind.CLEAN):
        task.driver.deploy.tear_down_cleaning(task)
    _forget_steps(task)
    if not task.driver.deploy.minds_agent:
        task.notes.forget_agent()
    _leave_cleaning(task)


def _require_clean_data(task: Task) -> None:
    """Refuse to make a node available whose data are not proven to be gone.

    :raises errors.DataNotProven: the configuration requires the proof.
    """
    required = task.runtime.conf.conductor.require_clean_data
    automated = task.goal is not State.MANAGEABLE
    state = task.node.data_state or DataState.UNKNOWN
    if required and automated and state != DataState.CLEAN:
        raise errors.DataNotProven(node=task.node.uuid, state=str(state))


def _forget_steps(task: Task) -> None:
    task.node.clean_step = None
    task.notes.settle_steps(StepKind.CLEAN, forget_list=True)


def _leave_cleaning(task: Task) -> None:
    manual = task.goal is State.MANAGEABLE
    task.move("manage" if manual or task.node.retired else "done", last=True)


def give_up(task: Task, why: errors.Error) -> None:
    """Fail: set last_error, maintenance and fault.

    Requirements S1.4, S2.19 and C10. The machine stays on, unless the configuration asks for
    power-off (S2.20).
    """
    task.failing = True
    evidence.cut_short(task, why)
    error = _clean_up(task, error_text.cannot("clean", task, why))
    wanted = task.runtime.conf.conductor.poweroff_in_cleanfail
    error = error_text.switch_off(task, error, wanted=wanted)
    error_text.put_into_maintenance(task, FAULT, error)
    task.node.clean_step = {}
    task.notes.settle_steps(StepKind.CLEAN, forget_list=False)
    task.notes.forget_agent()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort on request: clean failed without maintenance.

    Requirements S5.16 and C10.
    """
    current = task.node.clean_step or {}
    step, where = None, ""
    if current:
        step, when = steps.title(current), "after" if current.get("abort_after") else "during"
        where = f' {when} the step "{step}"'
    why = errors.Aborted(action="clean", where=where, step=step)
    evidence.cut_short(task, why)
    task.node.clean_step = {}
    task.notes.settle_steps(StepKind.CLEAN, forget_list=True, tidied=False)
    task.notes.forget_agent()
    task.move("abort", error=why, aborted=True)


def tidy(task: Task) -> None:
    """Clean up after the state has been set."""
    error = _clean_up(task, errors.Aborted(task.node.last_error, action="clean", where=""))
    task.node.last_error = error.message
    task.notes.settle_ramdisk(StepKind.CLEAN)
    task.save()


def _clean_up(task: Task, why: errors.Error) -> errors.Error:
    if not task.notes.boots_ramdisk(StepKind.CLEAN):
        return why
    tear_down = task.driver.deploy.tear_down_cleaning
    return error_text.clean_up_after(task, why, "tearing down cleaning", tear_down)


PHASE = Phase(
    activity=activities.CLEAN,
    failure=errors.CleanStepFailed,
    start=start,
    plan=plan,
    prepare=prepare,
    begin=begin,
    finish=finish,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
    restarts=lambda task: task.notes.requested_steps(StepKind.CLEAN) is None,
)
