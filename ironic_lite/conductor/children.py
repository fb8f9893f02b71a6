"""A step that runs on the children of a node, one after the other, instead of on the node itself.

Whoever works on the parent runs it, whichever conductor owns a child: the child's own lock, held
for the length of its step, keeps everybody else away. A child keeps its provision state; that the
step ran, and how it ended, is told by its power state and its history.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from typing import Any

from ironic_lite import errors, history, plans, states, steps
from ironic_lite.conductor import acts
from ironic_lite.conductor.phases import Phase
from ironic_lite.conductor.task import Task
from ironic_lite.db import nodes
from ironic_lite.db.session import Connection
from ironic_lite.records import Node
from ironic_lite.states import Kind, State
from ironic_lite.steps import StepKind

LOG = logging.getLogger(__name__)

Json = dict[str, Any]

_GOES_ON = (
    "the step goes on by itself, which a child's step may only do with "
    "[conductor]permit_child_node_step_async_result"
)
_LOOK = 1.0  # seconds between two looks at a child whose holder may be dead
_PAGE = 500


def of(task: Task) -> list[Node]:
    """Return all children of a node, the oldest first."""
    found: list[Json] = []
    page = None
    while page is None or len(page) == _PAGE:
        marker = found[-1]["uuid"] if found else None
        question = functools.partial(_page, parent=task.node.uuid, marker=marker)
        page = task.desk.database.read(question)
        found += page
    return [Node.of(row) for row in found]


def _page(conn: Connection, *, parent: str, marker: str | None) -> list[Json]:
    where = {"parent_node": parent}
    return nodes.page(conn, columns=None, where=where, marker_id=marker, limit=_PAGE)


def chosen(step: Json, children: list[Node]) -> list[Node]:
    """Return the children that a step is meant for: those it names, or all."""
    limit = {str(one).lower() for one in step.get(plans.LIMIT) or ()}
    return [child for child in children if not limit or child.uuid in limit]


def unfit(child: Node) -> str | None:
    """Return why nothing may be done on a child now; None: it may."""
    if child.maintenance:
        return "it is in maintenance"
    state = State(child.provision_state)
    if states.kind(state) in (Kind.BUSY, Kind.WAIT, Kind.HELD):
        return f'it is in the middle of something, in state "{state}"'
    return None


def rerunnable(task: Task, kind: StepKind, step: Json) -> bool:
    """Tell whether a step may be run again after a crash, on every child it is meant for."""
    found = (task.others.view(task.context, child) for child in chosen(step, of(task)))
    return all(acts.rerunnable(child, kind, step) for child in found)


def execute(task: Task, phase: Phase, step: Json) -> None:
    """Run a step on each child it is meant for; the first that fails ends it.

    Without any child there is nothing to do, and that is no fault: one list serves machines with
    and without children. After a crash all children have their step again.

    :param task: of the parent, in the middle of ``phase``.
    :raises errors.HardwareError: naming the child.
    :raises errors.Stopping: the service stops; all is done again later.
    """
    found = chosen(step, of(task))
    if not found:
        LOG.warning("Node %s has no child for %s", task.node.uuid, steps.title(step))
    for child in found:
        try:
            with _held(task, child.uuid) as child_task:
                _run(child_task, phase, step, parent=task.node.uuid)
        except errors.Stopping:
            raise
        except Exception as why:  # also its lost lock: that is not the parent's
            text = _text(why)
            LOG.info("Child node %s: %s failed", child.uuid, steps.title(step), exc_info=why)
            raise errors.HardwareError(reason=f"on child node {child.uuid}: {text}") from why


def _run(task: Task, phase: Phase, step: Json, *, parent: str) -> None:
    """Run the step on one child under its lock, and write into its history what happens."""
    reason = _no_child_of(task.node, parent) or unfit(task.node)
    if reason is not None:
        raise errors.HardwareError(reason=reason)
    about = {"step": steps.title(step), "parent": parent}
    task.journal.event("step_started", event=history.FOR_PARENT, data=about)
    task.save()
    try:
        if acts.perform(task, phase, step) is not None and not _async_permitted(task):
            raise errors.HardwareError(reason=_GOES_ON)
    except (errors.LockLost, errors.Stopping):
        raise
    except Exception as why:
        _ended(task, {**about, "error": _text(why)})
        raise
    _ended(task, about)


def _ended(task: Task, about: Json) -> None:
    task.node.wake_at = None  # a child does not wait: nobody would ask how it goes on
    task.journal.event("step_ended", event=history.FOR_PARENT, data=about)
    task.save()


def _no_child_of(child: Node, parent: str) -> str | None:
    return None if child.parent_node == parent else "it is no child of this node any more"


def _async_permitted(task: Task) -> bool:
    return bool(task.desk.conf.conductor.permit_child_node_step_async_result)


def _text(why: Exception) -> str:
    if isinstance(why, errors.StepFailed):
        return str(why.facts.get("reason") or why.message)
    if isinstance(why, errors.Error):
        return why.message
    return f"unexpected {type(why).__name__}: {why}"


# -- a child's lock --------------------------------------------------------------------------


@contextlib.contextmanager
def _held(task: Task, child_uuid: str) -> Iterator[Task]:
    """Hold a child's lock, which may still be that of a conductor that died in this very step.

    :raises errors.NodeLocked: somebody else works on the child, however often it was tried.
    :raises errors.Stopping: not now: the service stops.
    """
    settings = task.desk.conf.conductor
    left = settings.node_locked_retry_attempts
    with contextlib.ExitStack() as stack:
        while True:
            child = _look(task, child_uuid)
            stale = task.others.left(child)
            lock = task.others.lock(task.context, child_uuid, patient=False, stale=stale)
            try:
                held = stack.enter_context(lock)
                break
            except errors.NodeLocked:
                left -= 0 if task.others.running_out(child) else 1
                if left <= 0:
                    raise
            task.pause(settings.node_locked_retry_interval or _LOOK)
        yield held


def _look(task: Task, child_uuid: str) -> Node:
    found: Node = task.desk.database.read(lambda conn: nodes.load(conn, child_uuid))
    return found
