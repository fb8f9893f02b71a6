"""Time-outs of the wait states.

Requirement S5.18; states.md, 8.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import logging
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.flows import failure
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, context
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import steps
from ironic_lite.domain.states import State

LOG = logging.getLogger(__name__)


class Limit(NamedTuple):
    """The time limit of a wait.

    The fields: an option of [conductor]; the column with the waiting step; the words between
    "Timeout reached while" and the node.
    """

    option: str
    column: str | None
    action: str


LIMITS: Mapping[State, Limit] = MappingProxyType(
    {
        State.CLEANWAIT: Limit("clean_callback_timeout", "clean_step", "cleaning the node"),
        State.DEPLOYWAIT: Limit(
            "deploy_callback_timeout", "deploy_step", "waiting for callback for node"
        ),
        State.SERVICEWAIT: Limit("service_callback_timeout", "service_step", "servicing the node"),
        State.RESCUEWAIT: Limit("rescue_callback_timeout", None, "rescuing the node"),
        State.INSPECTWAIT: Limit("inspect_wait_timeout", None, "inspecting the node"),
    }
)
_PAGE = 100


class Timeouts:
    """Fails nodes that have waited too long."""

    def __init__(self, tasks: Tasks, fleet: Ownership) -> None:
        self._tasks = tasks
        self._fleet = fleet

    def sweep(self) -> None:
        """Check each wait state once, at most [conductor]periodic_max_workers nodes each."""
        settings = self._tasks.runtime.conf.conductor
        for state, limit in LIMITS.items():
            seconds = getattr(settings, limit.option)
            if seconds <= 0:
                continue
            before = clock.ago(seconds)  # a clock that was set forward must not end a wait
            mine = itertools.islice(self._overdue(state, before), settings.periodic_max_workers)
            for node_uuid in list(mine):
                self._end(node_uuid, state, before)

    def _overdue(self, state: State, before: datetime.datetime) -> Iterator[str]:
        """Yield this conductor's overdue nodes by age, whatever other conductors have."""
        seen = 0
        while True:
            question = functools.partial(
                sweeps.overdue, state=str(state), before=before, skip=seen, limit=_PAGE
            )
            page = self._tasks.runtime.database.read(question)
            yield from (row["uuid"] for row in page if self._fleet.mine(row))
            seen += len(page)
            if len(page) < _PAGE:
                return

    def _end(self, node_uuid: str, state: State, before: datetime.datetime) -> None:
        who = context.internal("time-outs")
        try:
            with self._tasks.lock(
                who, node_uuid, worker=True, patient=False, reserved=False, whole=False
            ) as task:
                if _is_over(task, state, before):
                    task.hand_over(_time_out, LIMITS[state])
        except errors.Error as why:
            LOG.info("Node %s: its time-out will be checked again later: %s", node_uuid, why)


def _is_over(task: Task, state: State, before: datetime.datetime) -> bool:
    """Return whether the node is still overdue under the lock."""
    node = task.node
    since, wake_at = node.provision_updated_at, node.wake_at
    # Maintenance set by an operator stops the clock, one that a fault has set does not.
    if task.state is not state or (node.maintenance and node.fault is None):
        return False
    return since is not None and since <= before and (wake_at is None or wake_at <= before)


def _time_out(task: Task, limit: Limit) -> None:
    waiting = getattr(task.node, limit.column) if limit.column else None
    # Only the title of the step, because its arguments may be secret.
    step = steps.title(waiting) if waiting else None
    hint = f"Failed on step {step}." if step else "No agent or BMC has reported."
    sentence = f"Timeout reached while {limit.action} {task.node.uuid}. {hint}"
    facts = {"action": limit.action, "node": task.node.uuid, "hint": hint, "step": step}
    failure.give_up(task, errors.TimedOut(sentence, **facts))
