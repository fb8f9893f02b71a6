"""Endpoints of the provision verbs; the work itself is in ``flows``.

Checks come before any change, so a refusal changes nothing (invariant 9). The API has already
checked the request's form and the state; the state is checked again here under the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.conductor import planning
from ironic_lite.conductor.flows import (
    aborts,
    activities,
    admission,
    clean,
    delete,
    deploy,
    rescue,
    service,
)
from ironic_lite.conductor.flows import retry as retries
from ironic_lite.conductor.flows.resume import resume
from ironic_lite.conductor.steps import automated, requested, stepper, stops
from ironic_lite.conductor.steps.phases import Checks, Phase
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.domain import states, steps, verbs
from ironic_lite.domain.states import State
from ironic_lite.drivers import deadline
from ironic_lite.records import StoredStep

LOG = logging.getLogger(__name__)

_PLAN_SECONDS = 10.0
"""Time limit of a plan for drivers that, against their contract, ask a machine."""


class Provision:
    """Endpoints that move a node through the state table.

    Verbs return the UUID of the run that they have opened, None if they have opened none.
    """

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    # -- verbs with a body -------------------------------------------------------------------

    def do_node_clean(
        self,
        context: Context,
        *,
        node_uuid: str,
        clean_steps: list[StoredStep],
        disable_ramdisk: bool = False,
    ) -> str | None:
        """Start a manual clean.

        Requirement S1.34.
        """

        def act(task: Task) -> str | None:
            ramdisk, goal = not disable_ramdisk, State.MANAGEABLE
            _start_phase(task, clean.PHASE, clean_steps, ramdisk=ramdisk, goal=goal)
            return task.journal.opened

        return self.tasks.start(context, node_uuid, act)

    def do_node_deploy(
        self,
        context: Context,
        *,
        node_uuid: str,
        rebuild: bool = False,
        configdrive: object = None,
        deploy_steps: list[StoredStep] | None = None,
    ) -> str | None:
        """Start a deployment or a rebuild."""
        verb = "rebuild" if rebuild else "active"

        def act(task: Task) -> str | None:
            admission.raise_first(admission.of_verb(task, verb))
            deploy.take_drive(task, configdrive)  # it is checked with the rest of the instance
            templates = deploy.check(task, deploy_steps or [])
            admission.keep_limit(task, deploy.PHASE, verb)
            deploy.request(task, deploy_steps or [], templates)
            if not rebuild:
                deploy.lease(task)
            task.move(verbs.BY_TARGET[verb].event, verb=verb)
            task.hand_over(deploy.prepare)
            return task.journal.opened

        return self.tasks.start(context, node_uuid, act)

    def do_node_tear_down(self, context: Context, *, node_uuid: str) -> str | None:
        """Start deleting the instance; cleaning follows.

        Requirement S2.30.
        """

        def act(task: Task) -> str | None:
            admission.raise_first(admission.of_verb(task, "deleted"))
            admission.keep_limit(task, clean.PHASE, "deleted")
            delete.request(task)
            task.move("delete", verb="deleted")
            task.hand_over(delete.start)
            return task.journal.opened

        return self.tasks.start(context, node_uuid, act)

    def do_node_service(
        self,
        context: Context,
        *,
        node_uuid: str,
        service_steps: list[StoredStep],
        disable_ramdisk: bool = False,
    ) -> str | None:
        """Start service steps on an active node."""

        def act(task: Task) -> str | None:
            _start_phase(task, service.PHASE, service_steps, ramdisk=not disable_ramdisk)
            return task.journal.opened

        return self.tasks.start(context, node_uuid, act)

    def do_node_rescue(
        self, context: Context, *, node_uuid: str, rescue_password: str
    ) -> str | None:
        """Start a rescue."""

        def act(task: Task) -> str | None:
            admission.raise_first(admission.of_verb(task, "rescue"))
            _pass_checks(rescue.checks(task, rescue_password))
            task.move("rescue", verb="rescue")
            task.hand_over(rescue.start)
            return task.journal.opened

        return self.tasks.start(context, node_uuid, act)

    def do_node_unrescue(self, context: Context, *, node_uuid: str) -> str | None:
        """Bring a rescued node back to its instance."""
        return self.do_provisioning_action(context, node_uuid=node_uuid, action="unrescue")

    def do_node_retry(
        self, context: Context, *, node_uuid: str, retry: Json | None = None
    ) -> str | None:
        """Continue the node's failed run with its list, from the step that failed.

        :param retry: ``from``, ``waive`` and ``force`` of the request.
        """
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            admission.raise_first(admission.of_verb(task, "retry"))
            phase = activities.failed_steps(task.state)
            assert phase is not None  # the state table has retry in these states only
            retries.start(task, phase, retry or {})
            return task.journal.opened

    def inspect_hardware(self, context: Context, *, node_uuid: str) -> str | None:
        """Start an inspection."""
        return self.do_provisioning_action(context, node_uuid=node_uuid, action="inspect")

    # -- verbs without one -------------------------------------------------------------------

    def do_provisioning_action(
        self, context: Context, *, node_uuid: str, action: str
    ) -> str | None:
        """Carry out a verb without arguments, such as manage, provide, adopt, abort or unhold.

        :raises errors.InvalidParameter: any other action.
        """
        if action not in verbs.BY_TARGET:
            raise _unknown_action(action)

        def act(task: Task) -> str | None:
            admission.raise_first(admission.of_verb(task, action))
            _ACTIONS.get(action, Provision._start_action)(self, task, action)
            return task.journal.opened

        return self.tasks.start(context, node_uuid, act)

    def _start_action(self, task: Task, action: str) -> None:
        """Move the node, and have a worker begin the activity of its new state, if there is one."""
        event = verbs.BY_TARGET[action].event
        flow = activities.of(states.follow(task.state, event))
        if flow is None:
            task.move(event, verb=action)
            return
        if flow.checks is None:
            raise _unknown_action(action)
        _pass_checks(flow.checks(task))
        task.move(event, verb=action)
        task.hand_over(flow.prepare)

    def _start_provide(self, task: Task, _action: str) -> None:
        book = None
        if clean.enabled(task):
            book = automated.book(task)
            boots = book is None or book.ramdisk
            admission.raise_first(admission.of_drivers(task, clean.PHASE, ramdisk=boots))
        admission.keep_limit(task, clean.PHASE, "provide")
        clean.request(task, book)
        task.move("provide", verb="provide", goal=State.AVAILABLE)
        task.hand_over(clean.prepare)

    def _start_unhold(self, task: Task, _action: str) -> None:
        if task.notes.paused:  # no agent has a step whose end it could report
            task.node.wake_at = clock.now()
        heard = task.driver.deploy.in_band and task.notes.agent_url is not None
        if not heard:  # no agent would send the heartbeat that wakes the node
            task.node.wake_at = clock.now()
        task.journal.once()  # a late copy must not end another hold
        task.move("unhold")

    def _start_abort(self, task: Task, _action: str) -> None:
        task.journal.once()  # a late copy must not end another run
        admission.raise_first(admission.of_abort(task))
        phase = activities.waiting_steps(task.state)
        if phase is not None and stepper.must_end(task, phase):
            _abort_later(task, phase)
            return
        aborts.start(task)

    def stop_run(self, context: Context, *, node_uuid: str, run_uuid: str) -> None:
        """Abort a waiting run now, if its stop demands it and its step may be interrupted."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            phase = activities.waiting_steps(task.state)
            if phase is None or task.node.run_uuid != run_uuid or stepper.must_end(task, phase):
                return
            if stops.abort_waiting(task):
                aborts.start(task)

    # -- plans -------------------------------------------------------------------------------

    def plan_provision(self, context: Context, *, node_uuid: str, target: str, body: Json) -> Json:
        """Return the faults and the steps of a verb, without the node's lock."""
        if target not in verbs.BY_TARGET:
            raise _unknown_action(target)
        try:
            task = self.tasks.look(context, node_uuid)
        except (errors.InvalidRequest, errors.DriverNotFound) as why:
            return planning.impossible(why)
        with deadline.until(_PLAN_SECONDS):
            return planning.plan(task, target, body)

    # -- reports that a step has ended: for older and foreign callers; heartbeats do not come here

    def continue_node_clean(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting clean step."""
        self._continue_wait(context, node_uuid, State.CLEANWAIT, step_id)

    def continue_node_deploy(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting deploy step."""
        self._continue_wait(context, node_uuid, State.DEPLOYWAIT, step_id)

    def continue_node_service(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting service step."""
        self._continue_wait(context, node_uuid, State.SERVICEWAIT, step_id)

    def _continue_wait(
        self, context: Context, node_uuid: str, expected: State, step_id: str | None
    ) -> None:
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            if step_id is not None and step_id != task.step_id:
                LOG.info(
                    "Node %s: step %s was reported as ended, but it no longer waits",
                    node_uuid,
                    step_id,
                )
                return
            if task.state is not expected:
                raise errors.InvalidState(verb="resume", node=node_uuid, state=str(task.state))
            if task.node.wake_at is None:  # otherwise a timer ends the step
                task.hand_over(resume, poll=False)


def _start_phase(
    task: Task,
    phase: Phase,
    wanted: list[StoredStep],
    *,
    ramdisk: bool,
    goal: State | None = None,
) -> None:
    """Start the steps of a request; the verb has the name of the activity.

    :param ramdisk: False forbids to boot the ramdisk.
    """
    verb = phase.activity.name
    admission.raise_first(admission.of_verb(task, verb))
    boots = ramdisk and requested.needs_ramdisk(task, phase.kind, wanted)
    admission.raise_first(admission.of_drivers(task, phase, ramdisk=boots))
    admission.raise_first(requested.child_refusals(task, phase.kind, wanted))
    admission.keep_limit(task, phase, verb)
    task.notes.request_steps(phase.kind, wanted, ramdisk=boots)
    phase.show(task, {})
    task.move(verbs.BY_TARGET[verb].event, verb=verb, goal=goal)
    task.hand_over(phase.prepare)


def _pass_checks(checks: Checks) -> None:
    for one in checks:
        one()


def _unknown_action(action: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path="action", reason=f"{action!r} is not a known action")


def _abort_later(task: Task, phase: Phase) -> None:
    """Record an abort for the end of the running step, which must not be interrupted."""
    step = phase.current(task)
    phase.show(task, {**step, "abort_after": True})
    data = {"step": steps.title(step)}
    task.journal.event("abort_requested", run=task.node.run_uuid, event="abort", data=data)
    task.save()


_ACTIONS: Mapping[str, Callable[[Provision, Task, str], None]] = {
    "provide": Provision._start_provide,
    "cleaned": Provision._start_provide,
    "unhold": Provision._start_unhold,
    "abort": Provision._start_abort,
}
"""Verbs without arguments that do not simply start an activity."""
