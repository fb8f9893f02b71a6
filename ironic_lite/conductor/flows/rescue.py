"""Rescue and unrescue: boot another system beside the instance, and remove it.

Requirements S5.13 and S5.14.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.flows import error_text
from ironic_lite.conductor.steps import poll_timeout
from ironic_lite.conductor.steps.phases import Checks, Flow
from ironic_lite.conductor.work import passwords
from ironic_lite.conductor.work.task import Task
from ironic_lite.core.json_types import Json
from ironic_lite.domain import activities
from ironic_lite.domain.steps import WAIT

FAULT = "rescue abort failure"
_PASSWORD_KEYS = ("rescue_password", "hashed_rescue_password")


def checks(task: Task, password: str) -> Checks:
    """Return the checks of a rescue while the client waits; the last one keeps the password."""
    driver = task.driver
    return (
        lambda: driver.power.validate(task),
        lambda: driver.rescue.validate(task),
        lambda: keep_password(task, password),
    )


def keep_password(task: Task, password: str) -> None:
    """Store the password for the rescue ramdisk's driver (shown masked).

    As in Ironic, the ramdisk gets a hash. The plain password is stored only for ramdisks that do
    not support hashes, if the operator allows it.

    :raises errors.InvalidParameter: no system accepts such a password; nothing has changed.
    """
    settings = task.runtime.conf.conductor
    algorithm = settings.rescue_password_hash_algorithm
    kept = {"hashed_rescue_password": passwords.hashed(password, algorithm, path="rescue_password")}
    if not settings.require_rescue_password_hashed:
        kept["rescue_password"] = password
    task.node.instance_info = {**_without_password(task), **kept}


def start(task: Task) -> None:
    """Boot the rescue system."""
    task.move("wait" if task.driver.rescue.rescue(task) is WAIT else "done", last=True)


def resume(task: Task, *, poll: bool) -> None:
    """Continue from rescue wait."""
    task.node.wake_at = None
    if poll and task.driver.rescue.poll_rescue(task) is WAIT:
        poll_timeout.note_still_running(task)
        task.save_on_release = True
    else:
        task.move("resume")
        task.move("done", last=True)


def give_up(task: Task, why: errors.Error) -> None:
    """Fail and remove the password."""
    error = _clean_up(task, error_text.led_by(f"Failed to rescue node {task.node.uuid}", why))
    _forget_password(task)
    task.notes.forget_agent()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort a waiting rescue: rescue failed without a fault. Removes the password."""
    _forget_password(task)
    task.notes.forget_agent()
    task.move("abort", error=errors.Aborted(action="rescue", where=""), aborted=True)


def tidy(task: Task) -> None:
    """Remove the rescue system after the state has been set; a failure sets a fault."""
    said = task.node.last_error
    error = _clean_up(task, errors.Aborted(said, action="rescue", where=""))
    if error.message != said:
        task.node.last_error = error.message
        error_text.put_into_maintenance(task, FAULT, error)
    task.save()


def checks_of_unrescue(task: Task) -> Checks:
    """Return the checks before the instance is booted, while the client waits."""
    return (lambda: task.driver.power.validate(task),)


def start_unrescue(task: Task) -> None:
    """Boot the instance again."""
    task.driver.rescue.unrescue(task)
    _forget_password(task)
    task.move("done", last=True)


def give_up_unrescue(task: Task, why: errors.Error) -> None:
    """Fail to unrescue failed and remove the password."""
    _forget_password(task)
    task.move("fail", error=error_text.led_by(f"Failed to unrescue node {task.node.uuid}", why))


def _clean_up(task: Task, why: errors.Error) -> errors.Error:
    return error_text.clean_up_after(task, why, "cleaning up", task.driver.rescue.clean_up)


def _forget_password(task: Task) -> None:
    task.node.instance_info = _without_password(task)


def _without_password(task: Task) -> Json:
    info = task.node.instance_info
    return {key: value for key, value in info.items() if key not in _PASSWORD_KEYS}


FLOW = Flow(
    activity=activities.RESCUE,
    prepare=start,
    resume=resume,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
)
UNRESCUE = Flow(
    activity=activities.UNRESCUE,
    checks=checks_of_unrescue,
    prepare=start_unrescue,
    give_up=give_up_unrescue,
)
