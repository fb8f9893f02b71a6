"""Plans of verbs: all faults of a request, and the steps that it would run, before it is sent.

The ``plan`` of a flow makes the checks of its ``start``, and collects their refusals here. It reads
the node without its lock, writes nothing, and asks no machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.engine import lists
from ironic_lite.conductor.engine.lists import Expected
from ironic_lite.conductor.engine.phases import Flow, Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import (
    admission,
)
from ironic_lite.core import config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import states, step_lists, steps
from ironic_lite.domain.steps import Effects, Step, StepKind
from ironic_lite.drivers.registry import DEPLOY_PRIORITIES
from ironic_lite.records import StoredStep

_BOOTS = {StepKind.CLEAN: 1, StepKind.SERVICE: 2, StepKind.DEPLOY: 0, StepKind.VERIFY: 0}
"""Restarts of the machine beside those of steps, if a ramdisk boots: into it, and out of it."""


_NOTHING: Json = {
    **{"steps": [], "ramdisk": None, "restarts": None, "destroys": None},
    **{"complete": True, "incomplete": None},
}


class PlanFault(NamedTuple):
    """A reason why a request would be refused or its run would fail at its start."""

    path: str | None
    code: str
    text: str


class Findings:
    """The faults found so far, each once."""

    def __init__(self) -> None:
        self._found: dict[PlanFault, None] = {}

    def add(self, why: errors.Error) -> None:
        """Add a refusal; one about several places is several faults."""
        texts, paths = why.facts.get("reason"), why.facts.get("paths")
        if isinstance(texts, list) and isinstance(paths, list):
            pairs = zip(texts, paths, strict=True)
            found = [PlanFault(path, why.code, text) for text, path in pairs]
        else:
            found = [PlanFault(why.facts.get("path"), why.code, why.message)]
        for fault in found:
            self._found.setdefault(fault)

    def extend(self, refusals: Iterable[errors.Error]) -> None:
        """Add several refusals."""
        for why in refusals:
            self.add(why)

    def attempt(self, call: Callable[[], Any], default: Any = None) -> Any:
        """Return the result of a check, ``default`` if it refuses.

        :raises errors.Unavailable: the check could not be made.
        """
        try:
            return call()
        except errors.Unavailable:
            raise
        except errors.Error as why:
            self.add(why)
            return default

    def documents(self) -> list[Json]:
        """Return the faults in the order in which they were found."""
        return [fault._asdict() for fault in self._found][: step_lists.MOST_FAULTS]


class Listed(NamedTuple):
    """The list of a run: its steps, their origins, and what is known of the steps offered."""

    kind: StepKind
    steps: Sequence[StoredStep]
    origins: Sequence[Origin]
    expected: Expected
    boots: bool
    fixed: bool
    """True if no ramdisk can add steps to the list."""


def impossible(why: errors.Error) -> Json:
    """Return the plan for a node whose drivers cannot be used on this conductor."""
    found = Findings()
    found.add(why)
    return {"faults": found.documents(), **unlisted("Its drivers are not loaded.")}


def unlisted(reason: str | None) -> Json:
    """Return the rows of a plan without a list.

    :param reason: why nothing is known about the effects; None: there are none.
    """
    if reason is not None:
        return {**_NOTHING, "complete": False, "incomplete": reason}
    return {**_NOTHING, "ramdisk": False, "restarts": 0, "destroys": []}


def listed_rows(task: Task, listed: Listed) -> Json:
    """Return the rows of a plan with a list."""
    rows = step_documents(task, listed.kind, listed.steps, listed.origins, listed.expected)
    missing = _incomplete(listed)
    # A ramdisk may bring steps of which nothing is known yet.
    whole = listed.fixed or not listed.expected.undescribed
    ramdisk = listed.boots and task.driver.deploy.uses_agent(task)
    return {
        "steps": rows,
        "ramdisk": ramdisk,
        "restarts": restarts_of(rows, _BOOTS[listed.kind] if ramdisk else 0, whole=whole),
        "destroys": destroyed_by(rows, whole=whole),
        "complete": missing is None,
        "incomplete": missing,
    }


def _incomplete(listed: Listed) -> str | None:
    """Return why the list may change when the ramdisk has booted; None if it cannot."""
    expected = listed.expected
    if not expected.open_interfaces:
        return None
    named = {step["interface"] for step in listed.steps}
    if listed.fixed and not named & expected.open_interfaces:
        return None
    if expected.undescribed:
        return "The steps of the ramdisk are not known before it has booted."
    at = next((at for at in expected.told_at.values() if at is not None), None)
    since = f" of {at[:10]}" if at else " that its last agent has listed"
    return f"The steps of the ramdisk are those{since}; it may bring others."


def plan_listed(task: Task, phase: Phase, body: JsonView, found: Findings) -> Listed | None:
    """Plan the steps that a request names."""
    kind = phase.kind
    wanted: list[StoredStep] = body.get(f"{kind}_steps") or []
    if not wanted:
        check_limit(task, phase, found)
        return None
    allowed = not body.get("disable_ramdisk", False)
    boots = bool(wanted) and allowed and lists.needs_ramdisk(task, kind, wanted)
    found.extend(admission.of_drivers(task, phase, ramdisk=boots))
    found.extend(lists.child_refusals(task, kind, wanted))
    check_limit(task, phase, found)
    origins = [Origin("request", f"{kind}_steps/{place}") for place in range(len(wanted))]
    return check_list(task, phase, wanted, origins, found, boots=boots)


def check_list(
    task: Task,
    phase: Phase,
    wanted: list[StoredStep],
    origins: list[Origin],
    found: Findings,
    *,
    boots: bool,
) -> Listed:
    """Check a list as the run will do before its first step."""
    kind = phase.kind
    expected = expected_steps(task, kind, found, ramdisk=boots)
    known = _prioritized(task, kind, expected.steps)
    faults = [
        *lists.node_faults(task, kind, wanted),
        *step_lists.requested_faults(
            wanted, known, kind, ramdisk=boots, open_interfaces=expected.open_interfaces
        ),
    ]
    found.attempt(lambda: step_lists.refuse(f"{kind}_steps", faults))
    stored = step_lists.as_requested(wanted, known)
    return Listed(kind, stored, origins, expected._replace(steps=known), boots, fixed=True)


def expected_steps(task: Task, kind: StepKind, found: Findings, *, ramdisk: bool) -> Expected:
    nothing = Expected([], {}, frozenset(), frozenset())
    look = functools.partial(lists.expected_steps, task, kind, ramdisk=ramdisk)
    known: Expected = found.attempt(look, nothing)
    return known


def _prioritized(task: Task, kind: StepKind, known: list[Step]) -> list[Step]:
    overrides = task.runtime.clean_priorities if kind is StepKind.CLEAN else {}
    return step_lists.overridden(known, overrides)


def list_chosen(
    task: Task, phase: Phase, chosen: list[Step], expected: Expected, *, boots: bool, fixed: bool
) -> Listed:
    """List the steps that are chosen by their priorities."""
    origins = [origin_of(task, step, expected) for step in chosen]
    stored = step_lists.as_stored(chosen, phase.kind)
    return Listed(phase.kind, stored, origins, expected, boots, fixed)


def check_limit(task: Task, flow: Flow, found: Findings) -> None:
    """Check the limit of an activity, by a count that may be different a moment later."""

    def count(among: tuple[states.State, ...]) -> int:
        return task.runtime.database.read(lambda conn: sweeps.count_in(conn, among))

    found.extend(admission.of_limit(task, flow, count))


# Documents of the steps of a plan: where each comes from, and what it does to the machine.

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


def origin_of(task: Task, step: Step, expected: Expected) -> Origin:
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


def step_documents(
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
                "priority": step_lists.read_priority(step),
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


def restarts_of(rows: Sequence[Json], boots: int, *, whole: bool) -> int | None:
    """Return the number of restarts of a run, None if it is unknown for a step.

    :param boots: restarts of the run itself.
    :param whole: whether all steps are known.
    """
    numbers: list[int | None] = [row["restarts"] for row in rows]
    known = [number for number in numbers if number is not None]
    return boots + sum(known) if whole and len(known) == len(numbers) else None


def destroyed_by(rows: Sequence[Json], *, whole: bool) -> list[str] | None:
    """Return everything that a run destroys, None if it is unknown for a step."""
    words = [row["destroys"] for row in rows]
    if not whole or None in words:
        return None
    every = {word for some in words for word in some}
    return [word for word in steps.DESTROYED if word in every]


def _effects(task: Task, kind: StepKind, step: StoredStep, known: Step | None) -> Effects:
    unknown = Effects(lasting=kind is not StepKind.DEPLOY)
    if step_lists.for_children(step):
        return unknown  # their drivers may be others
    if step["step"] in steps.EFFECTS_OF_RESERVED:
        return steps.EFFECTS_OF_RESERVED[step["step"]]
    if known is None:
        return unknown
    return task.driver.interface(step["interface"]).effects(task, kind, step)


def _performer(
    task: Task, kind: StepKind, step: StoredStep, known: Step | None, expected: Expected
) -> str | None:
    """Return what carries out a step; None for one that no interface offers."""
    if step_lists.for_children(step):
        return "children"
    if step["step"] in step_lists.RESERVED:
        return "service"
    if known is None and step["interface"] not in expected.open_interfaces:
        return None
    if known is None or known.title in expected.told_at:
        return "ramdisk"
    interface = task.driver.interface(step["interface"])
    needs = kind in _MARKED and known.requires_ramdisk and interface.uses_agent(task)
    return "ramdisk" if needs or interface.by_ramdisk(kind, step) else "bmc"
