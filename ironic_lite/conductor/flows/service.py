"""Service steps on an active node: like a manual clean, but the instance stays."""

from __future__ import annotations

from ironic_lite import errors, plans, states
from ironic_lite.conductor import stepper
from ironic_lite.conductor.flows import offers
from ironic_lite.conductor.phases import Phase
from ironic_lite.conductor.task import Task
from ironic_lite.states import State
from ironic_lite.steps import WAIT, StepKind

FAULT = "service failure"


def prepare(task: Task) -> None:
    """Get ready, then run the steps the notes list, in their order."""
    task.node.service_step = {}
    try:
        needs_wait = task.notes.service_ramdisk and task.driver.deploy.prepare_service(task) is WAIT
    except errors.HardwareError as why:
        give_up(task, why)
        return
    if needs_wait:
        task.move("wait")
    else:
        begin(task)


def begin(task: Task) -> None:
    """Check the whole list, then run it."""
    try:
        listed = plans.requested(
            task.notes.listed(StepKind.SERVICE),
            offers.offered(task, StepKind.SERVICE),
            StepKind.SERVICE,
            ramdisk=task.notes.service_ramdisk,
        )
    except errors.Error as why:
        sentence = f"Cannot service node {task.node.uuid}: {why.message}"
        give_up(task, errors.StepFailed(sentence, step=None, reason=why.message))
        return
    stepper.start(task, PHASE, listed)


def finish(task: Task) -> None:
    """Every step is done: active again."""
    try:
        task.driver.deploy.tear_down_service(task)
    except errors.HardwareError as why:
        give_up(task, why)
        return
    task.node.service_step = None
    task.notes.settle_steps(StepKind.SERVICE, forget_list=True)
    task.notes.forget_agent()
    task.move("done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail with maintenance and fault, as cleaning does."""
    error = _put_away(task, why)
    if not task.node.maintenance:
        task.node.maintenance_reason = error.message
    task.node.maintenance = True
    task.node.fault = FAULT
    task.node.service_step = {}
    task.notes.settle_steps(StepKind.SERVICE, forget_list=False)
    task.notes.forget_agent()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort by request: through service failed, which is not a fault, back to active."""
    error = _put_away(task, errors.Aborted(action="service", where=""))
    task.node.service_step = None
    task.notes.settle_steps(StepKind.SERVICE, forget_list=True)
    task.notes.forget_agent()
    event = "abort" if states.allows(task.state, "abort") else "fail"
    task.move(event, error=error, aborted=True)
    task.move("abort", error=error, aborted=True)


def _put_away(task: Task, why: errors.Error) -> errors.Error:
    try:
        task.driver.deploy.tear_down_service(task)
    except errors.HardwareError as more:
        why.message = f"{why.message} Also, tearing down service failed: {more.message}"
    return why


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
)
