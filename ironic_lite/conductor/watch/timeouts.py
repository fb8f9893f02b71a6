"""Time-outs of the wait states.

Requirement S5.18.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import logging
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.conductor.flows import failure
from ironic_lite.conductor.flows.activities import waiting_steps
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, context
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import activities, steps, waiting
from ironic_lite.domain.activities import Activity
from ironic_lite.domain.states import State

LOG = logging.getLogger(__name__)
_PAGE = 100

_FIRST, _LATEST = datetime.datetime(1970, 1, 1), datetime.datetime(9999, 1, 1)


class Timeouts:
    """Fails nodes that have waited too long."""

    def __init__(self, tasks: Tasks, fleet: Ownership) -> None:
        self._tasks = tasks
        self._fleet = fleet

    def sweep(self) -> None:
        """Check each wait state once, at most [conductor]periodic_max_workers nodes each."""
        settings = self._tasks.runtime.conf.conductor
        for activity in activities.TABLE:
            state, option = activity.waiting, activity.timeout
            if state is None or option is None or (seconds := settings[option]) <= 0:
                continue
            before = clock.ago(seconds)  # a clock that was set forward must not end a wait
            found = itertools.chain(
                self._overdue_nodes(state, before), self._nodes_ahead(state, seconds)
            )
            left = settings.periodic_max_workers
            for node_uuid in found:
                left -= self._end_overdue(node_uuid, activity, before, seconds)
                if left <= 0:
                    break

    def _overdue_nodes(self, state: State, before: datetime.datetime) -> Iterator[str]:
        """Yield this conductor's overdue nodes by age, whatever other conductors have."""
        for row in self._waiting_nodes(state, before, since=_FIRST):
            yield row["uuid"]

    def _nodes_ahead(self, state: State, seconds: float) -> Iterator[str]:
        """Yield the overdue nodes whose wait began by a clock that was ahead of this one."""
        for row in self._waiting_nodes(state, _LATEST, since=clock.ahead_since()):
            if clock.lived(row["provision_updated_at"]) >= seconds:
                yield row["uuid"]

    def _waiting_nodes(
        self, state: State, before: datetime.datetime, since: datetime.datetime
    ) -> Iterator[sweeps.Overdue]:
        """Yield this conductor's nodes whose wait began between two times."""
        last = None
        while True:
            question = functools.partial(
                sweeps.overdue,
                state=str(state),
                before=before,
                after=last,
                since=since,
                limit=_PAGE,
            )
            page = self._tasks.runtime.database.read(question)
            yield from (row for row in page if self._fleet.mine(row))
            if len(page) < _PAGE:
                return
            last = page[-1]

    def _end_overdue(
        self, node_uuid: str, activity: Activity, before: datetime.datetime, seconds: float
    ) -> bool:
        """End the wait of a node; return False if its share of the workers is full."""
        who = context.internal("time-outs")
        try:
            with self._tasks.lock(
                who, node_uuid, worker=True, patient=False, reserved=False, whole=False
            ) as task:
                if _is_over(task, activity, before, seconds):
                    task.hand_over(_time_out, activity)
        except errors.Error as why:
            LOG.info("Node %s: its time-out will be checked again later: %s", node_uuid, why)
            return "share" not in why.facts
        return True


def _is_over(task: Task, activity: Activity, before: datetime.datetime, seconds: float) -> bool:
    """Return whether the node is still overdue under the lock."""
    node = task.node
    since, wake_at = node.provision_updated_at, node.wake_at
    # Maintenance set by an operator stops the clock, one that a fault has set does not.
    if task.state is not activity.waiting or (node.maintenance and node.fault is None):
        return False
    if since is None or (since > before and clock.lived(since) < seconds):
        return False
    return wake_at is None or wake_at <= before


def _time_out(task: Task, activity: Activity) -> None:
    phase = waiting_steps(task.state)
    waited = phase.current(task) if phase is not None else None
    # Only the title of the step, because its arguments may be secret.
    step = steps.title(waited) if waited else None
    hint = f"Failed on step {step}." if step else "No agent or BMC has reported."
    sentence = f"Timeout reached while {activity.overdue} {task.node.uuid}. {hint}"
    facts = {"action": activity.overdue, "node": task.node.uuid, "hint": hint, "step": step}
    error = errors.TimedOut(sentence, **facts, **_limit_facts(task, activity))
    silence = _agent_silence(task, activity)
    failure.give_up(task, error if silence is None else error.because(silence))


def _limit_facts(task: Task, activity: Activity) -> Json:
    """Return the option that limits the wait, its seconds, and since when the node has waited."""
    option = str(activity.timeout)
    return {
        "option": f"[conductor]{option}",
        "limit": task.runtime.conf.conductor[option],
        "since": task.node.provision_updated_at,
    }


def _agent_silence(task: Task, activity: Activity) -> errors.AgentUnreachable | None:
    """Return the silence of an agent as the cause of a time-out.

    None: the node waited for its machine or a timer; or the agent has sent heartbeats. A timer
    alone does not tell: the first look at the work of an agent is set as one, too.
    """
    agent, limits = task.notes.agent, _limit_facts(task, activity)
    node = task.node.as_dict()
    if waiting.waited_for(node, activity) != waiting.AGENT:
        return None
    looked_up = waiting.asked_for_token(node)
    if agent is None and looked_up:
        reason = "its ramdisk has looked the node up, and has sent no heartbeat since"
    elif agent is None:
        reason = "no ramdisk has sent a heartbeat since the machine was booted"
    elif agent.heard_at <= clock.ago(limits["limit"]):
        reason = f"its last heartbeat came at {agent.heard_at:%Y-%m-%d %H:%M:%S} UTC"
    else:
        return None
    heard: Json = {"looked_up": looked_up, "heard_at": None}
    if agent is not None:
        heard = {"address": agent.url, "heard_at": agent.heard_at}
    return errors.AgentUnreachable(node=task.node.uuid, reason=reason, **heard, **limits)
