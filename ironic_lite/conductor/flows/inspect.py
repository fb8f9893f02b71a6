"""Inspection: read a machine's hardware and write it into the node's properties.

Requirement S5.8.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.flows import error_text, inspection_rules
from ironic_lite.conductor.steps import evidence, poll_timeout
from ironic_lite.conductor.steps.phases import Checks, Flow
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.domain import activities
from ironic_lite.domain.steps import WAIT


def checks(task: Task) -> Checks:
    """Return the checks of an inspection while the client waits."""
    driver = task.driver
    return (lambda: driver.power.validate(task), lambda: driver.inspect.validate(task))


def start(task: Task) -> None:
    """Ask the inspect interface; a waiting inspection ends with a report or a poll."""
    task.node.inspection_started_at = clock.now()
    if task.driver.inspect.inspect_hardware(task) is WAIT:
        task.move("wait", last=True)
    else:
        finish(task)


def resume(task: Task, *, poll: bool) -> None:
    """Continue from inspect wait."""
    task.node.wake_at = None
    if poll and task.driver.inspect.poll_inspection(task) is WAIT:
        poll_timeout.note_still_running(task)
        task.save_on_release = True
    else:
        finish(task)


def report(task: Task, inventory: Json, plugin_data: Json) -> None:
    """Process the ramdisk's report; the node has left inspect wait."""
    if task.driver.inspect.continue_inspection(task, inventory, plugin_data) is WAIT:
        task.move("wait", last=True)
    else:
        finish(task)


def finish(task: Task) -> None:
    """Compare disks with the erasure record, apply the rules, and move to manageable."""
    evidence.inspected(task)
    inspection_rules.apply(task)
    task.node.inspection_finished_at = clock.now()
    task.node.inspection_started_at = None
    task.move("done", last=True)


def give_up(task: Task, why: errors.Error) -> None:
    """Fail with the reason; remove the inspection's traces from the machine."""
    error = error_text.led_by(f"Failed to inspect node {task.node.uuid}", why)
    what = "putting away the inspection"
    error = error_text.clean_up_after(task, error, what, task.driver.inspect.clean_up)
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort a waiting inspection."""
    task.move("abort", error=errors.Aborted(action="inspect", where=""), aborted=True)


def tidy(task: Task) -> None:
    """Stop a running inspection after the state has been set."""
    error = errors.Aborted(task.node.last_error, action="inspect", where="")
    stop = task.driver.inspect.abort
    task.node.last_error = error_text.clean_up_after(task, error, "stopping it", stop).message
    task.save()


FLOW = Flow(
    activity=activities.INSPECT,
    checks=checks,
    prepare=start,
    resume=resume,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
)
