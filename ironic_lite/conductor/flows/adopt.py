"""Adoption: take in a machine that already runs an instance, without touching that."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.flows import faults
from ironic_lite.conductor.task import Task


def start(task: Task) -> None:
    """Let the deploy interface take over, learn the power state: active."""
    task.driver.deploy.adopt(task)
    task.node.power_state = task.driver.power.get_power_state(task)
    task.move("done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail: adopt failed."""
    task.move("fail", error=faults.led_by(f"Failed to adopt node {task.node.uuid}", why))
