"""Rescue and unrescue: boot another system beside the instance, and remove it.

Requirements S5.13 and S5.14.
"""

from __future__ import annotations

import threading

from oslo_utils import secretutils

from ironic_lite import errors
from ironic_lite.conductor.engine import stepper
from ironic_lite.conductor.engine.phases import Checks, Flow
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import adopt, error_text
from ironic_lite.conductor.flows.planning import Findings
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import activities
from ironic_lite.domain.steps import WAIT
from ironic_lite.domain.verbs import Verb

FAULT = "rescue abort failure"
_PASSWORD_KEYS = ("rescue_password", "hashed_rescue_password")


def checks(task: Task, body: JsonView) -> Checks:
    """Return the checks of a rescue while the client waits; the last one keeps the password."""
    driver = task.driver
    return (
        lambda: driver.power.validate(task),
        lambda: driver.rescue.validate(task),
        lambda: keep_password(task, body.get("rescue_password", "")),
    )


def plan(task: Task, _verb: Verb, body: JsonView, found: Findings) -> None:
    """Plan a rescue: its checks, whatever the state of the node."""
    for check in checks(task, body):
        found.attempt(check)


def keep_password(task: Task, password: str) -> None:
    """Store the password for the rescue ramdisk's driver (shown masked).

    As in Ironic, the ramdisk gets a hash. The plain password is stored only for ramdisks that do
    not support hashes, if the operator allows it.

    :raises errors.InvalidParameter: no system accepts such a password; nothing has changed.
    """
    settings = task.runtime.conf.conductor
    algorithm = settings.rescue_password_hash_algorithm
    kept = {"hashed_rescue_password": hashed_password(password, algorithm, path="rescue_password")}
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
        stepper.note_still_running(task)
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
    checks=checks,
    plan=plan,
    prepare=start,
    resume=resume,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
)
UNRESCUE = Flow(
    activity=activities.UNRESCUE,
    checks=adopt.checks,
    prepare=start_unrescue,
    give_up=give_up_unrescue,
)


# Password hashes in the form of crypt(3), with a random salt.

HASH_METHODS = {"sha256": "SHA-256", "sha512": "SHA-512"}
"""Values of [conductor]rescue_password_hash_algorithm, with their names in crypt(3)."""

# crypt(3) returns memory that all threads share.
_CRYPT_LOCK = threading.Lock()


def hashed_password(password: str, algorithm: str, *, path: str) -> str:
    """Return ``$5$salt$hash`` or ``$6$salt$hash``, as in a line of /etc/shadow.

    :param algorithm: one of ``METHODS``.
    :param path: of the password in the request, for a refusal.
    :raises errors.InvalidParameter: no system accepts it: it contains a null character, is not
        Unicode or is too long. The message does not repeat it.
    :raises errors.LibraryMissing: this machine has no libcrypt.
    """
    try:
        password.encode()
    except UnicodeEncodeError:
        raise errors.InvalidParameter(path=path, reason="is not Unicode text") from None
    if "\0" in password:  # crypt(3) would ignore everything after it
        raise errors.InvalidParameter(path=path, reason="has a null character")
    salt = secretutils.crypt_mksalt(HASH_METHODS[algorithm])
    try:
        with _CRYPT_LOCK:
            found = secretutils.crypt_password(password, salt)
    except RuntimeError:
        raise errors.LibraryMissing(library="libcrypt", purpose="hashes passwords") from None
    except AttributeError:  # no answer at all, in the way of glibc's own library
        found = ""
    if not found.startswith(f"{salt}$"):
        raise errors.InvalidParameter(path=path, reason="cannot be hashed; a shorter one may do")
    return found
