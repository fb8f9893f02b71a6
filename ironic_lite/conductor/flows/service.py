"""Service steps on an active node: like a manual clean, but the instance stays."""

from __future__ import annotations

import functools

from ironic_lite import errors
from ironic_lite.conductor.engine import firmware_cache, lists, stepper
from ironic_lite.conductor.engine.phases import Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, error_text, planning, retry
from ironic_lite.conductor.flows.planning import Findings, Listed
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import activities, steps
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import WAIT, StepKind
from ironic_lite.domain.verbs import Verb
from ironic_lite.records import StoredStep

FAULT = "service failure"


def start(task: Task, verb: Verb, body: JsonView) -> None:
    """Start the steps of a request on an active node."""
    admission.start_listed(task, PHASE, verb, body)


def plan(task: Task, _verb: Verb, body: JsonView, found: Findings) -> Listed | None:
    """Plan the steps of a request."""
    return planning.plan_listed(task, PHASE, body, found)


def prepare(task: Task) -> None:
    """Prepare, then run the stored steps in order."""
    task.driver.power.validate(task)
    if task.notes.boots_ramdisk(StepKind.SERVICE):
        task.driver.network.validate(task)
        task.driver.deploy.check_ramdisk(task)
        if task.driver.deploy.prepare_service(task) is WAIT:
            task.move("wait", last=True)
            return
    begin(task)


def begin(task: Task) -> None:
    """Check the whole list, then run it."""
    if task.notes.boots_ramdisk(StepKind.SERVICE):
        lists.record_agent_steps(task, StepKind.SERVICE)
    if task.notes.retries:
        retry.begin(task, PHASE, functools.partial(_complete_list, task))
    else:
        stepper.start(task, PHASE, _complete_list(task, task.notes.listed(StepKind.SERVICE)))


def _complete_list(task: Task, wanted: list[StoredStep], skip: retry.Skip = ()) -> list[StoredStep]:
    ramdisk = task.notes.boots_ramdisk(StepKind.SERVICE)
    return lists.complete_request(task, StepKind.SERVICE, wanted, ramdisk=ramdisk, skip=skip)


def finish(task: Task) -> None:
    """Move back to active after the last step."""
    if task.notes.boots_ramdisk(StepKind.SERVICE):
        task.driver.deploy.tear_down_service(task)
    firmware_cache.note_boot(task)
    task.node.service_step = None
    task.notes.settle_steps(StepKind.SERVICE, forget_list=True)
    task.notes.forget_agent()
    task.move("done", last=True)


def give_up(task: Task, why: errors.Error) -> None:
    """Fail with maintenance and fault, as in cleaning."""
    task.failing = True
    error = _clean_up(task, error_text.cannot("service", task, why))
    wanted = task.runtime.conf.conductor.poweroff_in_servicefail
    error = error_text.switch_off(task, error, wanted=wanted)
    error_text.put_into_maintenance(task, FAULT, error)
    task.node.service_step = {}
    # An abort has to know whether the machine is to be restarted from its ramdisk.
    task.notes.settle_steps(StepKind.SERVICE, forget_list=False, tidied=False)
    task.notes.forget_agent()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort on request: service failed during clean-up."""
    if task.state is State.SERVICEFAIL:
        task.run_record.open("abort", task.state, task.state)  # `tidy` ends it
        task.node.last_error = errors.Aborted(action="service", where="").message
        task.notes.untidied = True
        task.save()
        return
    current, task.node.service_step = task.node.service_step, None
    task.notes.settle_steps(StepKind.SERVICE, forget_list=True, tidied=False)
    task.notes.forget_agent()
    step = steps.title(current) if current else None
    task.move("abort", error=errors.Aborted(action="service", where="", step=step), aborted=True)


def tidy(task: Task) -> None:
    """Boot the instance again and move back to active, because an abort is no fault."""
    request = errors.Aborted(task.node.last_error, action="service", where="")
    error = _clean_up(task, request)
    task.notes.settle_steps(StepKind.SERVICE, forget_list=True)
    task.move("abort", error=None if error is request else error)


def _clean_up(task: Task, why: errors.Error) -> errors.Error:
    if not task.notes.boots_ramdisk(StepKind.SERVICE):
        return why
    tear_down = task.driver.deploy.tear_down_service
    return error_text.clean_up_after(task, why, "tearing down service", tear_down)


PHASE = Phase(
    activity=activities.SERVICE,
    start=start,
    plan=plan,
    prepare=prepare,
    begin=begin,
    finish=finish,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
)
