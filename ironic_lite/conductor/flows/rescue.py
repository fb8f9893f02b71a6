"""Rescue and unrescue: another system boots beside the instance, and goes again (S5.13, S5.14)."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.conductor import passwords, polls
from ironic_lite.conductor.flows import faults
from ironic_lite.conductor.task import Task
from ironic_lite.steps import WAIT

FAULT = "rescue abort failure"
_PASSWORD_KEYS = ("rescue_password", "hashed_rescue_password")


def keep_password(task: Task, password: str) -> None:
    """Put the password where the rescue ramdisk's driver takes it from (shown masked).

    As Ironic does it, a hash goes to the ramdisk. The password itself is kept only for ramdisks
    that know no hashes, where the operator has allowed them.

    :raises errors.InvalidParameter: no system can have such a password; nothing has changed.
    """
    settings = task.desk.conf.conductor
    algorithm = settings.rescue_password_hash_algorithm
    kept = {"hashed_rescue_password": passwords.hashed(password, algorithm, path="rescue_password")}
    if not settings.require_rescue_password_hashed:
        kept["rescue_password"] = password
    task.node.instance_info = {**_without_password(task), **kept}


def start(task: Task) -> None:
    """Boot the rescue system."""
    task.move("wait" if task.driver.rescue.rescue(task) is WAIT else "done")


def resume(task: Task, *, poll: bool) -> None:
    """Go on from rescue wait."""
    task.node.wake_at = None
    if poll and task.driver.rescue.poll_rescue(task) is WAIT:
        polls.goes_on(task)
        task.save()
    else:
        task.move("resume")
        task.move("done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail; the password goes with it."""
    error = _put_away(task, faults.led_by(f"Failed to rescue node {task.node.uuid}", why))
    _forget_password(task)
    task.notes.forget_agent()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort a waiting rescue: rescue failed, not a fault. The password goes with it."""
    _forget_password(task)
    task.notes.forget_agent()
    task.move("abort", error=errors.Aborted(action="rescue", where=""), aborted=True)


def tidy(task: Task) -> None:
    """Take the rescue system away, after the state has been settled; failing at it is a fault."""
    said = task.node.last_error
    error = _put_away(task, errors.Aborted(said, action="rescue", where=""))
    if error.message != said:
        task.node.last_error = error.message
        faults.set_aside(task, FAULT, error)
    task.save()


def start_unrescue(task: Task) -> None:
    """Boot the instance again."""
    task.driver.rescue.unrescue(task)
    _forget_password(task)
    task.move("done")


def give_up_unrescue(task: Task, why: errors.Error) -> None:
    """Fail: unrescue failed. Nobody needs the password any more."""
    _forget_password(task)
    task.move("fail", error=faults.led_by(f"Failed to unrescue node {task.node.uuid}", why))


def _put_away(task: Task, why: errors.Error) -> errors.Error:
    return faults.besides(task, why, "cleaning up", task.driver.rescue.clean_up)


def _forget_password(task: Task) -> None:
    task.node.instance_info = _without_password(task)


def _without_password(task: Task) -> dict[str, Any]:
    info = task.node.instance_info
    return {key: value for key, value in info.items() if key not in _PASSWORD_KEYS}
