"""Checks of requested step lists that depend on the node and its children.

``domain.step_planning`` checks a list against the steps that drivers offer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.conductor.steps import available, children
from ironic_lite.conductor.work.task import Task
from ironic_lite.db.queries import holds
from ironic_lite.domain import list_faults, step_planning, steps
from ironic_lite.domain.list_faults import Fault
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import Node, StoredStep

_STAYS = ("hold", "wait")  # reserved steps that stop a run; a child has no run

# -- at the request --------------------------------------------------------------------------


def child_refusals(
    task: Task, kind: StepKind, wanted: Sequence[StoredStep]
) -> Iterator[errors.Error]:
    """Yield the refusals of steps for child nodes, while the client waits.

    They name the place: a limit without the flag, a limit that is no child of this node, a step
    that only stops a run, or a child in maintenance. Then those by holds in force on children.
    """
    if not any(
        step_planning.for_children(step) or step.get(step_planning.LIMIT) for step in wanted
    ):
        return
    known = children.of(task)
    for place, step in enumerate(wanted):
        yield from _refusals_of_step(step, known, f"{kind}_steps/{place}")
    yield from _refusals_of_holds(task, kind, wanted, known)


def _refusals_of_holds(
    task: Task, kind: StepKind, wanted: Sequence[StoredStep], known: list[Node]
) -> Iterator[errors.NodeHeld]:
    uuids, project = [child.uuid for child in known], task.context.project
    found = task.runtime.database.read(lambda conn: holds.in_force_of(conn, uuids, project))
    for step in filter(step_planning.for_children, wanted):
        for child in children.chosen(step, known):
            held = found.get(child.uuid, [])
            if why := children.refusal_of_hold(held, child.uuid, kind, step):
                yield why


def _refusals_of_step(
    step: StoredStep, known: list[Node], path: str
) -> Iterator[errors.InvalidParameter]:
    limit = f"{path}/{step_planning.LIMIT}"
    if not step_planning.for_children(step):
        if step.get(step_planning.LIMIT):
            yield _wrong_step(limit, "needs execute_on_child_nodes to be true")
        return
    if step["step"] in _STAYS:
        reason = f"{step['step']} is for the node itself, not for its children"
        yield _wrong_step(f"{path}/step", reason)
    uuids = {child.uuid for child in known}
    for place, one in enumerate(step.get(step_planning.LIMIT) or ()):
        if str(one).lower() not in uuids:
            reason = f"{str(one)!r} is not the UUID of a child of this node"
            yield _wrong_step(f"{limit}/{place}", reason)
    for child in children.chosen(step, known):
        if child.maintenance:
            reason = (
                f"child node {child.uuid} is in maintenance; end it, or name the other children"
            )
            yield _wrong_step(limit if step.get(step_planning.LIMIT) else path, reason)


def _wrong_step(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)


def needs_ramdisk(task: Task, kind: StepKind, wanted: Sequence[StoredStep]) -> bool:
    """Return whether a requested run must boot the ramdisk.

    It need not if each step is known without a ramdisk and is marked to need none. Steps of the
    service itself, and steps for children, need no ramdisk, except a step that waits for a
    heartbeat.
    """
    own = [step for step in wanted if not step_planning.for_children(step)]
    named = [step for step in own if step["step"] not in step_planning.RESERVED]
    waits = any(step["step"] == "wait" and "seconds" not in steps.arguments(step) for step in own)
    if waits or not named:
        return True
    try:
        offered = available.offered(task, kind)
    except errors.Error:  # the error is reported when the list is made
        return True
    without = {step.title for step in offered if not step.requires_ramdisk}
    return any(steps.title(step) not in without for step in named)


# -- when the list is made -------------------------------------------------------------------


def complete(
    task: Task,
    kind: StepKind,
    wanted: Sequence[StoredStep],
    *,
    overrides: step_planning.Overrides | None = None,
    ramdisk: bool = True,
    skip: Collection[int] = (),
) -> list[StoredStep]:
    """Return a requested list as stored, after checking it as a whole.

    Requirement S1.16.

    :param wanted: the steps of the request.
    :param overrides: configured priorities, by ``interface.step``.
    :param ramdisk: as in ``step_planning.requested``.
    :param skip: ordinals of steps that are not checked, because they will not run.
    :raises errors.InvalidParameter: with every fault of the whole list.
    """
    offered = available.offered(task, kind, ramdisk=ramdisk)
    known = step_planning.overridden(offered, overrides or {})
    faults = node_faults(task, kind, wanted, skip)
    return step_planning.requested(wanted, known, kind, ramdisk=ramdisk, skip=skip, besides=faults)


def node_faults(
    task: Task, kind: StepKind, wanted: Sequence[StoredStep], skip: Collection[int] = ()
) -> list[Fault]:
    """Return the faults of a list that depend on the node or on its children.

    :param skip: ordinals of steps that are not checked, because they will not run.
    """
    of_children = _children_faults(task, kind, wanted, skip)
    return [*power_faults(task.node, kind, wanted, skip), *of_children]


def power_faults(
    node: Node, kind: StepKind, wanted: Iterable[StoredStep], skip: Collection[int] = ()
) -> list[Fault]:
    """Return the fault of each step that would break the node's ``disable_power_off``.

    :param skip: ordinals of steps that are not checked, because they will not run.
    """
    return [
        Fault(f"{kind}_steps/{place}/step", text)
        for place, step in enumerate(wanted)
        if place not in skip and not step_planning.for_children(step)
        for text in _power_texts(node, kind, step)
    ]


def power_texts(node: Node, kind: StepKind, wanted: Iterable[StoredStep]) -> list[str]:
    """Return the sentences of `power_faults` for steps that no request lists."""
    return [text for step in wanted for text in _power_texts(node, kind, step)]


def _power_texts(node: Node, kind: StepKind, step: StoredStep) -> list[str]:
    if not node.disable_power_off or step["step"] != "power_off":
        return []
    title = steps.title(step)
    return [f"{kind} step {title} is not possible while the node's disable_power_off is set"]


def _children_faults(
    task: Task, kind: StepKind, wanted: Sequence[StoredStep], skip: Collection[int]
) -> list[Fault]:
    """Return the faults that the children's drivers find in the steps for children."""
    theirs = {
        place: step
        for place, step in enumerate(wanted)
        if place not in skip and step_planning.for_children(step)
    }
    known = children.of(task) if theirs else []
    found = []
    for child in known:
        mine = {
            place: step for place, step in theirs.items() if child in children.chosen(step, known)
        }
        for fault in _child_faults(task, child, kind, mine):
            found.append(Fault(fault.path, f"on child node {child.uuid}: {fault.text}"))
    return found


def _child_faults(
    task: Task, child: Node, kind: StepKind, mine: Mapping[int, StoredStep]
) -> list[Fault]:
    if not mine:
        return []
    path = f"{kind}_steps"
    try:
        offered = available.offered(task.other_nodes.view(task.context, child), kind)
    except errors.Error as why:  # an interface that is not loaded, or cannot list its steps
        return [Fault(f"{path}/{min(mine)}", why.message)]
    known = {step.title: step for step in offered}
    found = []
    for place, step in mine.items():
        for text in _power_texts(child, kind, step):
            found.append(Fault(f"{path}/{place}/step", text))
    for place, step in mine.items():
        if step["step"] not in step_planning.RESERVED:  # their arguments are the same on every node
            found += list_faults.of_step(step, known, kind, f"{path}/{place}", ramdisk=True)
    return found
