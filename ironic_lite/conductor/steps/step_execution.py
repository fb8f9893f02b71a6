"""Execution of one step, by the driver it names or, if reserved, by the engine.

``stepper`` decides when a step runs, calls this module, and records the result.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.conductor.work.task import Task
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import step_planning, steps
from ironic_lite.domain.steps import DONE, WAIT, Outcome, StepKind
from ironic_lite.drivers import base
from ironic_lite.records import StoredStep

_HOLD = "hold"


def perform(task: Task, phase: Phase, step: StoredStep) -> str | None:
    """Run a step; return the event it leads to (wait, hold), None when it is done.

    :raises errors.Error: or any other exception of a driver: the step failed.
    """
    if step["step"] in step_planning.RESERVED:
        return _run_reserved(task, step)
    interface = task.driver.interface(step["interface"])
    execute = getattr(interface, f"execute_{phase.kind}_step")
    outcome = _checked_outcome(execute(task, step), phase)
    return "wait" if outcome is WAIT else None


def _checked_outcome(result: object, phase: Phase) -> Outcome:
    # For third-party drivers: None and the wait state's name have the meaning of the specs (S3.17).
    if result is None:
        return DONE
    if phase.activity.waiting is not None and result == phase.activity.waiting:
        return WAIT
    if not isinstance(result, Outcome):
        raise errors.HardwareError(reason=f"the step returned the invalid value {result!r}")
    return result


def _run_reserved(task: Task, step: StoredStep) -> str | None:
    """Carry out a step that belongs to no driver."""
    name = step["step"]
    if name == "hold":
        return _HOLD
    if name == "wait":
        return _wait_for_time(task, steps.arguments(step))
    if name == "reboot":
        task.driver.deploy.prepare_restart(task)
        task.switch_power(base.REBOOT)
        task.forget_agent(keep_token=True)
        task.node.power_state = base.POWER_ON
        return None
    switch(task, base.POWER_ON if name == "power_on" else base.POWER_OFF)
    return None


def switch(task: Task, state: str) -> None:
    """Switch a machine on or off between steps; a ramdisk of the run boots again.

    :raises errors.HardwareError: the node must stay on, or the change failed.
    """
    if state == base.POWER_OFF and task.node.disable_power_off:
        raise errors.HardwareError(reason="the node's disable_power_off is set")
    if state == base.POWER_ON and task.driver.power.get_power_state(task) == base.POWER_OFF:
        task.driver.deploy.prepare_restart(task)
    task.switch_power(state)
    task.node.power_state = state


def _wait_for_time(task: Task, args: JsonView) -> str | None:
    """Sleep for a short time, set a timer for a long one; without a time, wait.

    The wait without a time ends with a heartbeat.
    """
    seconds = args.get("seconds")
    if seconds is None:
        return "wait"
    if seconds <= task.runtime.conf.conductor.max_conductor_wait_step_seconds:
        task.pause(seconds)
        return None
    task.wake_after(seconds)
    return "wait"


def rerunnable(task: Task, kind: StepKind, step: StoredStep) -> bool:
    """Return whether a step may run again after a crash."""
    if step["step"] in step_planning.RESERVED:
        return True
    return task.driver.interface(step["interface"]).may_repeat(task, kind, step)
