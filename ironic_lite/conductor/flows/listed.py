"""Lists of steps somebody asked for: what of them the node itself refuses before anything runs.

``plans`` checks a list against the steps that drivers offer; what depends on the node, and on its
children, stands here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ironic_lite import errors, plans, steps
from ironic_lite.conductor import children
from ironic_lite.conductor.flows import offers
from ironic_lite.conductor.task import Task
from ironic_lite.records import Node
from ironic_lite.steps import StepKind

Json = dict[str, Any]

_STAYS = ("hold", "wait")  # reserved steps that stop a run; a child has none to stop

# -- at the request --------------------------------------------------------------------------


def admit(task: Task, kind: StepKind, wanted: Sequence[Json]) -> None:
    """Refuse steps for child nodes that cannot be meant so, while the caller listens.

    :raises errors.InvalidParameter: naming the place: a limit without the flag, a limit that is no
        child of this node, a step that only stops a run, or a child in maintenance.
    """
    if not any(plans.for_children(step) or step.get(plans.LIMIT) for step in wanted):
        return
    known = children.of(task)
    for place, step in enumerate(wanted):
        _admit(step, known, f"{kind}_steps/{place}")


def _admit(step: Json, known: list[Node], path: str) -> None:
    limit = f"{path}/{plans.LIMIT}"
    if not plans.for_children(step):
        if step.get(plans.LIMIT):
            raise _wrong(limit, "needs execute_on_child_nodes to be true")
        return
    if step["step"] in _STAYS:
        raise _wrong(f"{path}/step", f"{step['step']} is for the node itself, not for its children")
    uuids = {child.uuid for child in known}
    for place, one in enumerate(step.get(plans.LIMIT) or ()):
        if str(one).lower() not in uuids:
            raise _wrong(
                f"{limit}/{place}", f"{str(one)!r} is not the UUID of a child of this node"
            )
    for child in children.chosen(step, known):
        if child.maintenance:
            reason = (
                f"child node {child.uuid} is in maintenance; end it, or name the other children"
            )
            raise _wrong(limit if step.get(plans.LIMIT) else path, reason)


def _wrong(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)


def refuse(kind: StepKind, faults: Sequence[str]) -> None:
    """Refuse a request for the faults that were found in it, if any.

    :raises errors.InvalidParameter: with all of them.
    """
    if faults:
        raise errors.InvalidParameter("; ".join(faults), path=f"{kind}_steps", reason=list(faults))


def needs_ramdisk(task: Task, kind: StepKind, wanted: Sequence[Json]) -> bool:
    """Tell whether a listed run has to boot the ramdisk.

    It has not if each step is known without one, and is marked to need none. Steps of the service
    itself, and those for children, change nothing of that; but one that waits for a heartbeat does.
    """
    own = [step for step in wanted if not plans.for_children(step)]
    named = [step for step in own if step["step"] not in plans.RESERVED]
    waits = any(
        step["step"] == "wait" and "seconds" not in (step.get("args") or {}) for step in own
    )
    if waits or not named:
        return True
    try:
        offered = offers.offered(task, kind)
    except errors.Error:  # what is wrong is told when the list is made
        return True
    without = {step.title for step in offered if not step.requires_ramdisk}
    return any(steps.title(step) not in without for step in named)


# -- when the list is made -------------------------------------------------------------------


def complete(
    task: Task,
    kind: StepKind,
    wanted: Sequence[Json],
    *,
    overrides: plans.Overrides | None = None,
    ramdisk: bool = True,
) -> list[Json]:
    """Return a listed run as it is stored, checked whole (S1.16).

    :param wanted: the steps of the request.
    :param overrides: configured priorities, by ``interface.step``.
    :param ramdisk: as in ``plans.requested``.
    :raises errors.InvalidParameter: with every fault of the whole list.
    """
    offered = offers.offered(task, kind, ramdisk=ramdisk)
    known = plans.overridden(offered, overrides or {})
    own = [step for step in wanted if not plans.for_children(step)]
    faults = [*power_faults(task.node, kind, own), *_children_faults(task, kind, wanted)]
    return plans.requested(wanted, known, kind, ramdisk=ramdisk, besides=faults)


def power_faults(node: Node, kind: StepKind, wanted: Iterable[Json]) -> list[str]:
    """Return a sentence for each step that would switch off a machine that must stay on."""
    if not node.disable_power_off:
        return []
    return [
        f"{kind} step {steps.title(step)} is not possible while the node's disable_power_off is set"
        for step in wanted
        if step["step"] == "power_off"
    ]


def _children_faults(task: Task, kind: StepKind, wanted: Sequence[Json]) -> list[str]:
    """Return what the children's drivers refuse of the steps that are meant for them."""
    theirs = [step for step in wanted if plans.for_children(step)]
    known = children.of(task) if theirs else []
    found = []
    for child in known:
        mine = [step for step in theirs if child in children.chosen(step, known)]
        for fault in _child_faults(task, child, kind, mine):
            found.append(f"on child node {child.uuid}: {fault}")
    return found


def _child_faults(task: Task, child: Node, kind: StepKind, mine: Sequence[Json]) -> list[str]:
    if not mine:
        return []
    try:
        offered = offers.offered(task.others.view(task.context, child), kind)
    except errors.Error as why:  # an interface that is not here, or that does not know its steps
        return [why.message]
    found = power_faults(child, kind, mine)
    for step in mine:
        if step["step"] not in plans.RESERVED:  # their arguments are the same on every node
            found += plans.step_faults(step, offered, kind)
    return found
