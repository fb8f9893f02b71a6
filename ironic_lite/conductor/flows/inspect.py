"""Inspection: find out what a machine is made of and write it into its properties (S5.8)."""

from __future__ import annotations

from typing import Any

from ironic_lite import clock, errors
from ironic_lite.conductor import polls
from ironic_lite.conductor.flows import faults, judged
from ironic_lite.conductor.task import Task
from ironic_lite.steps import WAIT


def start(task: Task) -> None:
    """Ask the inspect interface; a waiting one reports or is polled later."""
    task.node.inspection_started_at = clock.now()
    if task.driver.inspect.inspect_hardware(task) is WAIT:
        task.move("wait")
    else:
        finish(task)


def resume(task: Task, *, poll: bool) -> None:
    """Go on from inspect wait."""
    task.node.wake_at = None
    if poll and task.driver.inspect.poll_inspection(task) is WAIT:
        polls.goes_on(task)
        task.save()
    else:
        finish(task)


def report(task: Task, inventory: dict[str, Any], plugin_data: dict[str, Any]) -> None:
    """Go on with what the machine's ramdisk has sent; the node has left inspect wait for this."""
    if task.driver.inspect.continue_inspection(task, inventory, plugin_data) is WAIT:
        task.move("wait")
    else:
        finish(task)


def finish(task: Task) -> None:
    """Manageable, with what was found, and with what rules make of it."""
    judged.apply(task)
    task.node.inspection_finished_at = clock.now()
    task.node.inspection_started_at = None
    task.move("done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail with the reason; nothing of the inspection is left on the machine."""
    error = faults.led_by(f"Failed to inspect node {task.node.uuid}", why)
    what = "putting away the inspection"
    error = faults.besides(task, error, what, task.driver.inspect.clean_up)
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort a waiting inspection."""
    task.move("abort", error=errors.Aborted(action="inspect", where=""), aborted=True)


def tidy(task: Task) -> None:
    """Stop what still inspects, after the state has been settled."""
    error = errors.Aborted(task.node.last_error, action="inspect", where="")
    stop = task.driver.inspect.abort
    task.node.last_error = faults.besides(task, error, "stopping it", stop).message
    task.save()
