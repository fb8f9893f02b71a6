"""The one door of provision verbs: their start on a node and their plan, by the event of the verb.

A verb starts the activity of the state that it leads to. Verbs that stop, release or continue any
activity are in a table of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ironic_lite.conductor.engine import stepper
from ironic_lite.conductor.engine.phases import Flow, Phase, Plan, Start
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import activities, admission, delete, deploy, planning, retry
from ironic_lite.conductor.flows.planning import Findings, Listed
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import activities as domain_activities
from ironic_lite.domain import states, step_lists, steps, verbs
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind
from ironic_lite.domain.verbs import Verb


def start(task: Task, verb: Verb, body: JsonView) -> None:
    """Move a node by a verb; a worker begins the activity of its new state, if there is one.

    :param body: of the request, checked by the API.
    :raises errors.Error: a refusal; nothing is saved.
    """
    admission.raise_first(admission.of_verb(task, verb.target))
    if verb.event in _OF_ANY_ACTIVITY:
        _OF_ANY_ACTIVITY[verb.event].start(task, verb, body)
        return
    flow = _flow_of(task, verb)
    if flow is not None and flow.activity in _DEPLOY_WORKS_IN:
        task.choose_deploy(anew=flow.activity is domain_activities.DEPLOY)
    if flow is not None and flow.start is not None:
        flow.start(task, verb, body)
        return
    for check in flow.checks(task, body) if flow is not None else ():
        check()
    if verb.event == "manage":  # whatever machine answers next is the node's
        task.notes.machine_identity = {}
    task.move(verb.event, verb=verb.target)
    if flow is not None:
        task.hand_over(flow.prepare)


def plan(task: Task, verb: Verb, body: JsonView) -> Json:
    """Return the plan of a verb for a node, which was read without its lock.

    :param verb: the row of the target.
    :param body: arguments of the request, each checked by the API.
    """
    found = Findings()
    found.extend(admission.of_verb(task, verb.target))
    unusable = planning.unlisted("Its settings cannot be used.")
    rows = found.attempt(lambda: _plan_rows(task, verb, body, found), unusable)
    return {"faults": found.documents(), **rows}


def _plan_rows(task: Task, verb: Verb, body: JsonView, found: Findings) -> Json:
    flow, listed = _flow_of(task, verb), None
    if flow is not None and flow.activity is domain_activities.DEPLOY:
        task.choose_deploy(anew=True)
    action = _OF_ANY_ACTIVITY.get(verb.event, flow)
    if action is not None and action.plan is not None:
        listed = action.plan(task, verb, body, found)
    elif flow is not None and states.allows(task.state, verb.event):
        for check in flow.checks(task, body):
            found.attempt(check)
    if listed is not None:
        return planning.listed_rows(task, listed)
    return planning.unlisted(_unknown(task, verb, flow))


def _flow_of(task: Task, verb: Verb) -> Flow | None:
    """Return the activity that a verb begins here, or in other states if this one forbids it."""
    if verb.event in _OF_ANY_ACTIVITY:
        return None
    if states.allows(task.state, verb.event):
        return activities.flow_of(states.follow(task.state, verb.event))
    return _BEGUN_BY.get(verb.event)


def _unknown(task: Task, verb: Verb, flow: Flow | None) -> str | None:
    """Return why nothing is known about a verb without a list; None if it does nothing."""
    if any(key.endswith("_steps") for key in verb.needs):
        return "The request has no steps."
    if verb.event != "abort" and not states.allows(task.state, verb.event):
        return f"The state {task.state} does not allow the verb."
    if flow is not None and not isinstance(flow, Phase) and flow is not delete.FLOW:
        return f"The effects of {verb.event} are not known: it has no list of steps."
    return None


def _start_unhold(task: Task, verb: Verb, _body: JsonView) -> None:
    if task.notes.paused:  # no agent has a step whose end it could report
        task.node.wake_at = clock.now()
    heard = task.driver.deploy.in_band and task.notes.agent_url is not None
    if not heard:  # no agent would send the heartbeat that wakes the node
        task.node.wake_at = clock.now()
    task.journal.once()  # a late copy must not end another hold
    task.move(verb.event)


def _start_abort(task: Task, _verb: Verb, _body: JsonView) -> None:
    task.journal.once()  # a late copy must not end another run
    phase = activities.waiting_steps(task.state)
    if phase is not None and stepper.must_end(task, phase):
        _abort_later(task, phase)
        return
    activities.start_abort(task)


def _abort_later(task: Task, phase: Phase) -> None:
    """Record an abort for the end of the running step, which must not be interrupted."""
    step = phase.current(task)
    phase.show(task, {**step, "abort_after": True})
    data = {"step": steps.title(step)}
    task.journal.event("abort_requested", run=task.node.run_uuid, event="abort", data=data)
    task.save()


def _start_retry(task: Task, _verb: Verb, body: JsonView) -> None:
    phase = activities.failed_steps(task.state)
    assert phase is not None  # the state table has retry in these states only
    retry.start(task, phase, body.get("retry") or {})


def _plan_retry(task: Task, _verb: Verb, body: JsonView, found: Findings) -> Listed | None:
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
    planning.check_limit(task, phase, found)
    expected = planning.expected_steps(task, kind, found, ramdisk=boots)
    faults = step_lists.requested_faults(
        stored.steps, expected.steps, kind, skip=left.skip, open_interfaces=expected.open_interfaces
    )
    found.attempt(lambda: step_lists.refuse(f"{kind}_steps", faults))
    origins = [planning.Origin("run", left.failed.uuid)] * len(left.steps)
    return Listed(kind, left.steps, origins, expected, boots, fixed=True)


_DEPLOY_WORKS_IN = frozenset(
    {
        domain_activities.CLEAN,
        domain_activities.DEPLOY,
        domain_activities.SERVICE,
        domain_activities.DELETE,
        domain_activities.ADOPT,
    }
)
"""Activities whose deploy interface is chosen at their start, as in Ironic."""


class _Action(NamedTuple):
    start: Start
    plan: Plan | None = None  # the refusals are those of the node


_OF_ANY_ACTIVITY: Mapping[str, _Action] = {
    "abort": _Action(_start_abort),
    "unhold": _Action(_start_unhold),
    "retry": _Action(_start_retry, _plan_retry),
}
"""Events of verbs that concern the activity under way, or that has failed."""
_BEGUN_BY: Mapping[str, Flow] = {
    verb.event: flow
    for verb in verbs.TABLE
    for state in State
    if verbs.possible(verb, state)
    for flow in [activities.flow_of(states.follow(state, verb.event))]
    if flow is not None and flow.activity.busy == states.follow(state, verb.event)
}
"""The activity that an event begins in the states that allow it."""
