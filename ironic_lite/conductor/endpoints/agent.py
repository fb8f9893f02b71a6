"""The ramdisk agent's calls: its token, its heartbeats, and what it has found."""

from __future__ import annotations

import contextlib
import functools
import hmac
import threading
from collections.abc import Iterator
from typing import Any

from ironic_lite import clock, errors, states
from ironic_lite.conductor.flows import inspect
from ironic_lite.conductor.flows.resume import asleep, halted, resume, resume_changed
from ironic_lite.conductor.notes import Notes
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.context import Context
from ironic_lite.db import nodes
from ironic_lite.rpc import interface
from ironic_lite.states import State

MOST_WAIT = 16
"""Calls of ramdisks that may wait for locks at once: a quarter of the threads that answer calls."""


class Room:
    """Bounds who waits for a node's lock and needed no login for it: each holds a thread."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def place(self, node_uuid: str) -> Iterator[bool]:
        """Tell for the block whether a call may wait: one for each node, and so many in all.

        A machine has one agent; whoever has no place tries once, and is told to come back.
        """
        with self._guard:
            free = node_uuid not in self._waiting and len(self._waiting) < MOST_WAIT
            if free:
                self._waiting.add(node_uuid)
        try:
            yield free
        finally:
            if free:
                with self._guard:
                    self._waiting.remove(node_uuid)


class Agent:
    """Endpoints for what runs in a machine's memory."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    @functools.cached_property
    def room(self) -> Room:
        """Who of those that need no login may wait for a lock."""
        return Room()

    def get_node_with_token(self, context: Context, *, node_uuid: str) -> dict[str, Any]:
        """Return the token, made on the first call of a ramdisk's boot; later calls are told so.

        The node may have gone on since the API looked at it: then nobody gets a token of a machine
        that runs no ramdisk.

        A lock is waited for: its holder may just be about to let go of the machine it has switched
        on, and an agent that is told to come later does so after 5 s, then 10 s, then 30 s. That is
        what it is told if too many wait (see `Room`).

        :raises errors.NodeNotFound: no agent runs in such a state.
        :raises errors.NodeLocked: somebody works on the node.
        """
        with (
            self.room.place(node_uuid) as patient,
            self.tasks.lock(context, node_uuid, patient=patient) as task,
        ):
            if task.desk.conf.api.restrict_lookup and not _may_run(task.state):
                raise errors.NodeNotFound(node=node_uuid)
            found = _token(task)
            task.save()
            return found

    def continue_inspection(
        self,
        context: Context,
        *,
        node_uuid: str,
        inventory: dict[str, Any],
        plugin_data: dict[str, Any],
        with_token: bool = False,
    ) -> dict[str, Any] | None:
        """Take in what a ramdisk has found; it has its answer before that is looked at.

        :raises errors.NodeNotFound: the node does not wait for this: nobody is to learn more.
        :raises errors.NodeLocked: somebody works on the node; waited for unless too many are.
        """
        with (
            self.room.place(node_uuid) as patient,
            self.tasks.lock(
                context, node_uuid, worker=True, reserved=False, patient=patient
            ) as task,
        ):
            if task.state is not State.INSPECTWAIT or not task.driver.inspect.takes_reports:
                raise errors.NodeNotFound(node=node_uuid)
            token = _token(task) if with_token else None
            task.journal.once()  # a late copy is no report of another inspection
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
        """Note that an agent is alive; in a wait state its deploy interface may go on.

        The agent has its answer before anybody calls it back: a worker does that.

        :raises errors.InvalidParameter: it has not this node's token, or is suddenly elsewhere.
        :raises errors.NodeLocked, errors.Conflict: somebody works on the node; the agent repeats
            its heartbeat.
        """
        node = self.tasks.desk.database.read(lambda conn: nodes.load(conn, node_uuid))
        _believe(Notes(node), agent_token)  # before a stranger hears what its driver lacks here
        seen = self.tasks.view(context, node)
        _check(seen, callback_url, agent_verify_ca)
        if seen.node.reservation is not None:  # told at once: no place is taken, nothing written
            raise errors.NodeLocked(node=node_uuid, host=seen.node.reservation)
        seen.notes.heard(
            url=callback_url,
            version=agent_version,
            at=clock.now().isoformat(),
            verify_ca=agent_verify_ca,
        )
        waits = states.kind(seen.state) is states.Kind.WAIT
        # An inspection waits for a report: an agent whose report was refused sends no other, but
        # heartbeats for as long as its machine is on.
        if waits and seen.state is not State.INSPECTWAIT:
            seen.node.provision_updated_at = clock.now()
        if waits and not asleep(seen) and _matters(seen):
            self.tasks.go_on(seen, _beat)
        else:
            self.tasks.note(seen)


def _may_run(state: State) -> bool:
    return state in states.FAST_TRACK_LOOKUP or states.kind(state) is states.Kind.HELD


def _token(task: Task) -> dict[str, Any]:
    """Return the token and whether this is the first time, for the caller to save."""
    known = task.notes.token
    if known is not None:
        return {"agent_token": known, "fresh": False}
    return {"agent_token": task.notes.new_token(), "fresh": True}


def _matters(task: Task) -> bool:
    """Tell whether a heartbeat may end, or change, what a node waits for; in maintenance it may be
    that nothing goes on.
    """
    return task.node.maintenance or task.driver.deploy.minds_heartbeat(task)


def _beat(task: Task) -> None:
    """Let the deploy interface say whether the node goes on, and how; a timer that it has set to
    now is not waited for. In maintenance, it may have to end instead.
    """
    if halted(task):
        return
    try:
        if task.driver.deploy.heartbeat(task):
            resume(task, poll=False)
        elif task.node.wake_at is not None and task.node.wake_at <= clock.now():
            resume(task, poll=True)
        else:
            task.resting = True
    except errors.AgentChanged as why:
        resume_changed(task, why)


def _believe(notes: Notes, token: str) -> None:
    """Believe only the agent that has the token."""
    known = notes.token
    if known is None or not hmac.compare_digest(known.encode(), token.encode()):
        raise errors.InvalidParameter(path="agent_token", reason=interface.WRONG_TOKEN)


def _check(task: Task, url: str, verify_ca: str | None) -> None:
    """Believe an agent only for as long as it stays where it was: its address and its certificate
    are those of its first heartbeat until its machine boots anew.
    """
    if task.desk.conf.agent.require_tls and not url.startswith("https://"):
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
