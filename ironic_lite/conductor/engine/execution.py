"""Execution of one step, by the driver it names or, if reserved, by the engine.

``stepper`` decides when a step runs, calls this module, and records the result.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence

from ironic_lite import errors
from ironic_lite.conductor.engine import evidence
from ironic_lite.conductor.engine.phases import Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds as hold_rows
from ironic_lite.db.queries import nodes
from ironic_lite.domain import erasure_records, failures, history, holds, states, step_lists, steps
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.steps import DONE, WAIT, Outcome, StepKind
from ironic_lite.drivers import base
from ironic_lite.records import Node, StoredStep

LOG = logging.getLogger(__name__)

_HOLD = "hold"


def perform(task: Task, phase: Phase, step: StoredStep) -> str | None:
    """Run a step; return the event it leads to (wait, hold), None when it is done.

    :raises errors.Error: or any other exception of a driver: the step failed.
    """
    if step["step"] in step_lists.RESERVED:
        return _run_reserved(task, step)
    interface = task.driver.interface(step["interface"])
    execute = getattr(interface, f"execute_{phase.kind}_step")
    outcome = _checked_outcome(execute(task, step), phase)
    return "wait" if outcome is WAIT else None


def _checked_outcome(result: object, phase: Phase) -> Outcome:
    # For third-party drivers: None and the wait state's name have the meaning of the specs (S3.17).
    if result is None:
        return DONE
    if phase.activity.waiting is not None and result == phase.activity.waiting:
        return WAIT
    if not isinstance(result, Outcome):
        raise errors.HardwareError(reason=f"the step returned the invalid value {result!r}")
    return result


def _run_reserved(task: Task, step: StoredStep) -> str | None:
    """Carry out a step that belongs to no driver."""
    name = step["step"]
    if name == "hold":
        return _HOLD
    if name == "wait":
        return _wait_for_time(task, steps.arguments(step))
    if name == "reboot":
        task.driver.deploy.prepare_restart(task)
        task.switch_power(base.REBOOT)
        task.forget_agent(keep_token=True)
        task.node.power_state = base.POWER_ON
        return None
    switch(task, base.POWER_ON if name == "power_on" else base.POWER_OFF)
    return None


def switch(task: Task, state: str) -> None:
    """Switch a machine on or off between steps; a ramdisk of the run boots again.

    :raises errors.HardwareError: the node must stay on, or the change failed.
    """
    if state == base.POWER_OFF and task.node.disable_power_off:
        raise errors.HardwareError(reason="the node's disable_power_off is set")
    if state == base.POWER_ON and task.driver.power.get_power_state(task) == base.POWER_OFF:
        task.driver.deploy.prepare_restart(task)
    task.switch_power(state)
    task.node.power_state = state


def _wait_for_time(task: Task, args: JsonView) -> str | None:
    """Sleep for a short time, set a timer for a long one; without a time, wait.

    The wait without a time ends with a heartbeat.
    """
    seconds = args.get("seconds")
    if seconds is None:
        return "wait"
    if seconds <= task.runtime.conf.conductor.max_conductor_wait_step_seconds:
        task.pause(seconds)
        return None
    task.wake_after(seconds)
    return "wait"


def rerunnable(task: Task, kind: StepKind, step: StoredStep) -> bool:
    """Return whether a step may run again after a crash."""
    if step["step"] in step_lists.RESERVED:
        return True
    return task.driver.interface(step["interface"]).may_repeat(task, kind, step)


# Steps on the children of a node, one after the other, instead of on the node.
#
# The conductor that works on the parent runs the step, whichever conductor owns a child. The
# child's lock, held during its step, excludes all others. A child keeps its provision state; its
# power state and its history show the step and its result.


_CONTINUES_TEXT = (
    "the step continues asynchronously, which a child's step may only do with "
    "[conductor]permit_child_node_step_async_result"
)
_ERASES_TEXT = (
    "the step erases asynchronously, so its end cannot be recorded. Clean the child node itself, "
    "without its parent."
)
_LOCK_PAUSE = 1.0  # seconds between two polls of a child whose lock holder may be dead
_CHILDREN_PAGE = 500


def children_of(task: Task) -> list[Node]:
    """Return all children of a node, the oldest first."""
    found: list[Json] = []
    page = None
    while page is None or len(page) == _CHILDREN_PAGE:
        marker = found[-1]["uuid"] if found else None
        question = functools.partial(_child_page, parent=task.node.uuid, marker=marker)
        page = task.runtime.database.read(question)
        found += page
    return [Node.of(row) for row in found]


def _child_page(conn: Connection, *, parent: str, marker: str | None) -> list[Json]:
    where = {"parent_node": parent}
    return nodes.page(conn, columns=None, where=where, marker_id=marker, limit=_CHILDREN_PAGE)


def chosen_children(step: StoredStep, children: list[Node]) -> list[Node]:
    """Return the children for a step: those it names, or all."""
    limit = {str(one).lower() for one in step.get(step_lists.LIMIT) or ()}
    return [child for child in children if not limit or child.uuid in limit]


def unfit_child(child: Node) -> str | None:
    """Return the reason why a child cannot be used now; None: it can."""
    if child.maintenance:
        return "it is in maintenance"
    state = State(child.provision_state)
    if states.kind(state) in (Kind.BUSY, Kind.WAIT, Kind.HELD):
        return f'it is busy in state "{state}"'
    return None


def refusal_by_hold_of_child(
    found: Sequence[holds.Hold], child: str, kind: StepKind, step: StoredStep
) -> errors.NodeHeld | None:
    """Return the refusal of a step on a child by its holds in force; None: they permit it.

    A hold that refuses a verb of the child refuses the same steps by a verb of its parent.
    """
    power = step["step"] in step_lists.RESERVED  # those for children switch the power
    for operation in (str(kind), *((holds.POWER,) if power else ())):
        why = holds.refusal(child, found, operation, f"the {kind} step {steps.title(step)}")
        if why is not None:
            return why
    return None


def rerunnable_on_children(task: Task, kind: StepKind, step: StoredStep) -> bool:
    """Return whether a step may run again after a crash, on each of its children."""
    found = (
        task.other_nodes.view(task.context, child)
        for child in chosen_children(step, children_of(task))
    )
    return all(rerunnable(child, kind, step) for child in found)


def perform_on_children(task: Task, phase: Phase, step: StoredStep) -> None:
    """Run a step on each of its children; the first failure ends it.

    Without children there is nothing to do, which is no error: one list serves machines with and
    without children. After a crash the step runs again on all children.

    :param task: of the parent, during ``phase``.
    :raises errors.HardwareError: naming the child.
    :raises errors.LockLost: another conductor now has the parent.
    :raises errors.Stopping: the service stops; the whole step runs again later.
    """
    found = chosen_children(step, children_of(task))
    if not found:
        LOG.warning("Node %s has no child for %s", task.node.uuid, steps.title(step))
    for child in found:
        task.confirm_lock()  # a new owner of the parent runs the step on all children again
        try:
            with lock_other(task, child.uuid) as child_task:
                _run_on_child(child_task, phase, step, parent=task)
        except errors.Stopping:
            raise
        except Exception as why:  # also a lost lock of the child, which is not the parent's
            reason = f"on child node {child.uuid}: {_error_text(why)}"
            LOG.info("Child node %s: %s failed", child.uuid, steps.title(step), exc_info=why)
            cause = failures.failure(why)
            raise errors.HardwareError(reason=reason, child=child.uuid) from cause


def _run_on_child(task: Task, phase: Phase, step: StoredStep, *, parent: Task) -> None:
    """Run the step on one child under its lock and record it in the child's history."""
    if task.node.parent_node != parent.node.uuid:
        raise errors.HardwareError(reason="it is no child of this node any more")
    reason = unfit_child(task.node)
    if reason is not None:
        raise errors.HardwareError(reason=reason)
    uuid = task.node.uuid
    # Under the lock, because a hold may have been set since the request to the parent.
    project = task.context.project
    found = task.runtime.database.read(lambda conn: hold_rows.in_force(conn, uuid, project))
    held = refusal_by_hold_of_child(found, uuid, phase.kind, step)
    if held is not None:
        raise held
    about = {"step": steps.title(step), "parent": parent.node.uuid}
    task.journal.event("step_started", event=history.FOR_PARENT, data=about)
    begun = evidence.begins_on_child(task, parent, phase.kind, step)
    task.save()
    try:
        if perform(task, phase, step) is not None:
            _refuse_to_wait(task, phase, step)
    except (errors.LockLost, errors.Stopping):
        raise
    except Exception as why:
        failure = failures.failure(why)
        cause = failures.of(failure, task.journal.hide)
        evidence.ended_on_child(task, parent, phase.kind, step, begun=begun, failure=failure)
        _end_on_child(task, {**about, "error": _error_text(why), "cause": cause})
        raise
    evidence.ended_on_child(task, parent, phase.kind, step, begun=begun)
    _end_on_child(task, about)


def _end_on_child(task: Task, about: Json) -> None:
    task.node.wake_at = None  # a child does not wait, because nothing would poll it
    task.journal.event("step_ended", event=history.FOR_PARENT, data=about)
    task.save()


def _refuse_to_wait(task: Task, phase: Phase, step: StoredStep) -> None:
    if phase.kind is StepKind.CLEAN and erasure_records.erases(step):
        raise errors.HardwareError(reason=_ERASES_TEXT)
    if not task.runtime.conf.conductor.permit_child_node_step_async_result:
        raise errors.HardwareError(reason=_CONTINUES_TEXT)


def _error_text(why: Exception) -> str:
    if isinstance(why, errors.StepFailed):
        return str(why.facts.get("reason") or why.message)
    return failures.failure(why).message


# -- the lock of another node ----------------------------------------------------------------


@contextlib.contextmanager
def lock_other(task: Task, uuid: str) -> Iterator[Task]:
    """Hold the lock of a child or parent, which a conductor that died meanwhile may still have.

    :raises errors.NodeLocked: another task works on that node, after all retries.
    :raises errors.Stopping: the service stops.
    """
    settings = task.runtime.conf.conductor
    left = settings.node_locked_retry_attempts
    with contextlib.ExitStack() as stack:
        while True:
            other = task.runtime.database.read(lambda conn: nodes.load(conn, uuid))
            stale = task.other_nodes.locks.dead_lock(other)
            lock = task.other_nodes.lock(task.context, uuid, patient=False, stale=stale)
            try:
                held = stack.enter_context(lock)
                break
            except errors.NodeLocked:
                left -= 0 if task.other_nodes.locks.running_out(other) else 1
                if left <= 0:
                    raise
            task.pause(settings.node_locked_retry_interval or _LOCK_PAUSE)
        if held.held is not None:
            held.held.above = task.held  # work on that node is progress of this one
        held.above = task
        yield held
