"""Service steps on an active node: like a manual clean, but the instance stays."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors, steps
from ironic_lite.conductor import agents, stepper
from ironic_lite.conductor.flows import faults, listed
from ironic_lite.conductor.phases import Phase
from ironic_lite.conductor.task import Task
from ironic_lite.states import State
from ironic_lite.steps import WAIT, StepKind

FAULT = "service failure"


def request(task: Task, wanted: list[dict[str, Any]], *, ramdisk: bool) -> None:
    """Note what was asked for, without trace of a service run before."""
    task.notes.request_service(wanted, ramdisk=ramdisk)
    task.node.service_step = {}


def prepare(task: Task) -> None:
    """Get ready, then run the steps the notes list, in their order."""
    task.driver.power.validate(task)
    if task.notes.service_ramdisk:
        task.driver.network.validate(task)
        task.driver.deploy.check_ramdisk(task)
        if task.driver.deploy.prepare_service(task) is WAIT:
            task.move("wait")
            return
    begin(task)


def begin(task: Task) -> None:
    """Check the whole list, then run it."""
    if task.notes.service_ramdisk:
        agents.listen(task, StepKind.SERVICE)
    wanted = task.notes.listed(StepKind.SERVICE)
    whole = listed.complete(task, StepKind.SERVICE, wanted, ramdisk=task.notes.service_ramdisk)
    stepper.start(task, PHASE, whole)


def finish(task: Task) -> None:
    """Every step is done: active again."""
    if task.notes.service_ramdisk:
        task.driver.deploy.tear_down_service(task)
    task.node.service_step = None
    task.notes.settle_steps(StepKind.SERVICE, forget_list=True)
    task.notes.forget_agent()
    task.move("done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail with maintenance and fault, as cleaning does."""
    task.failing = True
    error = _put_away(task, faults.cannot("service", task, why))
    wanted = task.desk.conf.conductor.poweroff_in_servicefail
    error = faults.switch_off(task, error, wanted=wanted)
    faults.set_aside(task, FAULT, error)
    task.node.service_step = {}
    task.notes.settle_steps(StepKind.SERVICE, forget_list=False)
    task.notes.forget_agent()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort by request: service failed for as long as tidying up takes."""
    current, task.node.service_step = task.node.service_step, None
    task.notes.settle_steps(StepKind.SERVICE, forget_list=True, tidied=False)
    task.notes.forget_agent()
    step = steps.title(current) if current else None
    task.move("abort", error=errors.Aborted(action="service", where="", step=step), aborted=True)


def tidy(task: Task) -> None:
    """Remove what servicing set up, and be active again: an abort is not a fault."""
    error = _put_away(task, errors.Aborted(task.node.last_error, action="service", where=""))
    task.notes.settle_ramdisk(StepKind.SERVICE)
    task.move("abort", error=error)


def _put_away(task: Task, why: errors.Error) -> errors.Error:
    if not task.notes.service_ramdisk:
        return why
    tear_down = task.driver.deploy.tear_down_service
    return faults.besides(task, why, "tearing down service", tear_down)


PHASE = Phase(
    kind=StepKind.SERVICE,
    column="service_step",
    failure=errors.StepFailed,
    action="servicing",
    waiting=State.SERVICEWAIT,
    prepare=prepare,
    begin=begin,
    finish=finish,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
)
