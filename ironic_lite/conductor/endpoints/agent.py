"""The ramdisk agent's two calls: its token and its heartbeats."""

from __future__ import annotations

import hmac
import secrets
from typing import Any

from ironic_lite import clock, errors, states
from ironic_lite.conductor.flows.resume import asleep, resume, resume_changed
from ironic_lite.conductor.task import Task
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.context import Context

_TOKEN_BYTES = 32  # 43 characters of URL-safe text; the agent ignores anything below 32


class Agent:
    """Endpoints for what runs in a machine's memory."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    def get_node_with_token(self, context: Context, *, node_uuid: str) -> dict[str, Any]:
        """Return the token, made on the first call of a ramdisk's boot; later calls are told so."""
        with self.tasks.lock(context, node_uuid, patient=False) as task:
            known = task.notes.token
            if known is not None:
                return {"agent_token": known, "fresh": False}
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            task.notes.token = token
            task.save()
            return {"agent_token": token, "fresh": True}

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
        """Note that an agent is alive; in a wait state its deploy interface may go on."""
        with self.tasks.lock(
            context, node_uuid, worker=True, patient=False, reserved=False
        ) as task:
            _check_token(task, agent_token)
            if task.desk.conf.agent.require_tls and not callback_url.startswith("https://"):
                reason = "must be https ([agent]require_tls)"
                raise errors.InvalidParameter(path="callback_url", reason=reason)
            task.notes.heard(
                url=callback_url,
                version=agent_version,
                at=clock.now().isoformat(),
                verify_ca=agent_verify_ca,
            )
            waits = states.kind(task.state) is states.Kind.WAIT
            if waits:
                task.node.provision_updated_at = clock.now()
            task.save()
            if waits and not asleep(task) and _may_go_on(task):
                _beat(task)


def _beat(task: Task) -> None:
    """Let the deploy interface say whether the node goes on, and how."""
    try:
        if task.driver.deploy.heartbeat(task):
            task.hand_over(resume, poll=False)
    except errors.AgentChanged as why:
        task.hand_over(resume_changed, why)


def _may_go_on(task: Task) -> bool:
    """A clean that a failed one has put into maintenance must be able to end (C31)."""
    allowed: bool = task.desk.conf.conductor.allow_provisioning_in_maintenance
    return allowed or not task.node.maintenance


def _check_token(task: Task, given: str) -> None:
    known = task.notes.token
    if known is None or not hmac.compare_digest(known.encode(), given.encode()):
        raise errors.InvalidParameter(path="agent_token", reason="is not this node's token")
