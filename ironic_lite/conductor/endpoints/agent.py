"""Endpoints for the ramdisk agent: token, heartbeats, inspection report."""

from __future__ import annotations

import functools
import hmac
import logging

from ironic_lite import errors
from ironic_lite.conductor.engine.notes import Notes
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, inspect
from ironic_lite.conductor.flows.activities import (
    end_in_maintenance,
    in_timed_wait,
    resume,
    resume_changed,
)
from ironic_lite.conductor.tasks import TaskRunner
from ironic_lite.core import clock, log_lines
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.core.slots import Slots
from ironic_lite.db.queries import nodes
from ironic_lite.domain import holds, node_locks, states, waiting
from ironic_lite.domain.states import State
from ironic_lite.rpc import contract

LOG = logging.getLogger(__name__)

MOST_WAIT = 16
"""Limit of agent calls that wait for locks at once: a quarter of the threads that answer calls."""


class AgentEndpoints:
    """Endpoints for the agent in a machine's ramdisk."""

    tasks: TaskRunner

    @functools.cached_property
    def lock_waiters(self) -> Slots:
        """The slots of calls that wait for node locks.

        Agents have no login and each waiting call holds a thread, so one call per node and
        ``MOST_WAIT`` in all may wait: a machine has one agent. A call without a slot tries the lock
        once; the agent is told to retry.
        """
        return Slots(MOST_WAIT, 1)

    def get_node_with_token(self, context: Context, *, node_uuid: str) -> Json:
        """Return the token, which the first lookup after a ramdisk's boot makes.

        The API calls this for a node that is locked, at rest or just changed. The reply shows
        whether the call was the first. The state is checked again under the lock, because the node
        may have moved on since the API read it: a machine without a ramdisk gets no token.

        The call waits for the lock, whose holder may just have switched the machine on. An agent
        that is refused retries after 5 s, then 10 s, then 30 s; it is refused if too many calls
        wait (see `lock_waiters`).

        :raises errors.NodeNotFound: no agent runs in this state.
        :raises errors.NodeLocked: another task works on the node.
        """
        with (
            self.lock_waiters.hold(node_uuid) as patient,
            self.tasks.lock(context, node_uuid, patient=patient) as task,
        ):
            found = _answer_lookup(task)
            if found["fresh"]:
                task.transaction.save(release=True)
            return found

    def continue_inspection(
        self,
        context: Context,
        *,
        node_uuid: str,
        inventory: Json,
        plugin_data: Json,
        with_token: bool = False,
    ) -> Json | None:
        """Accept an inspection report; a worker processes it after the reply.

        The report of an unknown machine belongs to the node that the API has made of it.

        :raises errors.NodeNotFound: the node does not wait for a report; the client learns no more.
        :raises errors.NodeLocked: another task works on the node, and too many calls wait already.
        """
        with (
            self.lock_waiters.hold(node_uuid) as patient,
            self.tasks.lock(
                context, node_uuid, worker=True, reserved=False, patient=patient
            ) as task,
        ):
            if task.state is State.ENROLL and task.node.run_uuid is not None:
                task.hand_over(inspect.discover, inventory, plugin_data)
                return None
            if task.state is not State.INSPECTWAIT or not task.driver.inspect.takes_reports:
                raise errors.NodeNotFound(node=node_uuid)
            token = _token_for_agent(task) if with_token else None
            task.journal.once()  # a late copy must not count for another inspection
            task.move("resume")
            task.hand_over(inspect.report, inventory, plugin_data)
            return token

    def heartbeat(
        self,
        context: Context,
        *,
        node_uuid: str,
        callback_url: str,
        agent_version: str | None,
        agent_token: str,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Record a heartbeat; in a wait state the deploy interface may continue the node.

        Where no heartbeat ends or changes a wait, this agent is pinned: until the node's next save,
        which any change of it is, the API records the agent's heartbeats by itself.

        The agent gets its reply before a worker calls the agent back.

        :raises errors.InvalidParameter: the token is wrong, or the agent's address has changed.
        :raises errors.NodeLocked, errors.Conflict: another task works on the node; the agent
            repeats its heartbeat.
        """
        node = self.tasks.runtime.database.read(lambda conn: nodes.load(conn, node_uuid))
        _check_token(
            Notes(node), agent_token
        )  # first: only the agent may learn what its driver lacks
        seen = self.tasks.view(context, node)
        _check_pinned_agent(seen, callback_url, agent_verify_ca)
        if seen.node.reservation is not None:  # at once: no slot is taken, nothing is written
            raise node_locks.refusal(seen.node.as_dict())
        first = seen.agent is None
        _record_heartbeat(seen, callback_url, agent_version, agent_verify_ca)
        if not _may_end_wait(seen):
            seen.node.agent_pin = waiting.agent_pin(
                callback_url, agent_token, agent_verify_ca, agent_version
            )
            seen.node.agent_pin_generation = node.generation + 1
            self.tasks.note(seen)
            return
        with self.tasks.lock(
            context, node_uuid, worker=True, reserved=False, patient=False
        ) as task:
            if task.node.generation != node.generation:
                raise errors.ConcurrentUpdate(node=node_uuid)
            _record_heartbeat(task, callback_url, agent_version, agent_verify_ca)
            task.hand_over(_first_heartbeat if first else _pass_heartbeat)


def _may_run(state: State) -> bool:
    return state in states.FAST_TRACK_LOOKUP or states.kind(state) is states.Kind.HELD


def _answer_lookup(task: Task) -> Json:
    """Return the agent's token; the caller saves the node if it is new.

    :raises errors.NodeNotFound: no agent runs in this state.
    """
    if task.runtime.conf.api.restrict_lookup and not _may_run(task.state):
        raise errors.NodeNotFound(node=task.node.uuid)
    return _token_for_agent(task)


def _token_for_agent(task: Task) -> Json:
    """Return the token and whether it is new; the caller saves the node.

    :raises errors.NodeNotFound: the machine of a node at rest is only looked at.
    """
    known = task.notes.token
    if known is not None:
        return {"agent_token": known, "fresh": False}
    at_rest = states.kind(task.state) in (states.Kind.STABLE, states.Kind.FAIL)
    if at_rest and task.held is not None and any(admission.of_holds(task, holds.ORDER, "lookup")):
        LOG.info("Node %s: its ramdisk gets no token, the node is only observed", task.node.uuid)
        raise errors.NodeNotFound(node=task.node.uuid)
    return {"agent_token": task.notes.new_token(), "fresh": True}


def _record_heartbeat(task: Task, url: str, version: str | None, verify_ca: str | None) -> None:
    at = clock.now()
    task.notes.heard(url=url, version=version, at=at.isoformat(), verify_ca=verify_ca)
    if task.state in states.POSTPONED:
        task.node.provision_updated_at = at


def _may_end_wait(task: Task) -> bool:
    """Return whether a heartbeat may end or change a wait.

    In maintenance the wait may have to end.
    """
    if states.kind(task.state) is not states.Kind.WAIT or in_timed_wait(task):
        return False
    return task.node.maintenance or task.driver.deploy.handles_heartbeat(task)


def _first_heartbeat(task: Task) -> None:
    """Record in the log of the run that the ramdisk has booted, and pass the heartbeat on."""
    agent = task.agent
    if agent is not None:
        log_lines.note_run_line(
            "agent", f"first heartbeat, version {agent.version}, at {agent.url}"
        )
    _pass_heartbeat(task)


def _pass_heartbeat(task: Task) -> None:
    """Let the deploy interface decide whether and how the node continues.

    A timer that the interface set to now is not waited for. In maintenance the work may have to
    end.
    """
    if end_in_maintenance(task):
        return
    try:
        if task.driver.deploy.heartbeat(task):
            resume(task, poll=False)
        elif task.node.wake_at is not None and task.node.wake_at <= clock.now():
            resume(task, poll=True)
        else:
            task.save_on_release = True
    except errors.AgentChanged as why:
        resume_changed(task, why)


def _check_token(notes: Notes, token: str) -> None:
    """Refuse an agent without the node's token."""
    known = notes.token
    if known is None or not hmac.compare_digest(known.encode(), token.encode()):
        raise errors.InvalidParameter(path="agent_token", reason=contract.WRONG_TOKEN)


def _check_pinned_agent(task: Task, url: str, verify_ca: str | None) -> None:
    """Refuse an agent whose address or certificate differs from its first heartbeat.

    Both stay the same until the machine boots again.
    """
    if task.runtime.conf.agent.require_tls and not url.startswith("https://"):
        reason = "must be https ([agent]require_tls)"
        raise errors.InvalidParameter(path="callback_url", reason=reason)
    agent = task.agent
    if agent is None:
        return
    if url != agent.url:
        reason = "is not the one this node's agent has given before"
        raise errors.InvalidParameter(path="callback_url", reason=reason)
    if verify_ca != agent.verify_ca:
        reason = "is not the certificate this node's agent has given before"
        raise errors.InvalidParameter(path="agent_verify_ca", reason=reason)
