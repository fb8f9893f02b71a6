"""Power changes on request: record the target, switch, record the result."""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.conductor.flows import error_text
from ironic_lite.conductor.work.task import Task
from ironic_lite.domain import causes
from ironic_lite.drivers import base

LOG = logging.getLogger(__name__)

ENDS_IN = {
    base.POWER_ON: base.POWER_ON,
    base.POWER_OFF: base.POWER_OFF,
    base.REBOOT: base.POWER_ON,
    base.SOFT_REBOOT: base.POWER_ON,
    base.SOFT_POWER_OFF: base.POWER_OFF,
}


def begin(task: Task, target: str) -> None:
    """Record the target power state while the client waits.

    :raises errors.Conflict: the request has done this before.
    """
    task.journal.once()
    task.node.target_power_state = ENDS_IN[target]
    error_text.forget(task)
    task.journal.event("power", event="start", before=task.node.power_state, after=ENDS_IN[target])
    task.save()


def change(task: Task, target: str, timeout: float | None) -> None:
    """Switch the power; a failure ends in last_error."""
    before = task.node.power_state
    try:
        _switch_power(task, target, timeout)
    except errors.LockLost:
        raise  # the node's new owner has recorded the result
    except Exception as why:  # drivers may raise anything; the request must not stay pending
        LOG.warning("Node %s: changing its power failed", task.node.uuid, exc_info=why)
        reason = error_text.cut_short(why, "power_state")
        text = f"Failed to change power state to '{ENDS_IN[target]}': {reason}"
        failed(task, text, error_text.as_error(why))
        task.save()
        return
    task.node.power_state = ENDS_IN[target]
    task.node.target_power_state = None
    task.notes.switched()
    task.journal.event("power", event="end", before=before, after=ENDS_IN[target])
    task.save()


def failed(task: Task, text: str, why: errors.Error) -> None:
    """Record, for the next save, that a power change has failed; ``why`` is the cause."""
    state, wanted = task.node.power_state, task.node.target_power_state
    data = {"error": text, "wanted": wanted, "cause": causes.of(why, task.journal.hide)}
    task.node.target_power_state = None
    task.node.last_error = text
    task.journal.event("power", event="fail", before=state, after=state, data=data)


def _switch_power(task: Task, target: str, timeout: float | None) -> None:
    power = task.driver.power
    if target in (base.REBOOT, base.SOFT_REBOOT):
        power.reboot(task, timeout, soft=target == base.SOFT_REBOOT)
        task.forget_agent(keep_token=True)
    else:
        power.set_power_state(task, target, timeout)
