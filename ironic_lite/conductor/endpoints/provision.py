"""Endpoints of the provision verbs; the work itself is in ``flows``.

Checks come before any change, so a refusal changes nothing (invariant 9). The API has already
checked the request's form and the state; the state is checked again here under the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ironic_lite import errors
from ironic_lite.conductor.flows import (
    aborts,
    adopt,
    clean,
    delete,
    deploy,
    inspect,
    rescue,
    service,
    verify,
)
from ironic_lite.conductor.flows.resume import resume
from ironic_lite.conductor.steps import automated, requested, stepper
from ironic_lite.conductor.steps.phases import Phase
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import steps, verbs
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import StoredStep

LOG = logging.getLogger(__name__)

_CLEANING = (State.DELETING, State.CLEANING, State.CLEANWAIT)
_DEPLOYING = (State.DEPLOYING, State.DEPLOYWAIT)


class Provision:
    """Endpoints that move a node through the state table."""

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
    ) -> None:
        """Start a manual clean.

        Requirement S1.34.
        """
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check(task, "clean")
            ramdisk = not disable_ramdisk and requested.needs_ramdisk(
                task, StepKind.CLEAN, clean_steps
            )
            _validate(task, "cleaning", ramdisk=ramdisk)
            requested.admit(task, StepKind.CLEAN, clean_steps)
            _limit(task, "max_concurrent_clean", "cleaning", _CLEANING)
            clean.request(task, clean_steps, ramdisk=ramdisk)
            task.move("clean", verb="clean", goal=State.MANAGEABLE)
            task.hand_over(clean.prepare)

    def do_node_deploy(
        self,
        context: Context,
        *,
        node_uuid: str,
        rebuild: bool = False,
        configdrive: Any = None,
        deploy_steps: list[StoredStep] | None = None,
    ) -> None:
        """Start a deployment or a rebuild."""
        verb = "rebuild" if rebuild else "active"
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check(task, verb)
            templates = deploy.check(task, deploy_steps or [])
            _limit(task, "max_concurrent_deploy", "deploying", _DEPLOYING)
            deploy.request(task, deploy_steps or [], templates, configdrive)
            if not rebuild:
                deploy.lease(task)
            task.move(verbs.BY_TARGET[verb].event, verb=verb)
            task.hand_over(deploy.prepare)

    def do_node_tear_down(self, context: Context, *, node_uuid: str) -> None:
        """Start deleting the instance; cleaning follows.

        Requirement S2.30.
        """
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check(task, "deleted")
            _limit(task, "max_concurrent_clean", "cleaning", _CLEANING)
            delete.request(task)
            task.move("delete", verb="deleted")
            task.hand_over(delete.start)

    def do_node_service(
        self,
        context: Context,
        *,
        node_uuid: str,
        service_steps: list[StoredStep],
        disable_ramdisk: bool = False,
    ) -> None:
        """Start service steps on an active node."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check(task, "service")
            ramdisk = not disable_ramdisk and requested.needs_ramdisk(
                task, StepKind.SERVICE, service_steps
            )
            _validate(task, "servicing", ramdisk=ramdisk)
            requested.admit(task, StepKind.SERVICE, service_steps)
            service.request(task, service_steps, ramdisk=ramdisk)
            task.move("service", verb="service")
            task.hand_over(service.prepare)

    def do_node_rescue(self, context: Context, *, node_uuid: str, rescue_password: str) -> None:
        """Start a rescue."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check(task, "rescue")
            task.driver.power.validate(task)
            task.driver.rescue.validate(task)
            rescue.keep_password(task, rescue_password)
            task.move("rescue", verb="rescue")
            task.hand_over(rescue.start)

    def do_node_unrescue(self, context: Context, *, node_uuid: str) -> None:
        """Bring a rescued node back to its instance."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check(task, "unrescue")
            task.driver.power.validate(task)
            task.move("unrescue", verb="unrescue")
            task.hand_over(rescue.start_unrescue)

    def inspect_hardware(self, context: Context, *, node_uuid: str) -> None:
        """Start an inspection."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check(task, "inspect")
            task.driver.power.validate(task)
            task.driver.inspect.validate(task)
            task.move("inspect", verb="inspect")
            task.hand_over(inspect.start)

    # -- verbs without one -------------------------------------------------------------------

    def do_provisioning_action(self, context: Context, *, node_uuid: str, action: str) -> None:
        """Carry out manage, provide, cleaned, available, adopt, abort or unhold.

        :raises errors.InvalidParameter: any other action.
        """
        act = _ACTIONS.get(action)
        if act is None:
            raise errors.InvalidParameter(path="action", reason=f"{action!r} is not a known action")
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            _check(task, action)
            act(self, task)

    def _manage(self, task: Task) -> None:
        task.move("manage", verb="manage")
        if task.state is State.VERIFYING:
            task.hand_over(verify.start)

    def _provide(self, task: Task) -> None:
        book = None
        if clean.enabled(task):
            book = automated.book(task)
            _validate(task, "cleaning", ramdisk=book is None or book.ramdisk)
        _limit(task, "max_concurrent_clean", "cleaning", _CLEANING)
        clean.request_by(task, book)
        task.move("provide", verb="provide", goal=State.AVAILABLE)
        task.hand_over(clean.prepare)

    def _available(self, task: Task) -> None:
        task.move("available", verb="available")

    def _adopt(self, task: Task) -> None:
        task.driver.power.validate(task)
        task.move("adopt", verb="adopt")
        task.hand_over(adopt.start)

    def _unhold(self, task: Task) -> None:
        heard = task.driver.deploy.in_band and task.notes.agent_url is not None
        if not heard:  # no agent would send the heartbeat that wakes the node
            task.node.wake_at = clock.now()
        task.journal.once()  # a late copy must not end another hold
        task.move("unhold")

    def _abort(self, task: Task) -> None:
        state = task.state
        task.journal.once()  # a late copy must not end another run
        if state is State.SERVICEFAIL:
            if task.node.maintenance:
                reason = "end the maintenance first, because its fault is not fixed"
                raise errors.Conflict(node=task.node.uuid, reason=reason)
            task.move("abort", verb="abort")
            return
        phase = _PHASES.get(state)
        if phase is not None and stepper.must_end(task, phase):
            _abort_later(task, phase)
            return
        aborts.start(task)

    # -- going on ----------------------------------------------------------------------------

    def continue_node_clean(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting clean step."""
        self._go_on(context, node_uuid, State.CLEANWAIT, step_id)

    def continue_node_deploy(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting deploy step."""
        self._go_on(context, node_uuid, State.DEPLOYWAIT, step_id)

    def continue_node_service(
        self, context: Context, *, node_uuid: str, step_id: str | None = None
    ) -> None:
        """Continue after a waiting service step."""
        self._go_on(context, node_uuid, State.SERVICEWAIT, step_id)

    def _go_on(
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


def _limit(task: Task, option: str, action: str, among: tuple[State, ...]) -> None:
    """Refuse the next move (503) if it would exceed the limit of the whole cluster.

    The count is part of the move's transaction, so concurrent callers and conductors cannot exceed
    the limit.
    """
    most = getattr(task.runtime.conf.conductor, option)

    def count(conn: Connection) -> None:
        if sweeps.count_alone(conn, among) >= most:
            raise errors.TooManyActions(limit=most, action=action)

    task.add_write(count, first=True)


def _check(task: Task, target: str) -> None:
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


def _validate(task: Task, action: str, *, ramdisk: bool = True) -> None:
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
                f"Failed to validate {kind} driver interface for {action} of node "
                f"{task.node.uuid}: {why.message}"
            )
            raise errors.InvalidRequest(sentence, **why.facts) from why


def _abort_later(task: Task, phase: Phase) -> None:
    """Record an abort for the end of the running step, which must not be interrupted."""
    step = phase.current(task)
    setattr(task.node, phase.column or "", {**step, "abort_after": True})
    data = {"step": steps.title(step)}
    task.journal.event("abort_requested", run=task.node.run_uuid, event="abort", data=data)
    task.save()


_PHASES: dict[State, Phase] = {
    State.CLEANWAIT: clean.PHASE,
    State.DEPLOYWAIT: deploy.PHASE,
    State.SERVICEWAIT: service.PHASE,
}
_ACTIONS: dict[str, Callable[[Provision, Task], None]] = {
    "manage": Provision._manage,
    "provide": Provision._provide,
    "cleaned": Provision._provide,
    "available": Provision._available,
    "adopt": Provision._adopt,
    "unhold": Provision._unhold,
    "abort": Provision._abort,
}
