"""Deploying and rebuilding: prepare, compose the list, run it (S3).

From ``endpoints/provision`` (verbs active, deploy, rebuild); on to ``stepper.run``.
"""

from __future__ import annotations

import logging
from typing import Any

from ironic_lite import errors, plans, steps
from ironic_lite.conductor import agents, stepper
from ironic_lite.conductor.flows import faults, listed, offers, templates
from ironic_lite.conductor.phases import Phase
from ironic_lite.conductor.task import Task
from ironic_lite.states import State
from ironic_lite.steps import DONE, WAIT, Step, StepKind

LOG = logging.getLogger(__name__)

Json = dict[str, Any]
_WHOLE = Step("deploy", "deploy", priority=100)
_DEPRECATED = (
    "Deploy interface %s has no deploy steps; deploying the old way is deprecated. Let it mark "
    "its methods with deploy_step before that is removed, and let deployments under way end before "
    "such an upgrade."
)


def check(task: Task, user_steps: list[Json]) -> list[Json]:
    """Refuse at once what cannot be deployed, while the caller still listens.

    :returns: the deploy templates to be taken up.
    :raises errors.InvalidRequest: naming the node and everything that is wrong.
    """
    try:
        task.driver.power.validate(task)
        task.driver.deploy.validate(task)
        taken = templates.matching(task)
        compose(task, user_steps, taken)
        listed.refuse(StepKind.DEPLOY, listed.power_faults(task.node, StepKind.DEPLOY, user_steps))
    except errors.InvalidRequest as why:
        sentence = (
            f"Failed to validate deploy or power info for node {task.node.uuid}: {why.message}"
        )
        raise errors.InvalidRequest(sentence, **why.facts) from why
    return taken


def check_templates(task: Task) -> None:
    """Refuse deploy templates that the next deployment would take up and cannot.

    :raises errors.InvalidParameter: as ``templates.matching`` and ``plans.deploy``.
    """
    taken = templates.matching(task)
    if taken:
        compose(task, [], taken)


def compose(task: Task, user_steps: list[Json], taken: list[Json] | None = None) -> list[Json]:
    """Return the list to run; an agent may add to it later, and only then is it complete.

    It is empty for an interface of the old kind, unless there are steps beside it: it is one of
    them then, or the instance would never be written.

    :param taken: deploy templates; None for those noted when the deployment was accepted.
    """
    if taken is None:
        taken = task.notes.deploy_templates
    found = offers.offered(task, StepKind.DEPLOY)
    if is_old(task) and (user_steps or taken or any(step.priority for step in found)):
        found.append(_WHOLE)
    told = task.notes.agent_steps(StepKind.DEPLOY) is not None
    agents = task.driver.deploy.uses_agent(task) and not task.driver.deploy.boots_ramdisk
    complete = told or not agents
    return plans.deploy(found, user_steps, taken, complete=complete)


def is_old(task: Task) -> bool:
    """Tell whether the deploy interface knows no steps, but deploys in one piece (S3.19)."""
    interface = task.driver.deploy
    return not interface.get_deploy_steps(task) and hasattr(interface, "deploy")


def request(task: Task, user_steps: list[Json], taken: list[Json], configdrive: Any) -> None:
    """Note what was asked for: old notes go, the configuration drive is kept with the instance."""
    task.notes.request_deploy(user_steps, taken)
    task.node.deploy_step = None
    if configdrive is not None:
        task.node.instance_info = {**task.node.instance_info, "configdrive": configdrive}


def prepare(task: Task) -> None:
    """Get the deploy interface ready, then run its steps."""
    task.driver.deploy.prepare(task)
    begin(task)


def begin(task: Task) -> None:
    """Run all steps; an interface of the old kind is run as one piece (S3.19)."""
    _listen(task)
    listed = compose(task, task.notes.user_deploy_steps)
    old = is_old(task)
    if old:
        LOG.warning(_DEPRECATED, type(task.driver.deploy).__name__)
    if listed:
        stepper.start(task, PHASE, listed)
    elif old:
        _old_way(task, task.driver.deploy)
    else:
        raise errors.DeployStepFailed(
            f"No deploy steps returned for node {task.node.uuid}", step=None, reason="no steps"
        )


def _old_way(task: Task, interface: Any) -> None:
    outcome = interface.deploy(task)
    if (outcome or DONE) in (WAIT, State.DEPLOYWAIT):
        task.move("wait")
    else:
        finish(task)


def _listen(task: Task) -> None:
    """Take down the agent's steps as soon as it tells them; none is unknown from then on."""
    if task.notes.deploy_validated or not task.driver.deploy.uses_agent(task):
        return
    agents.listen(task, StepKind.DEPLOY)
    if task.notes.agent_steps(StepKind.DEPLOY) is not None:
        task.notes.validate_deploy()


def hear(task: Task, done: int) -> None:
    """Compose the list anew when the agent has begun to speak: what is done stays so."""
    if task.notes.deploy_validated:
        return
    _listen(task)
    if task.notes.deploy_validated:
        ran = {steps.title(step) for step in task.notes.listed(StepKind.DEPLOY)[: done + 1]}
        whole = compose(task, task.notes.user_deploy_steps)
        left = [step for step in whole if steps.title(step) not in ran]
        stepper.replace(task, PHASE, done, left)


def resume(task: Task, *, poll: bool) -> None:
    """Go on from wait call-back; an empty list means the old way, which is done now (S3.21)."""
    if task.notes.listed(StepKind.DEPLOY):
        stepper.resume(task, PHASE, poll=poll)
        return
    task.move("resume")
    finish(task)


def finish(task: Task) -> None:
    """Every step is done: active."""
    task.node.deploy_step = None
    task.notes.settle_steps(StepKind.DEPLOY, forget_list=True)
    task.notes.forget_agent()
    task.move("done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail; the step and the list stay to be read until the next try (S3.14, C18)."""
    task.failing = True
    error = _put_away(task, faults.cannot("deploy", task, why))
    task.notes.forget_agent()
    task.notes.forget_changes()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort by request: deploy failed, nothing is cleaned."""
    task.notes.forget_agent()
    task.notes.forget_changes()
    step = steps.title(task.node.deploy_step) if task.node.deploy_step else None
    task.move("abort", error=errors.Aborted(action="deploy", where="", step=step), aborted=True)


def tidy(task: Task) -> None:
    """Remove what deploying left in files and caches, after the state has been settled."""
    error = _put_away(task, errors.Aborted(task.node.last_error, action="deploy", where=""))
    task.node.last_error = error.message
    task.save()


def _put_away(task: Task, why: errors.Error) -> errors.Error:
    error = faults.besides(task, why, "cleaning up", task.driver.deploy.clean_up)
    wanted = task.desk.conf.deploy.power_off_after_deploy_failure
    return faults.switch_off(task, error, wanted=wanted)


PHASE = Phase(
    kind=StepKind.DEPLOY,
    column="deploy_step",
    failure=errors.DeployStepFailed,
    action="deploying",
    waiting=State.DEPLOYWAIT,
    prepare=prepare,
    begin=begin,
    finish=finish,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
    hear=hear,
)
