"""Deploying and rebuilding: prepare, compose the list, run it.

Requirement S3. The verbs active, deploy and rebuild start it; ``stepper.run`` runs the steps.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.conductor.engine import evidence, firmware_cache, lists, stepper
from ironic_lite.conductor.engine.lists import Expected
from ironic_lite.conductor.engine.phases import Checks, Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, consoles, error_text, planning, retry, verify
from ironic_lite.conductor.flows.planning import Findings, Listed
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, resources
from ironic_lite.domain import activities, step_lists, steps, vocabulary
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import DONE, WAIT, Step, StepKind
from ironic_lite.domain.verbs import Verb
from ironic_lite.drivers.boot import modes
from ironic_lite.records import StoredStep, StoredTemplate

LOG = logging.getLogger(__name__)

_LONGEST_LESSEE = 255
_WHOLE = Step("deploy", "deploy", priority=100)
_DEPRECATED = (
    "Deploy interface %s has no deploy steps; deploying the old way is deprecated. Let it mark "
    "its methods with deploy_step before that is removed, and let deployments under way end before "
    "such an upgrade."
)


def check(task: Task, user_steps: list[StoredStep]) -> list[StoredTemplate]:
    """Refuse an invalid deployment while the client waits.

    :returns: the deploy templates to use.
    :raises errors.InvalidRequest: naming the node; the first of `checks` that fails.
    """
    taken: list[StoredTemplate] = []
    for one in checks(task, user_steps, taken):
        try:
            one()
        except errors.InvalidRequest as why:
            lead = f"Failed to validate deploy or power info for node {task.node.uuid}"
            raise error_text.led_by(lead, why) from why
    return taken


def checks(task: Task, user_steps: list[StoredStep], taken: list[StoredTemplate]) -> Checks:
    """Return the checks of a deployment, in their order; none needs the machine.

    :param taken: the fourth check adds the deploy templates to use.
    """
    kind = StepKind.DEPLOY
    return (
        lambda: _check_boot_mode(task),
        lambda: task.driver.power.validate(task),
        lambda: task.driver.deploy.validate(task),
        lambda: taken.extend(matching_templates(task)),
        lambda: compose(task, user_steps, taken),
        lambda: step_lists.refuse(f"{kind}_steps", lists.power_faults(task.node, kind, user_steps)),
    )


def _check_boot_mode(task: Task) -> None:
    """Refuse a boot mode that the operator forbids, also in Ironic's place, properties/boot_mode.

    :raises errors.InvalidParameter: the node has one.
    """
    forbidden = task.runtime.conf.conductor.disallowed_deployment_boot_modes
    if not forbidden:
        return
    said = str((task.node.properties or {}).get("boot_mode") or "").strip().lower()
    for mode in (modes.wanted(task.node), said):
        if mode in forbidden:
            reason = (
                f"boot_mode {mode} is not allowed by [conductor]disallowed_deployment_boot_modes"
            )
            raise errors.InvalidParameter(path="properties/capabilities", reason=reason)


def check_templates(task: Task) -> None:
    """Refuse invalid deploy templates of the next deployment.

    :raises errors.InvalidParameter: as ``matching_templates`` and ``step_lists.deploy``.
    """
    taken = matching_templates(task)
    if taken:
        compose(task, [], taken)


def compose(
    task: Task, user_steps: list[StoredStep], taken: list[StoredTemplate] | None = None
) -> list[StoredStep]:
    """Return the list to run; it is complete once an agent has added its steps.

    For an interface without steps the list is empty, unless there are other steps. Then the whole
    deployment is one of the steps, because the instance would otherwise never be written.

    :param taken: deploy templates; None for those stored when the deployment was accepted.
    """
    if taken is None:
        taken = task.notes.deploy_templates
    found = lists.offered_steps(task, StepKind.DEPLOY)
    if is_old(task) and (user_steps or taken or any(step.priority for step in found)):
        found.append(_WHOLE)
    return step_lists.deploy(found, user_steps, taken, complete=_list_is_complete(task))


def _list_is_complete(task: Task) -> bool:
    """Return whether no agent can add steps any more."""
    told = task.notes.agent_steps(StepKind.DEPLOY) is not None
    return told or not agents_follow(task)


def agents_follow(task: Task) -> bool:
    """Return whether a deployment boots a ramdisk, whose agent adds steps."""
    return task.driver.deploy.uses_agent(task) and not task.driver.deploy.boots_ramdisk


def whole(task: Task) -> list[Step]:
    """Return the step that stands for a whole deployment, if the interface has no steps."""
    return [_WHOLE] if is_old(task) else []


def is_old(task: Task) -> bool:
    """Return whether the deploy interface has no steps, but deploys in one piece.

    Requirement S3.19.
    """
    interface = task.driver.deploy
    return not interface.get_deploy_steps(task) and hasattr(interface, "deploy")


def start(task: Task, verb: Verb, body: JsonView) -> None:
    """Start a deployment or a rebuild; the notes of an earlier one are removed.

    A configuration drive of the request replaces the stored one.
    """
    if body.get("configdrive") is not None:  # it is checked with the rest of the instance
        drive = body["configdrive"]
        task.node.instance_info = {**task.node.instance_info, "configdrive": drive}
    user_steps = body.get("deploy_steps") or []
    templates = check(task, user_steps)
    admission.keep_limit(task, PHASE)
    task.notes.request_deploy(user_steps, templates)
    task.keep(vocabulary.REGISTRY_IMAGE, None)  # a retry does not come here, and keeps its image
    task.node.deploy_step = None
    if verb.event == "deploy":
        _lease(task)
    task.move(verb.event, verb=verb.target)
    task.hand_over(prepare)


def plan(task: Task, _verb: Verb, body: JsonView, found: Findings) -> Listed:
    """Plan a deployment: steps of drivers, deploy templates and the request."""
    kind = StepKind.DEPLOY
    user: list[StoredStep] = body.get("deploy_steps") or []
    taken: list[StoredTemplate] = []
    for one in checks(task, user, taken):
        found.attempt(one)
    planning.check_limit(task, PHASE, found)
    agents = agents_follow(task)
    expected = planning.expected_steps(task, kind, found, ramdisk=agents)
    offered = [*expected.steps, *_steps_of_ramdisk(expected, [*_template_steps(taken), *user])]
    offered += found.attempt(lambda: whole(task), [])
    stored = step_lists.deploy_list(offered, user, taken)
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
        and asked["step"] not in step_lists.RESERVED
    )
    return list({step.title: step for step in missing if step.title not in known}.values())


def _deploy_origins(
    task: Task,
    stored: Iterable[StoredStep],
    user: Sequence[StoredStep],
    taken: Iterable[StoredTemplate],
    expected: Expected,
) -> list[planning.Origin]:
    known: dict[str, planning.Origin] = {}
    for step in expected.steps:
        known[step.title] = planning.origin_of(task, step, expected)
    for template in taken:
        for one in template["steps"]:
            known[steps.title(one)] = planning.Origin("template", template["name"])
    for place, one in enumerate(user):
        known[steps.title(one)] = planning.Origin("request", f"deploy_steps/{place}")
    whole = planning.Origin("driver", task.node.deploy_interface)
    return [known.get(steps.title(one), whole) for one in stored]


def _lease(task: Task) -> None:
    """Set the node's lessee to the instance's project, if the node has no lessee.

    Teardown removes it. ``[conductor]automatic_lessee_source`` names the source of the project.
    """
    conf = task.runtime.conf.conductor
    source = conf.automatic_lessee_source if conf.automatic_lessee else "none"
    project = {
        "instance": task.node.instance_info.get("project_id"),
        "request": task.context.project,
    }.get(source)
    if not isinstance(project, str) or not 0 < len(project) <= _LONGEST_LESSEE:
        return
    if task.node.lessee is None:
        task.node.lessee = project
        task.notes.automatic_lessee = True
    elif task.node.lessee != project:
        LOG.warning(
            "Node %s keeps its lessee %s; its instance is for the project %s",
            task.node.uuid,
            task.node.lessee,
            project,
        )


def prepare(task: Task) -> None:
    """Prepare the deploy interface, then run its steps."""
    verify.confirm_machine(task)
    task.driver.deploy.prepare(task)
    begin(task)


def begin(task: Task) -> None:
    """Run all steps; an interface without steps deploys in one piece.

    Requirement S3.19.
    """
    _store_agent_steps(task)
    if task.notes.retries:
        retry.begin(task, PHASE, functools.partial(_check_offered, task))
        return
    listed = compose(task, task.notes.user_deploy_steps)
    old = is_old(task)
    if old:
        LOG.warning(_DEPRECATED, type(task.driver.deploy).__name__)
    if listed:
        stepper.start(task, PHASE, listed, complete=_list_is_complete(task))
    elif old:
        _old_way(task, task.driver.deploy)
    else:
        raise errors.DeployStepFailed(
            f"No deploy steps returned for node {task.node.uuid}", step=None, reason="no steps"
        )


def _old_way(task: Task, interface: Any) -> None:
    evidence.begins(task, StepKind.DEPLOY)
    task.save()  # before the interface writes to the disks
    outcome = interface.deploy(task)
    if (outcome or DONE) in (WAIT, State.DEPLOYWAIT):
        task.move("wait", last=True)
    else:
        finish(task)


def _store_agent_steps(task: Task) -> None:
    """Store the agent's steps once it reports them; then the list is complete."""
    if task.notes.deploy_validated or not task.driver.deploy.uses_agent(task):
        return
    lists.record_agent_steps(task, StepKind.DEPLOY)
    if task.notes.agent_steps(StepKind.DEPLOY) is not None:
        task.notes.deploy_validated = True


def hear(task: Task, done: int) -> None:
    """Compose the list again when the agent has started; steps done stay done."""
    if task.notes.deploy_validated:
        return
    _store_agent_steps(task)
    if not task.notes.deploy_validated:
        return
    listed = task.notes.listed(StepKind.DEPLOY)
    if task.notes.retries:  # the list stays that of the failed run
        past = (at for at in range(len(listed)) if at <= done or task.notes.skipped(at))
        _check_offered(task, listed, frozenset(past))
        return
    ran = {steps.title(step) for step in listed[: done + 1]}
    whole = compose(task, task.notes.user_deploy_steps)
    stepper.replace(task, PHASE, done, [step for step in whole if steps.title(step) not in ran])


def _check_offered(task: Task, wanted: list[StoredStep], skip: retry.Skip) -> None:
    """Refuse steps that are not offered any more, as soon as all steps are known.

    :param skip: ordinals of steps that are not checked, because they do not run.
    :raises errors.InvalidParameter: with every fault.
    """
    if is_old(task) or not _list_is_complete(task):
        return
    offered = lists.offered_steps(task, StepKind.DEPLOY)
    kind = StepKind.DEPLOY
    faults = step_lists.requested_faults(wanted, offered, kind, skip=skip)
    step_lists.refuse(f"{kind}_steps", faults)


def resume(task: Task, *, poll: bool) -> None:
    """Continue from wait call-back; an empty list is a finished old-style deployment.

    Requirement S3.21.
    """
    if task.notes.listed(StepKind.DEPLOY):
        stepper.resume(task, PHASE, poll=poll)
        return
    task.move("resume")
    finish(task)


def finish(task: Task) -> None:
    """Move to active after the last step."""
    firmware_cache.note_boot(task)
    task.node.deploy_step = None
    task.notes.settle_steps(StepKind.DEPLOY, forget_list=True)
    task.notes.forget_agent()
    consoles.resume(task)
    task.move("done", last=True)


def give_up(task: Task, why: errors.Error) -> None:
    """Fail; step and list stay readable until the next try.

    Requirements S3.14 and C18.
    """
    task.failing = True
    error = _clean_up(task, error_text.cannot("deploy", task, why))
    task.notes.forget_agent()
    task.notes.forget_changes()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort on request: deploy failed, without cleaning."""
    task.notes.forget_agent()
    task.notes.forget_changes()
    step = steps.title(task.node.deploy_step) if task.node.deploy_step else None
    task.move("abort", error=errors.Aborted(action="deploy", where="", step=step), aborted=True)


def tidy(task: Task) -> None:
    """Remove the deployment's files and caches after the state has been set."""
    error = _clean_up(task, errors.Aborted(task.node.last_error, action="deploy", where=""))
    task.node.last_error = error.message
    task.save()


def _clean_up(task: Task, why: errors.Error) -> errors.Error:
    error = error_text.clean_up_after(task, why, "cleaning up", task.driver.deploy.clean_up)
    wanted = task.runtime.conf.deploy.power_off_after_deploy_failure
    return error_text.switch_off(task, error, wanted=wanted)


PHASE = Phase(
    activity=activities.DEPLOY,
    failure=errors.DeployStepFailed,
    start=start,
    plan=plan,
    prepare=prepare,
    begin=begin,
    resume=resume,
    finish=finish,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
    hear=hear,
)


# The deploy templates of a deployment: those named by a trait of its instance.
#
# Requirement C13. The templates are read once, when the verb is accepted, and stored on the node
# with all their steps. Every later composition of the list reads the stored ones. So the deployment
# runs what was validated: a template that is edited or deleted meanwhile changes no deployment that
# has begun, not even after a crash.

_TRAITS_PATH = "instance_info/traits"
_SHOWN_CHARACTERS = 80


def matching_templates(task: Task) -> list[StoredTemplate]:
    """Return the templates for ``instance_info.traits``, with ``name`` and ``steps``.

    They are sorted by name. Without traits there are no templates and no statements; otherwise two
    statements.

    :raises errors.InvalidParameter: the traits are no list of strings, the node lacks one of them,
        or a step is forbidden: by the configuration, or because the machine must stay on.
    """
    wanted = _wanted_traits(task.node.instance_info.get("traits"))
    if not wanted:
        return []
    found = task.runtime.database.read(lambda conn: _read_templates(conn, task.node.uuid, wanted))
    _refuse_template_steps(task, found)
    return found


def _wanted_traits(given: object) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise errors.InvalidParameter(path=_TRAITS_PATH, reason="must be a list of strings")
    for place, name in enumerate(given):
        if not isinstance(name, str):
            raise errors.InvalidParameter(path=f"{_TRAITS_PATH}/{place}", reason="must be a string")
    return given


def _read_templates(
    conn: Connection, node_uuid: str, wanted: Sequence[str]
) -> list[StoredTemplate]:
    known = frozenset(nodes.get_traits(conn, node_uuid))
    for place, name in enumerate(wanted):
        if name not in known:
            reason = f"node {node_uuid} does not have the trait {name[:_SHOWN_CHARACTERS]!r}"
            raise errors.InvalidParameter(path=f"{_TRAITS_PATH}/{place}", reason=reason)
    return resources.templates_named(conn, wanted)


def _refuse_template_steps(task: Task, found: Sequence[StoredTemplate]) -> None:
    """Refuse steps that the configuration or the node forbids."""
    disallowed = task.runtime.conf.api.disallow_deploy_steps
    faults: list[str] = []
    for template in found:
        titles = [steps.title(step) for step in template["steps"]]
        forbidden = [
            f"step {title} is not allowed by the operator's configuration"
            for title in titles
            if title in disallowed
        ]
        forbidden += lists.power_texts(task.node, StepKind.DEPLOY, template["steps"])
        faults += [f"deploy template {template['name']}: {fault}" for fault in forbidden]
    if faults:
        raise errors.InvalidParameter("; ".join(faults), path=_TRAITS_PATH, reason=faults)
