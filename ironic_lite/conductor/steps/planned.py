"""Documents of the steps of a plan: where each comes from, and what it does to the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ironic_lite.conductor.steps.available import Expected
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.domain import step_effects, step_planning, steps
from ironic_lite.domain.step_effects import Effects
from ironic_lite.domain.steps import Step, StepKind
from ironic_lite.drivers.registry import DEPLOY_PRIORITIES
from ironic_lite.records import StoredStep

_OVERRIDE = "clean_step_priority_override"
_MARKED = (StepKind.CLEAN, StepKind.SERVICE)
"""Kinds whose steps declare if they need a ramdisk."""


class Origin(NamedTuple):
    """The reason why a step is in a list.

    ``what`` is ``request``, ``runbook``, ``template``, or ``run`` for a retry. For a step that is
    there by its priority it is ``driver``, ``agent``, or ``option`` if an option sets this
    priority. ``name`` is the path in the request, the name of the runbook, template or interface,
    the run, or the option.
    """

    what: str
    name: str | None


def origin(task: Task, step: Step, expected: Expected) -> Origin:
    """Return the origin of a step that is listed by its priority."""
    if step.title in task.runtime.clean_priorities:
        return Origin("option", _option_of(task, step.title))
    if step.title in expected.told_at:
        return Origin("agent", None)
    return Origin("driver", getattr(task.node, f"{step.interface}_interface"))


def _option_of(task: Task, title: str) -> str:
    if title in config.priorities(task.runtime.conf.conductor[_OVERRIDE]):
        return f"[conductor]{_OVERRIDE}"
    found = (option for option, step in DEPLOY_PRIORITIES.items() if step == title)
    return f"[deploy]{next(found)}"


def documents(
    task: Task,
    kind: StepKind,
    listed: Sequence[StoredStep],
    origins: Sequence[Origin],
    expected: Expected,
) -> list[Json]:
    """Return the documents of a list, without the usual durations."""
    known = {step.title: step for step in expected.steps}
    found = []
    for ordinal, (step, source) in enumerate(zip(listed, origins, strict=True)):
        title = steps.title(step)
        effects = _effects(task, kind, step, known.get(title))
        destroys = None if effects.destroys is None else list(effects.destroys)
        found.append(
            {
                "ordinal": ordinal,
                "interface": step["interface"],
                "step": step["step"],
                "args": steps.arguments(step),
                "priority": step_planning.read_priority(step),
                "abortable": bool(step.get("abortable", False)),
                "from": source._asdict(),
                "by": _performer(task, kind, step, known.get(title), expected),
                "known": expected.told_at.get(title),
                "destroys": destroys,
                "restarts": effects.restarts,
                "lasting": effects.lasting,
            }
        )
    return found


def restarts(rows: Sequence[Json], boots: int, *, whole: bool) -> int | None:
    """Return the number of restarts of a run, None if it is unknown for a step.

    :param boots: restarts of the run itself.
    :param whole: whether all steps are known.
    """
    numbers: list[int | None] = [row["restarts"] for row in rows]
    known = [number for number in numbers if number is not None]
    return boots + sum(known) if whole and len(known) == len(numbers) else None


def destroys(rows: Sequence[Json], *, whole: bool) -> list[str] | None:
    """Return everything that a run destroys, None if it is unknown for a step."""
    words = [row["destroys"] for row in rows]
    if not whole or None in words:
        return None
    every = {word for some in words for word in some}
    return [word for word in step_effects.DESTROYED if word in every]


def _effects(task: Task, kind: StepKind, step: StoredStep, known: Step | None) -> Effects:
    unknown = Effects(lasting=kind is not StepKind.DEPLOY)
    if step_planning.for_children(step):
        return unknown  # their drivers may be others
    if step["step"] in step_effects.OF_RESERVED:
        return step_effects.OF_RESERVED[step["step"]]
    if known is None:
        return unknown
    return task.driver.interface(step["interface"]).effects(task, kind, step)


def _performer(
    task: Task, kind: StepKind, step: StoredStep, known: Step | None, expected: Expected
) -> str | None:
    """Return what carries out a step; None for one that no interface offers."""
    if step_planning.for_children(step):
        return "children"
    if step["step"] in step_planning.RESERVED:
        return "service"
    if known is None and step["interface"] not in expected.open_interfaces:
        return None
    if known is None or known.title in expected.told_at:
        return "ramdisk"
    interface = task.driver.interface(step["interface"])
    needs = kind in _MARKED and known.requires_ramdisk and interface.uses_agent(task)
    return "ramdisk" if needs or interface.by_ramdisk(kind, step) else "bmc"
