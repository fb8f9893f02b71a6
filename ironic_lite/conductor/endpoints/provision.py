"""Endpoints of the provision verbs; the work itself is in ``flows``.

Checks come before any change, so a refusal changes nothing (invariant 9). The API has already
checked the request's form and the state; the state is checked again here under the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.conductor.flows import (
    aborts,
    activities,
    clean,
    delete,
    deploy,
    rescue,
    service,
)
from ironic_lite.conductor.flows.resume import resume
from ironic_lite.conductor.steps import automated, requested, stepper
from ironic_lite.conductor.steps.phases import Flow, Phase
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import states, steps, verbs
from ironic_lite.domain.activities import limited
from ironic_lite.domain.states import State
from ironic_lite.records import StoredStep

LOG = logging.getLogger(__name__)


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
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            ramdisk, goal = not disable_ramdisk, State.MANAGEABLE
            _start_phase(task, clean.PHASE, clean_steps, ramdisk=ramdisk, goal=goal)
            return task.journal.opened

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
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check_verb(task, verb)
            templates = deploy.check(task, deploy_steps or [])
            _check_activity_limit(task, deploy.PHASE)
            deploy.request(task, deploy_steps or [], templates, configdrive)
            if not rebuild:
                deploy.lease(task)
            task.move(verbs.BY_TARGET[verb].event, verb=verb)
            task.hand_over(deploy.prepare)
            return task.journal.opened

    def do_node_tear_down(self, context: Context, *, node_uuid: str) -> str | None:
        """Start deleting the instance; cleaning follows.

        Requirement S2.30.
        """
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check_verb(task, "deleted")
            _check_activity_limit(task, clean.PHASE)
            delete.request(task)
            task.move("delete", verb="deleted")
            task.hand_over(delete.start)
            return task.journal.opened

    def do_node_service(
        self,
        context: Context,
        *,
        node_uuid: str,
        service_steps: list[StoredStep],
        disable_ramdisk: bool = False,
    ) -> str | None:
        """Start service steps on an active node."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _start_phase(task, service.PHASE, service_steps, ramdisk=not disable_ramdisk)
            return task.journal.opened

    def do_node_rescue(
        self, context: Context, *, node_uuid: str, rescue_password: str
    ) -> str | None:
        """Start a rescue."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check_verb(task, "rescue")
            task.driver.power.validate(task)
            task.driver.rescue.validate(task)
            rescue.keep_password(task, rescue_password)
            task.move("rescue", verb="rescue")
            task.hand_over(rescue.start)
            return task.journal.opened

    def do_node_unrescue(self, context: Context, *, node_uuid: str) -> str | None:
        """Bring a rescued node back to its instance."""
        return self.do_provisioning_action(context, node_uuid=node_uuid, action="unrescue")

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
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check_verb(task, action)
            _ACTIONS.get(action, Provision._start_action)(self, task, action)
            return task.journal.opened

    def _start_action(self, task: Task, action: str) -> None:
        """Move the node, and have a worker begin the activity of its new state, if there is one."""
        event = verbs.BY_TARGET[action].event
        flow = activities.of(states.follow(task.state, event))
        if flow is None:
            task.move(event, verb=action)
            return
        if flow.check is None:
            raise _unknown_action(action)
        flow.check(task)
        task.move(event, verb=action)
        task.hand_over(flow.prepare)

    def _start_provide(self, task: Task, _action: str) -> None:
        book = None
        if clean.enabled(task):
            book = automated.book(task)
            _validate_drivers(task, clean.PHASE, ramdisk=book is None or book.ramdisk)
        _check_activity_limit(task, clean.PHASE)
        clean.request(task, book)
        task.move("provide", verb="provide", goal=State.AVAILABLE)
        task.hand_over(clean.prepare)

    def _start_unhold(self, task: Task, _action: str) -> None:
        heard = task.driver.deploy.in_band and task.notes.agent_url is not None
        if not heard:  # no agent would send the heartbeat that wakes the node
            task.node.wake_at = clock.now()
        task.journal.once()  # a late copy must not end another hold
        task.move("unhold")

    def _start_abort(self, task: Task, _action: str) -> None:
        state = task.state
        task.journal.once()  # a late copy must not end another run
        if state is State.SERVICEFAIL:
            if task.node.maintenance:
                reason = "end the maintenance first, because its fault is not fixed"
                raise errors.Conflict(node=task.node.uuid, reason=reason)
            task.move("abort", verb="abort")
            return
        phase = activities.waiting_steps(state)
        if phase is not None and stepper.must_end(task, phase):
            _abort_later(task, phase)
            return
        aborts.start(task)

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
    _check_verb(task, verb)
    boots = ramdisk and requested.needs_ramdisk(task, phase.kind, wanted)
    _validate_drivers(task, phase, ramdisk=boots)
    requested.admit(task, phase.kind, wanted)
    _check_activity_limit(task, phase)
    task.notes.request_steps(phase.kind, wanted, ramdisk=boots)
    phase.show(task, {})
    task.move(verbs.BY_TARGET[verb].event, verb=verb, goal=goal)
    task.hand_over(phase.prepare)


def _check_activity_limit(task: Task, flow: Flow) -> None:
    """Refuse the next move (503) if it would exceed the activity's limit of the whole cluster.

    The count is part of the move's transaction, so concurrent callers and conductors cannot exceed
    the limit.
    """
    activity = flow.activity
    if activity.limit is None:
        return
    among = limited(activity.limit)
    most = task.runtime.conf.conductor[activity.limit]

    def count(conn: Connection) -> None:
        if sweeps.count_alone(conn, among) >= most:
            raise errors.TooManyActions(limit=most, action=str(activity.busy))

    task.add_write(count, first=True)


def _unknown_action(action: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path="action", reason=f"{action!r} is not a known action")


def _check_verb(task: Task, target: str) -> None:
    """Refuse a verb under the lock: bad state, protected, retired, maintenance."""
    verb = verbs.BY_TARGET[target]
    node = task.node
    if not verbs.possible(verb, task.state):
        raise errors.InvalidState(verb=target, node=node.uuid, state=str(task.state))
    if verb.spares_protected and node.protected:
        raise errors.NodeProtected(node=node.uuid)
    if verb.spares_retired and node.retired:
        raise errors.NodeRetired(node=node.uuid)
    cleans = target in ("provide", "cleaned")
    allowed = task.runtime.conf.conductor.allow_provisioning_in_maintenance or not cleans
    if node.maintenance and not (verb.in_maintenance and allowed):
        raise errors.NodeInMaintenance(verb=target, node=node.uuid)


def _validate_drivers(task: Task, flow: Flow, *, ramdisk: bool = True) -> None:
    """Refuse what the drivers cannot do, before the machine is switched off."""
    driver = task.driver
    checks: dict[str, Callable[[Task], None]] = {"power": driver.power.validate}
    if ramdisk:
        checks |= {"network": driver.network.validate, "boot": driver.deploy.check_ramdisk}
    for kind, check in checks.items():
        try:
            check(task)
        except errors.InvalidRequest as why:
            sentence = (
                f"Failed to validate {kind} driver interface for {flow.activity.busy} of node "
                f"{task.node.uuid}: {why.message}"
            )
            raise errors.InvalidRequest(sentence, **why.facts) from why


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
