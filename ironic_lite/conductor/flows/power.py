"""Power changes on request: record the target, switch, record the result.

Nodes that share a power supply are switched together: a parent on before its child, children off
before their parent.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.conductor.flows import admission, error_text
from ironic_lite.conductor.steps import children, step_execution
from ironic_lite.conductor.work.task import Task
from ironic_lite.domain import causes, holds, states
from ironic_lite.drivers import base, settings
from ironic_lite.records import Node

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


def begin(task: Task, target: str) -> None:
    """Record the target power state while the client waits.

    :raises errors.Conflict: the request has done this before.
    """
    task.journal.once()
    _begin(task, target)


def _begin(task: Task, target: str) -> None:
    task.node.target_power_state = ENDS_IN[target]
    error_text.forget(task)
    task.journal.event("power", event="start", before=task.node.power_state, after=ENDS_IN[target])
    task.save()


def change(task: Task, target: str, timeout: float | None) -> None:
    """Switch the power; a failure ends in last_error."""
    _change(task, target, timeout)


def _change(task: Task, target: str, timeout: float | None) -> Exception | None:
    """Switch the power, and record the result; return a failure."""
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
        failed(task, text, error_text.as_error(why))
        task.save()
        return why
    task.node.power_state = ENDS_IN[target]
    task.node.target_power_state = None
    task.notes.switched()
    task.journal.event("power", event="end", before=before, after=ENDS_IN[target])
    task.save()
    return None


def failed(task: Task, text: str, why: errors.Error) -> None:
    """Record, for the next save, that a power change has failed; ``why`` is the cause."""
    state, wanted = task.node.power_state, task.node.target_power_state
    data = {"error": text, "wanted": wanted, "cause": causes.of(why, task.journal.hide)}
    task.node.target_power_state = None
    task.node.last_error = text
    task.journal.event("power", event="fail", before=state, after=state, data=data)


# -- refusals --------------------------------------------------------------------------------


def refusals(task: Task, target: str) -> Iterator[errors.Error]:
    """Yield the refusals of a power change by the state, settings and holds of the node."""
    node = task.node
    if task.state in (states.State.CLEANING, states.State.CLEANWAIT):
        yield errors.InvalidState(verb=target, node=node.uuid, state=str(task.state))
    if node.disable_power_off and target in _OFF:
        yield errors.Conflict(node=node.uuid, reason="its disable_power_off is set")
    yield from admission.of_holds(task, holds.POWER, target)


def refusals_of_children(task: Task, target: str) -> Iterator[errors.Error]:
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
        yield from (error_text.led_by(lead, why) for why in refusals(view, target))


# -- nodes that share a power supply ---------------------------------------------------------


def tie(task: Task, target: str, timeout: float | None) -> None:
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
            step_execution.switch(own, base.POWER_ON)
            own.save()
            return
        with children.hold(task, uuid) as other:
            _switch_other(other, base.POWER_ON, timeout)


def _switch_children_off(task: Task, target: str, timeout: float | None) -> None:
    with contextlib.ExitStack() as stack:
        found: list[Task] = []
        for child in _dependent(task):  # all locks first: a locked child leaves the others on
            with _naming("child node", child.uuid):
                _held_above(task, child.uuid)
                view = task.other_nodes.view(task.context, child)
                if view.driver.power.get_power_state(view) != base.POWER_OFF:
                    found.append(stack.enter_context(children.hold(task, child.uuid)))
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
    admission.raise_first(refusals(task, target))
    _begin(task, target)
    why = _change(task, target, timeout)
    if why is not None:
        raise why


def _dependent(task: Task) -> list[Node]:
    """Return the children that have no power while the node is off."""
    return [child for child in children.of(task) if not _is_dedicated(child)]


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
        cause = causes.failure(why)
        raise errors.HardwareError(reason=f"{role} {uuid}: {cause.message}", node=uuid) from cause
