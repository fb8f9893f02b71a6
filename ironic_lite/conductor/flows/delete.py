"""Removing an instance: undo the deployment, forget it, and clean the machine (S5.15, S5.25)."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.flows import clean, faults
from ironic_lite.conductor.task import Task
from ironic_lite.db import allocations
from ironic_lite.states import State
from ironic_lite.steps import StepKind


def request(task: Task) -> None:
    """Forget the steps of what was under way or had failed: whatever comes now, it is over."""
    task.node.deploy_step = None
    task.node.service_step = None
    task.notes.forget_deploy()
    task.notes.forget_steps(StepKind.SERVICE)


def start(task: Task) -> None:
    """Tear down, forget the instance, and go on to cleaning in the same run (S2.2, S2.30)."""
    _close_console(task)
    task.driver.rescue.clean_up(task)
    task.driver.deploy.tear_down(task)
    task.driver.deploy.clean_up(task)
    for vif in task.driver.network.vif_list(task):
        task.driver.network.vif_detach(task, vif["id"])
    task.node.instance_info = {}
    task.node.instance_uuid = None
    task.node.instance_name = None
    _drop_allocation(task)
    task.notes.forget_agent()
    clean.request(task)
    # A retired machine never becomes available again (S4.5, C22).
    task.move("clean", goal=State.MANAGEABLE if task.node.retired else None)
    clean.prepare(task)


def _close_console(task: Task) -> None:
    """Stop the console: who used the instance sees nothing of what comes after it."""
    if task.node.console_enabled:
        task.driver.console.stop_console(task)
        task.node.console_enabled = False


def _drop_allocation(task: Task) -> None:
    """Remove the allocation that the instance had, with the next save."""
    gone = task.node.allocation_uuid
    if gone is not None:
        task.node.allocation_uuid = None
        task.add_write(lambda conn: allocations.forget(conn, gone))


def give_up(task: Task, why: errors.Error) -> None:
    """Fail: the node shows ``error`` (C1) and ``deleted`` may be tried again."""
    task.move("fail", error=faults.led_by(f"Failed to tear down node {task.node.uuid}", why))
