"""Rescue and unrescue: another system boots beside the instance, and goes again (S5.13, S5.14)."""

from __future__ import annotations

from ironic_lite import clock, errors
from ironic_lite.conductor.task import Task
from ironic_lite.steps import WAIT

_PASSWORD_KEYS = ("rescue_password", "hashed_rescue_password")


def keep_password(task: Task, password: str) -> None:
    """Put the password where the rescue ramdisk's driver takes it from (shown masked)."""
    task.node.instance_info = {**task.node.instance_info, "rescue_password": password}


def start(task: Task) -> None:
    """Boot the rescue system."""
    try:
        outcome = task.driver.rescue.rescue(task)
    except errors.Error as why:
        give_up(task, why)
        return
    if outcome is WAIT:
        task.move("wait")
    else:
        task.move("done")


def resume(task: Task, *, poll: bool) -> None:
    """Go on from rescue wait."""
    task.node.wake_at = None
    try:
        waits = poll and task.driver.rescue.poll_rescue(task) is WAIT
    except errors.Error as why:
        give_up(task, why)
        return
    if waits:
        task.node.provision_updated_at = clock.now()
        task.save()
    else:
        task.move("resume")
        task.move("done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail; the password goes with it."""
    error = _put_away(task, why)
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort a waiting rescue: rescue failed, not a fault."""
    error = _put_away(task, errors.Aborted(action="rescue", where=""))
    task.move("abort", error=error, aborted=True)


def start_unrescue(task: Task) -> None:
    """Boot the instance again."""
    try:
        task.driver.rescue.unrescue(task)
    except errors.Error as why:
        give_up_unrescue(task, why)
        return
    _forget_password(task)
    task.move("done")


def give_up_unrescue(task: Task, why: errors.Error) -> None:
    """Fail: unrescue failed."""
    sentence = f"Failed to unrescue node {task.node.uuid}: {why.message}"
    task.move("fail", error=type(why)(sentence, **why.facts))


def _put_away(task: Task, why: errors.Error) -> errors.Error:
    try:
        task.driver.rescue.clean_up(task)
    except errors.HardwareError as more:
        why.message = f"{why.message} Also, cleaning up failed: {more.message}"
    _forget_password(task)
    task.notes.forget_agent()
    return why


def _forget_password(task: Task) -> None:
    info = task.node.instance_info
    task.node.instance_info = {
        key: value for key, value in info.items() if key not in _PASSWORD_KEYS
    }
