"""Adoption: take in a machine that already runs an instance, without touching that."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.task import Task


def start(task: Task) -> None:
    """Check, let the deploy interface take over, learn the power state: active."""
    try:
        task.driver.power.validate(task)
        task.driver.deploy.adopt(task)
        task.node.power_state = task.driver.power.get_power_state(task)
    except errors.Error as why:
        give_up(task, why)
        return
    task.move("done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail: adopt failed."""
    sentence = f"Failed to adopt node {task.node.uuid}: {why.message}"
    task.move("fail", error=type(why)(sentence, **why.facts))
