"""What flows say of errors: one of ours for whatever was raised, and what failed besides it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ironic_lite import errors, states
from ironic_lite.conductor.task import Task
from ironic_lite.drivers.base import POWER_OFF
from ironic_lite.states import Kind, State

LOG = logging.getLogger(__name__)

_SENTENCES = (errors.StepFailed, errors.TimedOut, errors.Aborted)


def as_error(why: Exception) -> errors.Error:
    """Return an error of ours for whatever was raised, without its internals."""
    if isinstance(why, errors.Error):
        return why
    return errors.Error(f"Unexpected {type(why).__name__}; the conductor's log has the details.")


def led_by(what: str, why: errors.Error) -> errors.Error:
    """Return the same error, its sentence led by what could not be done."""
    return type(why)(f"{what}: {why.message}", **why.facts)


def cannot(verb: str, task: Task, why: errors.Error) -> errors.Error:
    """Return ``why`` as "Cannot <verb> node ...", unless it names a step or a wait already."""
    if isinstance(why, _SENTENCES):
        return why
    return led_by(f"Cannot {verb} node {task.node.uuid}", why)


def besides(
    task: Task, why: errors.Error, what: str, act: Callable[[Task], object]
) -> errors.Error:
    """Clean up after ``why``: a failure of that is added to its message, and stops nothing.

    :param what: the act's name for the sentence, such as "tearing down cleaning".
    :raises errors.LockLost: the machine is another conductor's now; nothing has been done.
    """
    task.confirm()
    try:
        act(task)
    except Exception as more:  # drivers may raise anything, and the node must reach its fail state
        unknown = None if isinstance(more, errors.Error) else more
        LOG.warning("Node %s: %s failed: %s", task.node.uuid, what, more, exc_info=unknown)
        why.message = f"{why.message} Also, {what} failed: {as_error(more).message}"
    return why


def switch_off(task: Task, why: errors.Error, *, wanted: bool) -> errors.Error:
    """Switch a machine off after ``why``, where the operator wants that and the node allows it.

    :raises errors.LockLost: as `besides`.
    """
    if not wanted or task.node.disable_power_off or task.driver.power.in_band:
        return why
    return besides(task, why, "switching the machine off", _switch_off)


def _switch_off(task: Task) -> None:
    task.driver.power.set_power_state(task, POWER_OFF)
    task.node.power_state = POWER_OFF


def set_aside(task: Task, fault: str, why: errors.Error) -> None:
    """Put a node into maintenance for a fault; a reason that somebody has given before stays."""
    if not task.node.maintenance or task.node.maintenance_reason is None:
        task.node.maintenance_reason = why.message
    task.node.maintenance = True
    task.node.fault = fault


def forget(task: Task) -> None:
    """A request begins: what an earlier failure was is forgotten, unless the node still stands in
    its fail state."""
    if task.state is not State.ERROR and states.kind(task.state) is not Kind.FAIL:
        task.node.last_error = None


def cut_short(why: Exception, look_at: str) -> str:
    """Return why a request came to nothing, for the sentence in last_error.

    :param look_at: what tells how far it came, such as ``power_state``.
    """
    if isinstance(why, errors.Stopping):
        return f"the conductor was stopped meanwhile. Look at {look_at} and repeat the request."
    return as_error(why).message
