"""Endpoints of the provision verbs; the work itself is in ``flows``.

Checks come before any change, so a refusal changes nothing (invariant 9). The API has already
checked the request's form and the state; the state is checked again here under the lock.
"""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.conductor.engine import stepper
from ironic_lite.conductor.flows import activities, planning
from ironic_lite.conductor.flows import verbs as flow_verbs
from ironic_lite.conductor.flows.activities import resume
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.domain import verbs
from ironic_lite.domain.states import State
from ironic_lite.drivers import deadline

LOG = logging.getLogger(__name__)

_PLAN_SECONDS = 10.0
"""Time limit of a plan for drivers that, against their contract, ask a machine."""


class ProvisionEndpoints:
    """Endpoints that move a node through the state table."""

    tasks: TaskRunner

    def start_verb(self, context: Context, *, node_uuid: str, event: str, body: Json) -> str | None:
        """Start a provision verb; return the UUID of the run that it opens, None if it opens none.

        :raises errors.InvalidParameter: no verb has this event.
        """
        verb = verbs.BY_EVENT.get(event)
        if verb is None:
            raise _unknown("event", event)

        with self.tasks.lock(context, node_uuid, worker=True) as task:
            flow_verbs.start(task, verb, body)
            return task.journal.opened

    def stop_run(self, context: Context, *, node_uuid: str, run_uuid: str) -> None:
        """Abort a waiting run now, if its stop demands it and its step may be interrupted."""
        with self.tasks.lock(context, node_uuid, worker=True) as task:
            phase = activities.waiting_steps(task.state)
            if phase is None or task.node.run_uuid != run_uuid or stepper.must_end(task, phase):
                return
            if stepper.abort_waiting(task):
                activities.start_abort(task)

    # -- plans -------------------------------------------------------------------------------

    def plan_provision(self, context: Context, *, node_uuid: str, target: str, body: Json) -> Json:
        """Return the faults and the steps of a verb, without the node's lock.

        They come with the names from which this conductor's ``autodetect`` chooses.
        """
        if target not in verbs.BY_TARGET:
            raise _unknown("target", target)
        try:
            task = self.tasks.look(context, node_uuid)
        except (errors.InvalidRequest, errors.DriverNotFound) as why:
            return planning.impossible(why)
        names = self.tasks.runtime.conf.autodetect_deploy_interfaces
        with deadline.until(_PLAN_SECONDS):
            return {**flow_verbs.plan(task, verbs.BY_TARGET[target], body), "autodetect": names}

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


def _unknown(path: str, value: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=f"{value!r} is not a known {path}")
