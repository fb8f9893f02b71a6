"""BMC operations outside verbs: recorded at once, carried out by a worker.

One operation at a time on a node, under its lock. The result is read from the node (boot mode,
secure boot) or from its BMC (virtual media). A failure is in ``last_error`` and in history.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.flows import error_text
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import masking
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import causes

LOG = logging.getLogger(__name__)


class Operation(NamedTuple):
    """One operation.

    ``goal`` ends the sentence "Failed to ..."; ``facts`` go to the event.
    """

    goal: str
    facts: JsonView


def begin(task: Task, order: Operation) -> None:
    """Record the operation, so that recovery after a lost conductor reports it.

    :raises errors.Conflict: the request has started this operation before.
    """
    task.journal.once()
    error_text.forget(task)
    task.notes.order = order.goal
    task.journal.event("management", event="start", data=_shown_facts(order))
    task.save()


def carry_out(task: Task, order: Operation, act: Callable[[Task], object]) -> None:
    """Carry out the operation; a failure ends in last_error."""
    try:
        act(task)
    except errors.LockLost:
        raise  # the node's new owner has recorded the result
    except Exception as why:  # drivers may raise anything; the operation must not stay pending
        LOG.warning("Node %s: failed to %s", task.node.uuid, order.goal, exc_info=why)
        failed(task, error_text.cut_short(why, "the machine"), error_text.as_error(why))
        task.save()
        return
    task.notes.order = None
    task.journal.event("management", event="end", data=_shown_facts(order))
    task.save()


def at_once(task: Task, order: Operation, act: Callable[[Task], object]) -> Any:
    """Carry out a quick operation while the client waits; record it if it succeeded.

    The client gets the error.

    :returns: the result of ``act``.
    :raises errors.Conflict: the request has done this before.
    """
    task.runtime.database.read(task.journal.refuse_again)
    result = act(task)
    task.journal.event("management", event="end", data=_shown_facts(order))
    task.save()
    return result


def failed(task: Task, reason: str, why: errors.Error) -> None:
    """Record, for the next save, that the current operation has failed; ``why`` is the cause."""
    text = masking.mask(f"Failed to {task.notes.order}: {reason}")
    task.notes.order = None
    task.node.last_error = text
    cause = causes.of(why, task.journal.hide)
    task.journal.event("management", event="fail", data={"error": text, "cause": cause})


# -- what there is to order ------------------------------------------------------------------


def boot_mode(task: Task, mode: str) -> None:
    """Set the boot mode, unless the machine already has it."""
    management = task.driver.management
    if _current_value(task, management.get_boot_mode) != mode:
        management.set_boot_mode(task, mode)
    task.node.boot_mode = mode


def secure_boot(task: Task, state: bool) -> None:
    """Switch secure boot, unless the machine already has the wanted setting."""
    management = task.driver.management
    if _current_value(task, management.get_secure_boot_state) is not state:
        management.set_secure_boot_state(task, state)
    task.node.secure_boot = state


def console(task: Task, enabled: bool) -> None:
    """Start or stop a console whatever its state, because a program may have ended."""
    if enabled:
        task.driver.console.start_console(task)
    else:
        task.driver.console.stop_console(task)
    task.node.console_enabled = enabled
    task.notes.console_paused = False


def _current_value(task: Task, ask: Callable[[Task], object]) -> Any:
    """Return the BMC's current value, None if it cannot report one.

    None means that the value is set in any case.

    :raises errors.LockLost, errors.Stopping: the operation ends here.
    """
    try:
        return ask(task)
    except (errors.LockLost, errors.Stopping):
        raise  # no fault of the BMC: another conductor has the machine, or will have it
    except errors.Error as why:
        LOG.info("Node %s: the value before the change is unknown: %s", task.node.uuid, why)
        return None


def _shown_facts(order: Operation) -> Any:
    return masking.mask(dict(order.facts))
