"""Removing an instance: undo the deployment, forget it, and clean the machine (S5.15, S5.25)."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.flows import clean
from ironic_lite.conductor.task import Task
from ironic_lite.states import State


def start(task: Task) -> None:
    """Tear down, forget the instance, and go on to cleaning in the same run (S2.2, S2.30)."""
    try:
        task.driver.rescue.clean_up(task)
        task.driver.deploy.tear_down(task)
        task.driver.deploy.clean_up(task)
    except errors.HardwareError as why:
        give_up(task, why)
        return
    task.node.instance_info = {}
    task.node.instance_uuid = None
    task.node.instance_name = None
    task.node.deploy_step = None
    task.node.service_step = None
    task.notes.forget_deploy()
    task.notes.forget_agent()
    # A retired machine never becomes available again (S4.5, C22).
    task.move("clean", goal=State.MANAGEABLE if task.node.retired else None)
    clean.prepare(task)


def give_up(task: Task, why: errors.Error) -> None:
    """Fail: the node shows ``error`` (C1) and ``deleted`` may be tried again."""
    task.move("fail", error=why)
