"""Adoption: accept a machine that already runs an instance, without touching it."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.engine import evidence
from ironic_lite.conductor.engine.phases import Checks, Flow
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import error_text
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import activities
from ironic_lite.domain.erasure_records import DataState


def checks(task: Task, _body: JsonView) -> Checks:
    """Return the checks of an adoption while the client waits."""
    return (lambda: task.driver.power.validate(task),)


def start(task: Task) -> None:
    """Let the deploy interface take over, read the power state, and move to active.

    The disks have data of an instance, even if the machine cannot be adopted.
    """
    evidence.change(task, DataState.DIRTY)
    task.save()
    task.driver.deploy.adopt(task)
    task.node.power_state = task.driver.power.get_power_state(task)
    task.move("done", last=True)


def give_up(task: Task, why: errors.Error) -> None:
    """Move the node to ``adopt failed``."""
    task.move("fail", error=error_text.led_by(f"Failed to adopt node {task.node.uuid}", why))


FLOW = Flow(activity=activities.ADOPT, checks=checks, prepare=start, give_up=give_up)
