"""Orders to a BMC outside of any verb: noted while the caller listens, carried out by a worker.

One at a time on a node, under its lock. What comes of an order is read from the node (boot mode,
secure boot), or asked of its BMC (virtual media); a failure is in ``last_error`` and in history.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ironic_lite import errors, masking
from ironic_lite.conductor.flows import faults
from ironic_lite.conductor.task import Task

LOG = logging.getLogger(__name__)


class Order(NamedTuple):
    """What is to be done: ``goal`` ends the sentence "Failed to ..."; ``facts`` are for the
    event."""

    goal: str
    facts: Mapping[str, Any]


def begin(task: Task, order: Order) -> None:
    """Note the order, so that whoever finds the node without a conductor knows of it.

    :raises errors.Conflict: the request has ordered this before.
    """
    task.journal.once()
    faults.forget(task)
    task.notes.order = order.goal
    task.journal.event("management", event="start", data=_shown(order))
    task.save()


def carry_out(task: Task, order: Order, act: Callable[[Task], object]) -> None:
    """Do it; a refusal of the machine ends in last_error, never in silence."""
    try:
        act(task)
    except Exception as why:  # drivers may raise anything; the request must not stay pending
        LOG.warning("Node %s: failed to %s", task.node.uuid, order.goal, exc_info=why)
        failed(task, faults.cut_short(why, "the machine"))
        task.save()
        return
    task.notes.order = None
    task.journal.event("management", event="end", data=_shown(order))
    task.save()


def at_once(task: Task, order: Order, act: Callable[[Task], Any]) -> Any:
    """Do what is quick while the caller waits, who also gets the error; note it if it was done.

    :returns: what ``act`` returns.
    :raises errors.Conflict: the request has done this before.
    """
    task.desk.database.read(task.journal.refuse_again)
    result = act(task)
    task.journal.event("management", event="end", data=_shown(order))
    task.save()
    return result


def failed(task: Task, reason: str) -> None:
    """Note, for the next save, that the order under way has come to nothing."""
    text = masking.mask(f"Failed to {task.notes.order}: {reason}")
    task.notes.order = None
    task.node.last_error = text
    task.journal.event("management", event="fail", data={"error": text})


# -- what there is to order ------------------------------------------------------------------


def boot_mode(task: Task, mode: str) -> None:
    """Bring the machine to a boot mode; one that has it already is left alone."""
    management = task.driver.management
    if _known(task, management.get_boot_mode) != mode:
        management.set_boot_mode(task, mode)
    task.node.boot_mode = mode


def secure_boot(task: Task, state: bool) -> None:
    """Switch secure boot on or off; a machine where it is so already is left alone."""
    management = task.driver.management
    if _known(task, management.get_secure_boot_state) is not state:
        management.set_secure_boot_state(task, state)
    task.node.secure_boot = state


def console(task: Task, enabled: bool) -> None:
    """Start or stop a console, whatever it is now: a program may have ended by itself."""
    if enabled:
        task.driver.console.start_console(task)
    else:
        task.driver.console.stop_console(task)
    task.node.console_enabled = enabled


def _known(task: Task, ask: Callable[[Task], Any]) -> Any:
    """Return what the BMC says, None if it cannot tell: then it is set in any case.

    :raises errors.LockLost, errors.Stopping: nothing more is to be done here.
    """
    try:
        return ask(task)
    except (errors.LockLost, errors.Stopping):
        raise  # no fault of the BMC: the machine is another conductor's now, or will be
    except errors.Error as why:
        LOG.info("Node %s: not known before it is set: %s", task.node.uuid, why)
        return None


def _shown(order: Order) -> Any:
    return masking.mask(dict(order.facts))
