"""Lists of steps somebody asked for: what of them the node itself refuses before anything runs.

``plans`` checks a list against the steps that drivers offer; what depends on the node stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ironic_lite import errors, plans, steps
from ironic_lite.conductor.flows import offers
from ironic_lite.conductor.task import Task
from ironic_lite.steps import StepKind

Json = dict[str, Any]


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
    known = plans.overridden(offers.offered(task, kind), overrides or {})
    faults = power_faults(task, kind, wanted)
    return plans.requested(wanted, known, kind, ramdisk=ramdisk, besides=faults)


def power_faults(task: Task, kind: StepKind, wanted: Sequence[Json]) -> list[str]:
    """Return a sentence for each step that would switch off a machine that must stay on."""
    if not task.node.disable_power_off:
        return []
    return [
        f"{kind} step {steps.title(step)} is not possible while the node's disable_power_off is set"
        for step in wanted
        if step["step"] == "power_off" and not step.get("execute_on_child_nodes")
    ]


def refuse(kind: StepKind, faults: Sequence[str]) -> None:
    """Refuse a request for the faults that were found in it, if any.

    :raises errors.InvalidParameter: with all of them.
    """
    if faults:
        raise errors.InvalidParameter("; ".join(faults), path=f"{kind}_steps", reason=list(faults))
