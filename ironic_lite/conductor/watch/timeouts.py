"""Ends waits that nobody ended: each wait state has a time-out (states.md: 8; S5.18)."""

from __future__ import annotations

import datetime
import functools
import logging
from collections.abc import Mapping
from types import MappingProxyType

from ironic_lite import clock, context, errors
from ironic_lite.conductor.flows import failure
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.fleet import Fleet
from ironic_lite.db import sweeps
from ironic_lite.states import State

LOG = logging.getLogger(__name__)

# wait state -> (option of [conductor], the word for the sentence)
LIMITS: Mapping[State, tuple[str, str]] = MappingProxyType(
    {
        State.CLEANWAIT: ("clean_callback_timeout", "cleaning"),
        State.DEPLOYWAIT: ("deploy_callback_timeout", "waiting for callback for"),
        State.SERVICEWAIT: ("service_callback_timeout", "servicing"),
        State.RESCUEWAIT: ("rescue_callback_timeout", "rescuing"),
        State.INSPECTWAIT: ("inspect_wait_timeout", "inspecting"),
    }
)
_BATCH = 8  # nodes of one state in one sweep, oldest first


class Timeouts:
    """Fails nodes that have waited too long."""

    def __init__(self, tasks: Tasks, fleet: Fleet) -> None:
        self._tasks = tasks
        self._fleet = fleet

    def sweep(self) -> None:
        """Look at every wait state once."""
        desk = self._tasks.desk
        for state, (option, action) in LIMITS.items():
            limit = getattr(desk.conf.conductor, option)
            if limit <= 0:
                continue
            before = clock.after(-limit)
            question = functools.partial(
                sweeps.overdue, state=str(state), before=before, limit=_BATCH
            )
            rows = desk.database.read(question)
            for row in rows:
                if self._fleet.mine(row):
                    self._end(row["uuid"], state, before, action)

    def _end(self, node_uuid: str, state: State, before: datetime.datetime, action: str) -> None:
        who = context.internal("time-outs")
        try:
            with self._tasks.lock(
                who, node_uuid, worker=True, patient=False, reserved=False
            ) as task:
                since = task.node.provision_updated_at
                if task.state is state and since is not None and since <= before:
                    task.hand_over(_time_out, action)
        except (errors.NodeLocked, errors.NodeNotFound, errors.Unavailable) as why:
            LOG.info("Node %s: the time-out is looked at again later: %s", node_uuid, why)


def _time_out(task: Task, action: str) -> None:
    step = task.node.clean_step or task.node.deploy_step or task.node.service_step
    hint = f"Failed on step {step}." if step else "No agent or BMC has reported."
    failure.give_up(task, errors.TimedOut(action=action, node=task.node.uuid, hint=hint))
