"""Plans of verbs: all faults of a request, and the steps that it would run, before it is sent.

A plan makes the checks of the endpoints and of the flows, and collects their refusals. It reads
the node without its lock, writes nothing, and asks no machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.flows import (
    activities,
    admission,
    clean,
    deploy,
    rescue,
    retry,
    service,
    verify,
)
from ironic_lite.conductor.steps import automated, available, planned, requested
from ironic_lite.conductor.steps.available import Expected
from ironic_lite.conductor.steps.phases import Flow, Phase
from ironic_lite.conductor.steps.planned import Origin
from ironic_lite.conductor.work.task import Task
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import list_faults, states, step_planning, steps, verbs
from ironic_lite.domain.steps import Step, StepKind
from ironic_lite.records import StoredStep, StoredTemplate

_BOOTS = {StepKind.CLEAN: 1, StepKind.SERVICE: 2, StepKind.DEPLOY: 0, StepKind.VERIFY: 0}
"""Restarts of the machine beside those of steps, if a ramdisk boots: into it, and out of it."""


_WITH_STEPS = ("clean", "service")
_WITHOUT_STEPS = ("inspect", "adopt", "rescue", "unrescue")
"""Events whose work is that of an interface, or a whole boot, and not a list."""
_NOTHING: Json = {
    **{"steps": [], "ramdisk": None, "restarts": None, "destroys": None},
    **{"complete": True, "incomplete": None},
}


class Fault(NamedTuple):
    """A reason why a request would be refused or its run would fail at its start."""

    path: str | None
    code: str
    text: str


class Findings:
    """The faults found so far, each once."""

    def __init__(self) -> None:
        self._found: dict[Fault, None] = {}

    def add(self, why: errors.Error) -> None:
        """Add a refusal; one about several places is several faults."""
        texts, paths = why.facts.get("reason"), why.facts.get("paths")
        if isinstance(texts, list) and isinstance(paths, list):
            pairs = zip(texts, paths, strict=True)
            found = [Fault(path, why.code, text) for text, path in pairs]
        else:
            found = [Fault(why.facts.get("path"), why.code, why.message)]
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
        return [fault._asdict() for fault in self._found][: list_faults.MOST_FAULTS]


class Listed(NamedTuple):
    """The list of a run: its steps, their origins, and what is known of the steps offered."""

    kind: StepKind
    steps: Sequence[StoredStep]
    origins: Sequence[Origin]
    expected: Expected
    boots: bool
    fixed: bool
    """True if no ramdisk can add steps to the list."""


def plan(task: Task, target: str, body: JsonView) -> Json:
    """Return the plan of a verb for a node.

    :param target: one of ``verbs.BY_TARGET``.
    :param body: arguments of the request, each checked by the API.
    """
    found = Findings()
    found.extend(admission.of_verb(task, target))
    event = verbs.BY_TARGET[target].event
    make = _BY_EVENT.get(event, functools.partial(_plan_action, event=event))
    unlisted = {**_NOTHING, "complete": False, "incomplete": "Its settings cannot be used."}
    rows = found.attempt(lambda: _document(task, event, make(task, body, found)), unlisted)
    return {"faults": found.documents(), **rows}


def impossible(why: errors.Error) -> Json:
    """Return the plan for a node whose drivers cannot be used on this conductor."""
    found = Findings()
    found.add(why)
    unlisted = {**_NOTHING, "complete": False, "incomplete": "Its drivers are not loaded."}
    return {"faults": found.documents(), **unlisted}


def _document(task: Task, event: str, listed: Listed | None) -> Json:
    if listed is None:
        unknown = _unknown(task, event)
        if unknown is not None:
            return {**_NOTHING, "complete": False, "incomplete": unknown}
        return {**_NOTHING, "ramdisk": False, "restarts": 0, "destroys": []}
    rows = planned.documents(task, listed.kind, listed.steps, listed.origins, listed.expected)
    missing = _incomplete(listed)
    # A ramdisk may bring steps of which nothing is known yet.
    whole = listed.fixed or not listed.expected.undescribed
    ramdisk = listed.boots and task.driver.deploy.uses_agent(task)
    return {
        "steps": rows,
        "ramdisk": ramdisk,
        "restarts": planned.restarts(rows, _BOOTS[listed.kind] if ramdisk else 0, whole=whole),
        "destroys": planned.destroys(rows, whole=whole),
        "complete": missing is None,
        "incomplete": missing,
    }


def _unknown(task: Task, event: str) -> str | None:
    """Return why nothing is known about a verb without a list; None if it does nothing."""
    if event in _WITH_STEPS:
        return "The request has no steps."
    if event != "abort" and not states.allows(task.state, event):
        return f"The state {task.state} does not allow the verb."
    if event in _WITHOUT_STEPS:
        return f"The effects of {event} are not known: it has no list of steps."
    return None


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


# -- lists that a request names --------------------------------------------------------------


def _plan_phase(task: Task, body: JsonView, found: Findings, *, phase: Phase) -> Listed | None:
    """Plan a manual clean or a service."""
    kind = phase.kind
    wanted: list[StoredStep] = body.get(f"{kind}_steps") or []
    if not wanted:
        _check_limit(task, phase, found)
        return None
    allowed = not body.get("disable_ramdisk", False)
    boots = bool(wanted) and allowed and requested.needs_ramdisk(task, kind, wanted)
    found.extend(admission.of_drivers(task, phase, ramdisk=boots))
    found.extend(requested.child_refusals(task, kind, wanted))
    _check_limit(task, phase, found)
    origins = [Origin("request", f"{kind}_steps/{place}") for place in range(len(wanted))]
    return _requested(task, phase, wanted, origins, found, boots=boots)


def _requested(
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
    expected = _expected(task, kind, found, ramdisk=boots)
    known = _prioritized(task, kind, expected.steps)
    faults = [
        *requested.node_faults(task, kind, wanted),
        *step_planning.requested_faults(
            wanted, known, kind, ramdisk=boots, open_interfaces=expected.open_interfaces
        ),
    ]
    found.attempt(lambda: list_faults.refuse(f"{kind}_steps", faults))
    stored = step_planning.as_requested(wanted, known)
    return Listed(kind, stored, origins, expected._replace(steps=known), boots, fixed=True)


def _expected(task: Task, kind: StepKind, found: Findings, *, ramdisk: bool) -> Expected:
    nothing = Expected([], {}, frozenset(), frozenset())
    look = functools.partial(available.expected, task, kind, ramdisk=ramdisk)
    known: Expected = found.attempt(look, nothing)
    return known


def _prioritized(task: Task, kind: StepKind, known: list[Step]) -> list[Step]:
    overrides = task.runtime.clean_priorities if kind is StepKind.CLEAN else {}
    return step_planning.overridden(known, overrides)


# -- lists that drivers make -----------------------------------------------------------------


def _plan_provide(task: Task, _body: JsonView, found: Findings) -> Listed | None:
    """Plan an automated clean, which also follows a deletion: drivers' steps or a runbook."""
    _check_limit(task, clean.PHASE, found)
    if not clean.enabled(task):
        return None
    unusable = automated.Book("", [], ramdisk=True)
    book = found.attempt(lambda: automated.book(task), unusable)
    boots = book is None or book.ramdisk
    found.extend(admission.of_drivers(task, clean.PHASE, ramdisk=boots))
    if book is not None:
        origins = [Origin("runbook", book.uuid)] * len(book.steps)
        return _requested(task, clean.PHASE, book.steps, origins, found, boots=boots)
    expected = _expected(task, StepKind.CLEAN, found, ramdisk=boots)
    chosen = clean.chosen_steps(task, expected.steps)
    origins = [planned.origin(task, step, expected) for step in chosen]
    stored = step_planning.as_stored(chosen, StepKind.CLEAN)
    return Listed(StepKind.CLEAN, stored, origins, expected, boots, fixed=False)


def _plan_deploy(task: Task, body: JsonView, found: Findings) -> Listed:
    """Plan a deployment: steps of drivers, deploy templates and the request."""
    kind = StepKind.DEPLOY
    user: list[StoredStep] = body.get("deploy_steps") or []
    taken: list[StoredTemplate] = []
    for one in deploy.checks(task, user, taken):
        found.attempt(one)
    _check_limit(task, deploy.PHASE, found)
    agents = deploy.agents_follow(task)
    expected = _expected(task, kind, found, ramdisk=agents)
    offered = [*expected.steps, *_steps_of_ramdisk(expected, [*_template_steps(taken), *user])]
    offered += found.attempt(lambda: deploy.whole(task), [])
    stored = step_planning.deploy_list(offered, user, taken)
    origins = _deploy_origins(task, stored, user, taken, expected)
    return Listed(kind, stored, origins, expected._replace(steps=offered), agents, fixed=False)


def _template_steps(taken: Iterable[StoredTemplate]) -> list[StoredStep]:
    return [step for template in taken for step in template["steps"]]


def _steps_of_ramdisk(expected: Expected, wanted: Iterable[StoredStep]) -> list[Step]:
    """Return the steps that a ramdisk must bring, because nothing else offers them."""
    known = {step.title for step in expected.steps}
    missing = (
        Step(asked["interface"], asked["step"])
        for asked in wanted
        if asked["interface"] in expected.open_interfaces
        and asked["step"] not in step_planning.RESERVED
    )
    return list({step.title: step for step in missing if step.title not in known}.values())


def _deploy_origins(
    task: Task,
    stored: Iterable[StoredStep],
    user: Sequence[StoredStep],
    taken: Iterable[StoredTemplate],
    expected: Expected,
) -> list[Origin]:
    known: dict[str, Origin] = {}
    for step in expected.steps:
        known[step.title] = planned.origin(task, step, expected)
    for template in taken:
        for one in template["steps"]:
            known[steps.title(one)] = Origin("template", template["name"])
    for place, one in enumerate(user):
        known[steps.title(one)] = Origin("request", f"deploy_steps/{place}")
    whole = Origin("driver", task.node.deploy_interface)
    return [known.get(steps.title(one), whole) for one in stored]


# -- the list of a failed run ----------------------------------------------------------------


def _plan_retry(task: Task, body: JsonView, found: Findings) -> Listed | None:
    """Plan a retry: the steps of the failed run that would run again, and those after them."""
    phase = activities.failed_steps(task.state)
    if phase is None:
        return None
    left = found.attempt(lambda: retry.planned(task, phase, body.get("retry") or {}))
    if left is None:
        return None
    kind, stored = phase.kind, left.failed.stored
    deploys = kind is StepKind.DEPLOY
    boots = deploy.agents_follow(task) if deploys else stored.ramdisk
    if deploys:
        for one in retry.checks_of_deploy(task):
            found.attempt(one)
    else:
        found.extend(admission.of_drivers(task, phase, ramdisk=boots))
    _check_limit(task, phase, found)
    expected = _expected(task, kind, found, ramdisk=boots)
    faults = step_planning.requested_faults(
        stored.steps, expected.steps, kind, skip=left.skip, open_interfaces=expected.open_interfaces
    )
    found.attempt(lambda: list_faults.refuse(f"{kind}_steps", faults))
    origins = [Origin("run", left.failed.uuid)] * len(left.steps)
    return Listed(kind, left.steps, origins, expected, boots, fixed=True)


# -- verbs without a list --------------------------------------------------------------------


def _plan_rescue(task: Task, body: JsonView, found: Findings) -> None:
    for one in rescue.checks(task, body.get("rescue_password", "")):
        found.attempt(one)


def _plan_abort(task: Task, _body: JsonView, found: Findings) -> None:
    found.extend(admission.of_abort(task))


def _plan_action(task: Task, _body: JsonView, found: Findings, *, event: str) -> Listed | None:
    """Plan the activity that a verb without arguments begins, if it begins one."""
    if not states.allows(task.state, event):
        return None
    flow = activities.of(states.follow(task.state, event))
    if flow is None:
        return None
    for one in flow.checks(task) if flow.checks is not None else ():
        found.attempt(one)
    return _plan_verify(task, found) if flow is verify.PHASE else None


def _plan_verify(task: Task, found: Findings) -> Listed:
    """Plan the verification of a machine that was enrolled."""
    phase = verify.PHASE
    expected = _expected(task, phase.kind, found, ramdisk=False)
    overrides = task.runtime.verify_priorities
    chosen = step_planning.automated(expected.steps, phase.kind, overrides=overrides)
    origins = [planned.origin(task, step, expected) for step in chosen]
    stored = step_planning.as_stored(chosen, phase.kind)
    return Listed(phase.kind, stored, origins, expected, boots=False, fixed=True)


def _check_limit(task: Task, flow: Flow, found: Findings) -> None:
    """Check the limit of an activity, by a count that may be different a moment later."""

    def count(among: tuple[states.State, ...]) -> int:
        return task.runtime.database.read(lambda conn: sweeps.count_in(conn, among))

    found.extend(admission.of_limit(task, flow, count))


_BY_EVENT: Mapping[str, Callable[[Task, JsonView, Findings], Listed | None]] = {
    "clean": functools.partial(_plan_phase, phase=clean.PHASE),
    "service": functools.partial(_plan_phase, phase=service.PHASE),
    "provide": _plan_provide,
    "deploy": _plan_deploy,
    "rebuild": _plan_deploy,
    "delete": _plan_provide,
    "rescue": _plan_rescue,
    "abort": _plan_abort,
    "retry": _plan_retry,
}
"""Events whose plan is more than the checks of an activity."""
