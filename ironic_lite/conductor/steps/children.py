"""Steps on the children of a node, one after the other, instead of on the node.

The conductor that works on the parent runs the step, whichever conductor owns a child. The child's
lock, held during its step, excludes all others. A child keeps its provision state; its power state
and its history show the step and its result.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence

from ironic_lite import errors
from ironic_lite.conductor.steps import evidence, step_execution
from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.conductor.work.task import Task
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds as hold_rows
from ironic_lite.db.queries import nodes
from ironic_lite.domain import (
    causes,
    erasure_records,
    history,
    holds,
    states,
    step_planning,
    steps,
)
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import Node, StoredStep

LOG = logging.getLogger(__name__)

_GOES_ON = (
    "the step continues asynchronously, which a child's step may only do with "
    "[conductor]permit_child_node_step_async_result"
)
_ERASES_ON = (
    "the step erases asynchronously, so its end cannot be recorded. Clean the child node itself, "
    "without its parent."
)
_LOOK = 1.0  # seconds between two polls of a child whose lock holder may be dead
_PAGE = 500


def of(task: Task) -> list[Node]:
    """Return all children of a node, the oldest first."""
    found: list[Json] = []
    page = None
    while page is None or len(page) == _PAGE:
        marker = found[-1]["uuid"] if found else None
        question = functools.partial(_child_page, parent=task.node.uuid, marker=marker)
        page = task.runtime.database.read(question)
        found += page
    return [Node.of(row) for row in found]


def _child_page(conn: Connection, *, parent: str, marker: str | None) -> list[Json]:
    where = {"parent_node": parent}
    return nodes.page(conn, columns=None, where=where, marker_id=marker, limit=_PAGE)


def chosen(step: StoredStep, children: list[Node]) -> list[Node]:
    """Return the children for a step: those it names, or all."""
    limit = {str(one).lower() for one in step.get(step_planning.LIMIT) or ()}
    return [child for child in children if not limit or child.uuid in limit]


def unfit(child: Node) -> str | None:
    """Return the reason why a child cannot be used now; None: it can."""
    if child.maintenance:
        return "it is in maintenance"
    state = State(child.provision_state)
    if states.kind(state) in (Kind.BUSY, Kind.WAIT, Kind.HELD):
        return f'it is busy in state "{state}"'
    return None


def refusal_of_hold(
    found: Sequence[holds.Hold], child: str, kind: StepKind, step: StoredStep
) -> errors.NodeHeld | None:
    """Return the refusal of a step on a child by its holds in force; None: they permit it.

    A hold that refuses a verb of the child refuses the same steps by a verb of its parent.
    """
    power = step["step"] in step_planning.RESERVED  # those for children switch the power
    for operation in (str(kind), *((holds.POWER,) if power else ())):
        why = holds.refusal(child, found, operation, f"the {kind} step {steps.title(step)}")
        if why is not None:
            return why
    return None


def rerunnable(task: Task, kind: StepKind, step: StoredStep) -> bool:
    """Return whether a step may run again after a crash, on each of its children."""
    found = (task.other_nodes.view(task.context, child) for child in chosen(step, of(task)))
    return all(step_execution.rerunnable(child, kind, step) for child in found)


def execute(task: Task, phase: Phase, step: StoredStep) -> None:
    """Run a step on each of its children; the first failure ends it.

    Without children there is nothing to do, which is no error: one list serves machines with and
    without children. After a crash the step runs again on all children.

    :param task: of the parent, during ``phase``.
    :raises errors.HardwareError: naming the child.
    :raises errors.LockLost: another conductor now has the parent.
    :raises errors.Stopping: the service stops; the whole step runs again later.
    """
    found = chosen(step, of(task))
    if not found:
        LOG.warning("Node %s has no child for %s", task.node.uuid, steps.title(step))
    for child in found:
        task.confirm_lock()  # a new owner of the parent runs the step on all children again
        try:
            with hold(task, child.uuid) as child_task:
                _run_on_child(child_task, phase, step, parent=task)
        except errors.Stopping:
            raise
        except Exception as why:  # also a lost lock of the child, which is not the parent's
            reason = f"on child node {child.uuid}: {_error_text(why)}"
            LOG.info("Child node %s: %s failed", child.uuid, steps.title(step), exc_info=why)
            cause = causes.failure(why)
            raise errors.HardwareError(reason=reason, child=child.uuid) from cause


def _run_on_child(task: Task, phase: Phase, step: StoredStep, *, parent: Task) -> None:
    """Run the step on one child under its lock and record it in the child's history."""
    reason = _no_child_of(task.node, parent.node.uuid) or unfit(task.node)
    if reason is not None:
        raise errors.HardwareError(reason=reason)
    uuid = task.node.uuid
    # Under the lock, because a hold may have been set since the request to the parent.
    project = task.context.project
    found = task.runtime.database.read(lambda conn: hold_rows.in_force(conn, uuid, project))
    held = refusal_of_hold(found, uuid, phase.kind, step)
    if held is not None:
        raise held
    about = {"step": steps.title(step), "parent": parent.node.uuid}
    task.journal.event("step_started", event=history.FOR_PARENT, data=about)
    begun = evidence.begins_on_child(task, parent, phase.kind, step)
    task.save()
    try:
        if step_execution.perform(task, phase, step) is not None:
            _refuse_to_go_on(task, phase, step)
    except (errors.LockLost, errors.Stopping):
        raise
    except Exception as why:
        failure = causes.failure(why)
        cause = causes.of(failure, task.journal.hide)
        evidence.ended_on_child(task, parent, phase.kind, step, begun=begun, failure=failure)
        _end_on_child(task, {**about, "error": _error_text(why), "cause": cause})
        raise
    evidence.ended_on_child(task, parent, phase.kind, step, begun=begun)
    _end_on_child(task, about)


def _end_on_child(task: Task, about: Json) -> None:
    task.node.wake_at = None  # a child does not wait, because nothing would poll it
    task.journal.event("step_ended", event=history.FOR_PARENT, data=about)
    task.save()


def _no_child_of(child: Node, parent: str) -> str | None:
    return None if child.parent_node == parent else "it is no child of this node any more"


def _refuse_to_go_on(task: Task, phase: Phase, step: StoredStep) -> None:
    if phase.kind is StepKind.CLEAN and erasure_records.erases(step):
        raise errors.HardwareError(reason=_ERASES_ON)
    if not task.runtime.conf.conductor.permit_child_node_step_async_result:
        raise errors.HardwareError(reason=_GOES_ON)


def _error_text(why: Exception) -> str:
    if isinstance(why, errors.StepFailed):
        return str(why.facts.get("reason") or why.message)
    return causes.failure(why).message


# -- the lock of another node ----------------------------------------------------------------


@contextlib.contextmanager
def hold(task: Task, uuid: str) -> Iterator[Task]:
    """Hold the lock of a child or parent, which a conductor that died meanwhile may still have.

    :raises errors.NodeLocked: another task works on that node, after all retries.
    :raises errors.Stopping: the service stops.
    """
    settings = task.runtime.conf.conductor
    left = settings.node_locked_retry_attempts
    with contextlib.ExitStack() as stack:
        while True:
            other = _read_other(task, uuid)
            stale = task.other_nodes.left(other)
            lock = task.other_nodes.lock(task.context, uuid, patient=False, stale=stale)
            try:
                held = stack.enter_context(lock)
                break
            except errors.NodeLocked:
                left -= 0 if task.other_nodes.running_out(other) else 1
                if left <= 0:
                    raise
            task.pause(settings.node_locked_retry_interval or _LOOK)
        if held.held is not None:
            held.held.above = task.held  # work on that node is progress of this one
        held.above = task
        yield held


def _read_other(task: Task, uuid: str) -> Node:
    found: Node = task.runtime.database.read(lambda conn: nodes.load(conn, uuid))
    return found
