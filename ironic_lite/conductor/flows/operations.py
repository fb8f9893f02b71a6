"""Operations outside verbs: power changes, and other operations on a BMC.

Each is recorded at once and carried out by a worker, one at a time on a node, under its lock.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.engine import execution
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, error_text
from ironic_lite.core import masking
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import failures, holds, states
from ironic_lite.drivers import base, settings
from ironic_lite.records import Node

# Power changes on request: record the target, switch, record the result.
#
# Nodes that share a power supply are switched together: a parent on before its child, children off
# before their parent.

LOG = logging.getLogger(__name__)

DEDICATED = "has_dedicated_power_supply"
"""Key in driver_info of a child whose power does not depend on its parent."""
_OFF = (base.POWER_OFF, base.SOFT_POWER_OFF)

ENDS_IN = {
    base.POWER_ON: base.POWER_ON,
    base.POWER_OFF: base.POWER_OFF,
    base.REBOOT: base.POWER_ON,
    base.SOFT_REBOOT: base.POWER_ON,
    base.SOFT_POWER_OFF: base.POWER_OFF,
}


def begin_power_change(task: Task, target: str) -> None:
    """Record the target power state while the client waits.

    :raises errors.Conflict: the request has done this before.
    """
    task.journal.once()
    _record_power_target(task, target)


def _record_power_target(task: Task, target: str) -> None:
    task.node.target_power_state = ENDS_IN[target]
    error_text.forget(task)
    task.journal.event("power", event="start", before=task.node.power_state, after=ENDS_IN[target])
    task.save()


def change_power(task: Task, target: str, timeout: float | None) -> Exception | None:
    """Switch the power, and record the result; return a failure, which is in last_error."""
    before = task.node.power_state
    try:
        task.switch_power(target, timeout)
        if target in (base.REBOOT, base.SOFT_REBOOT):
            task.forget_agent(keep_token=True)
    except errors.LockLost:
        raise  # the node's new owner has recorded the result
    except Exception as why:  # drivers may raise anything; the request must not stay pending
        LOG.warning("Node %s: changing its power failed", task.node.uuid, exc_info=why)
        reason = error_text.cut_short(why, "power_state")
        text = f"Failed to change power state to '{ENDS_IN[target]}': {reason}"
        fail_power_change(task, text, error_text.as_error(why))
        task.save()
        return why
    task.node.power_state = ENDS_IN[target]
    task.node.target_power_state = None
    task.notes.switched()
    task.journal.event("power", event="end", before=before, after=ENDS_IN[target])
    task.save()
    return None


def fail_power_change(task: Task, text: str, why: errors.Error) -> None:
    """Record, for the next save, that a power change has failed; ``why`` is the cause."""
    state, wanted = task.node.power_state, task.node.target_power_state
    data = {"error": text, "wanted": wanted, "cause": failures.of(why, task.journal.hide)}
    task.node.target_power_state = None
    task.node.last_error = text
    task.journal.event("power", event="fail", before=state, after=state, data=data)


# -- refusals --------------------------------------------------------------------------------


def power_refusals(task: Task, target: str) -> Iterator[errors.Error]:
    """Yield the refusals of a power change by the state, settings and holds of the node."""
    node = task.node
    if task.state in (states.State.CLEANING, states.State.CLEANWAIT):
        yield errors.InvalidState(verb=target, node=node.uuid, state=str(task.state))
    if node.disable_power_off and target in _OFF:
        yield errors.Conflict(node=node.uuid, reason="its disable_power_off is set")
    yield from admission.of_holds(task, holds.POWER, target)


def power_refusals_of_children(task: Task, target: str) -> Iterator[errors.Error]:
    """Yield the refusals by children that would have to be switched off first."""
    for child in _dependent(task) if target in _OFF else ():
        if child.power_state == base.POWER_OFF:
            continue
        lead = f"Child node {child.uuid} would have to be switched off first"
        try:
            view = task.other_nodes.view(task.context, child)
        except errors.Error as why:  # this conductor does not have the child's driver
            yield errors.Conflict(node=task.node.uuid, reason=f"{lead}: {why.message}")
            continue
        yield from (error_text.led_by(lead, why) for why in power_refusals(view, target))


# -- nodes that share a power supply ---------------------------------------------------------


def tie_power(task: Task, target: str, timeout: float | None) -> None:
    """Switch other nodes first: the parent on, or the children off.

    :param timeout: seconds for each node; None takes the configured one.
    :raises errors.HardwareError: naming the other node, whose power could not be read or changed.
    :raises errors.Stopping: the service stops.
    """
    task.switching = True
    try:
        if target in _OFF:
            _switch_children_off(task, target, timeout)
        else:
            _switch_parent_on(task, timeout)
    finally:
        task.switching = False


def _switch_parent_on(task: Task, timeout: float | None) -> None:
    uuid = task.node.parent_node
    if uuid is None or _is_dedicated(task.node):
        return
    with _naming("parent node", uuid):
        own = _held_above(task, uuid)
        try:
            parent = own or task.other_nodes.look(task.context, uuid)
        except errors.NodeNotFound:
            LOG.warning("Node %s: its parent node %s does not exist", task.node.uuid, uuid)
            return
        if parent.driver.power.get_power_state(parent) == base.POWER_ON:
            return
        LOG.info("Node %s: switching its parent node %s on first", task.node.uuid, uuid)
        if own is not None:  # a step of the parent runs on this child
            execution.switch(own, base.POWER_ON)
            own.save()
            return
        with execution.lock_other(task, uuid) as other:
            _switch_other(other, base.POWER_ON, timeout)


def _switch_children_off(task: Task, target: str, timeout: float | None) -> None:
    with contextlib.ExitStack() as stack:
        found: list[Task] = []
        for child in _dependent(task):  # all locks first: a locked child leaves the others on
            with _naming("child node", child.uuid):
                _held_above(task, child.uuid)
                view = task.other_nodes.view(task.context, child)
                if view.driver.power.get_power_state(view) != base.POWER_OFF:
                    found.append(stack.enter_context(execution.lock_other(task, child.uuid)))
        for other in found:
            with _naming("child node", other.node.uuid):
                if other.node.parent_node != task.node.uuid:
                    continue  # it was moved before its lock was taken
                LOG.info("Node %s: switching its child off first", task.node.uuid)
                gentle = target in other.driver.power.get_supported_power_states(other)
                _switch_other(other, target if gentle else base.POWER_OFF, timeout)


def _switch_other(task: Task, target: str, timeout: float | None) -> None:
    """Switch a node, recorded as on request, for a change of another node.

    :raises Exception: of its driver, after it has been recorded.
    """
    admission.raise_first(power_refusals(task, target))
    _record_power_target(task, target)
    why = change_power(task, target, timeout)
    if why is not None:
        raise why


def _dependent(task: Task) -> list[Node]:
    """Return the children that have no power while the node is off."""
    return [child for child in execution.children_of(task) if not _is_dedicated(child)]


def _is_dedicated(child: Node) -> bool:
    try:
        return settings.flag((child.driver_info or {}).get(DEDICATED, False))
    except ValueError:
        return False


def _held_above(task: Task, uuid: str) -> Task | None:
    """Return the task that holds another node and for which this task works, if there is one.

    :raises errors.HardwareError: that node is being switched, so the parents form a ring.
    """
    above: Task | None = task
    while above is not None and above.node.uuid != uuid:
        above = above.above
    if above is not None and above.switching:
        reason = "the nodes are parents of each other; correct parent_node of one of them"
        raise errors.HardwareError(reason=reason)
    return above


@contextlib.contextmanager
def _naming(role: str, uuid: str) -> Iterator[None]:
    """Name the other node in the errors of the block, also in that of its lost lock."""
    try:
        yield
    except errors.Stopping:
        raise
    except Exception as why:  # drivers may raise anything
        cause = failures.failure(why)
        raise errors.HardwareError(reason=f"{role} {uuid}: {cause.message}", node=uuid) from cause


# BMC operations outside verbs: recorded at once, carried out by a worker.
#
# One operation at a time on a node, under its lock. The result is read from the node (boot mode,
# secure boot) or from its BMC (virtual media). A failure is in ``last_error`` and in history.


class BmcOperation(NamedTuple):
    """One operation.

    ``goal`` ends the sentence "Failed to ..."; ``facts`` go to the event. One that is not about
    the ``machine`` only stores something.
    """

    goal: str
    facts: JsonView
    machine: bool = True


def refuse_held(task: Task, order: BmcOperation) -> None:
    """Refuse an operation on the machine if a hold in force blocks it."""
    if order.machine:
        admission.raise_first(admission.of_holds(task, holds.ORDER, f"the request to {order.goal}"))


def begin_operation(task: Task, order: BmcOperation) -> None:
    """Record the operation, so that recovery after a lost conductor reports it.

    :raises errors.Conflict: a hold blocks it, or the request has started this operation before.
    """
    refuse_held(task, order)
    task.journal.once()
    error_text.forget(task)
    task.notes.order = order.goal
    task.journal.event("management", event="start", data=_shown_facts(order))
    task.save()


def carry_out(task: Task, order: BmcOperation, act: Callable[[Task], object]) -> None:
    """Carry out the operation; a failure ends in last_error."""
    try:
        act(task)
    except errors.LockLost:
        raise  # the node's new owner has recorded the result
    except Exception as why:  # drivers may raise anything; the operation must not stay pending
        LOG.warning("Node %s: failed to %s", task.node.uuid, order.goal, exc_info=why)
        fail_operation(task, error_text.cut_short(why, "the machine"), error_text.as_error(why))
        task.save()
        return
    task.notes.order = None
    task.journal.event("management", event="end", data=_shown_facts(order))
    task.save()


def at_once(task: Task, order: BmcOperation, act: Callable[[Task], object]) -> Any:
    """Carry out a quick operation while the client waits; record it if it succeeded.

    The client gets the error.

    :returns: the result of ``act``.
    :raises errors.Conflict: a hold blocks it, or the request has done this before.
    """
    refuse_held(task, order)
    task.runtime.database.read(task.journal.refuse_again)
    result = act(task)
    task.journal.event("management", event="end", data=_shown_facts(order))
    task.save()
    return result


def fail_operation(task: Task, reason: str, why: errors.Error) -> None:
    """Record, for the next save, that the current operation has failed; ``why`` is the cause."""
    text = masking.mask(f"Failed to {task.notes.order}: {reason}")
    task.notes.order = None
    task.node.last_error = text
    cause = failures.of(why, task.journal.hide)
    task.journal.event("management", event="fail", data={"error": text, "cause": cause})


# -- what there is to order ------------------------------------------------------------------


def change_boot_mode(task: Task, mode: str) -> None:
    """Set the boot mode, unless the machine already has it."""
    management = task.driver.management
    if _current_value(task, management.get_boot_mode) != mode:
        management.set_boot_mode(task, mode)
    task.node.boot_mode = mode


def change_secure_boot(task: Task, state: bool) -> None:
    """Switch secure boot, unless the machine already has the wanted setting."""
    management = task.driver.management
    if _current_value(task, management.get_secure_boot_state) is not state:
        management.set_secure_boot_state(task, state)
    task.node.secure_boot = state


def change_console(task: Task, enabled: bool) -> None:
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


def _shown_facts(order: BmcOperation) -> Any:
    return masking.mask(dict(order.facts))
