"""The rescue interface ``agent``: a ramdisk with a login boots beside the instance.

The agent receives its user's password once, and stops listening then. The conductor notes the
request on the node before sending it. If the conductor dies in between, the rescue continues,
instead of waiting for an agent that never answers again.
"""

from __future__ import annotations

import logging
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain.states import State
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import logs, ramdisk
from ironic_lite.drivers.agent.client import AgentClient

LOG = logging.getLogger(__name__)

MODE = "rescue"
COMMAND = "rescue.finalize_rescue"
NOTE = "agent_rescue"
"""Key of the progress: ``{"boots": 1, "asked": false}``; ``asked``: the agent may have the
password. Kept until the machine boots its instance again."""
MOST_BOOTS = 2
"""Ramdisk boots in all; an agent that is silent after ``asked`` is replaced once."""
_SOON = 1.0  # seconds
_FAULTS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR})
"""Statuses of an agent that does not support hashes, or cannot set a password."""
_DONE_WITH = frozenset({State.RESCUING, State.RESCUEWAIT, State.RESCUEFAIL, State.UNRESCUING})
"""States in which a ramdisk may run without a note, after a conductor died booting it."""


class AgentRescue(base.Rescue):
    """Rescues by a ramdisk with an agent."""

    def validate(self, task: base.Task) -> None:
        """Check that the rescue ramdisk can be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        if task.driver.power.in_band:
            reason = "cannot rescue: it cannot reboot a machine that runs an instance"
            raise errors.InvalidParameter(path="power_interface", reason=reason)
        task.driver.boot.check_ramdisk(task, MODE)

    def rescue(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, and wait for its first heartbeat.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        return _boot_rescue(task, 1)

    def poll_rescue(self, task: base.Task) -> base.Outcome:
        """Send the agent the password, once it answers; the ramdisk is then ready for its user.

        :raises errors.HardwareError: the agent is unreachable, or failed to set the password.
        """
        note = task.recall(NOTE) or {"boots": 1, "asked": False}
        if task.agent is None:
            return base.WAIT
        if not note["asked"]:
            task.keep(NOTE, {**note, "asked": True})
            task.wake_after(0)
            return base.WAIT
        try:
            _send_password(task)
        except errors.AgentBusy as why:
            LOG.info("Node %s: sending its agent the password later: %s", task.node.uuid, why)
            task.wake_after(_SOON)
            return base.WAIT
        except errors.AgentUnreachable as why:
            return _once_more(task, note, why)
        task.driver.boot.clean_up_ramdisk(task, MODE)
        task.driver.network.configure_tenant_networks(task)
        task.forget_agent()
        return base.DONE

    def unrescue(self, task: base.Task) -> None:
        """Boot the instance again.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        self.clean_up(task)
        task.driver.network.configure_tenant_networks(task)
        ramdisk.boot_instance(task)

    def clean_up(self, task: base.Task) -> None:
        """Take the ramdisk away, if there may be one, and switch the machine off if possible.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        if task.recall(NOTE) is None and State(task.node.provision_state) not in _DONE_WITH:
            return
        ramdisk.leave(task, MODE)
        task.keep(NOTE, None)


def _boot_rescue(task: base.Task, boots: int) -> base.Outcome:
    task.keep(NOTE, {"boots": boots, "asked": False})
    ramdisk.switch_off(task)
    task.driver.network.unconfigure_tenant_networks(task)
    ramdisk.boot(task, MODE)
    return base.WAIT


def _once_more(task: base.Task, note: JsonView, why: errors.AgentUnreachable) -> base.Outcome:
    """Boot another ramdisk, because it is unknown whether the agent has the password."""
    if note["boots"] >= MOST_BOOTS:
        raise why
    LOG.warning("Node %s: booting its ramdisk once more: %s", task.node.uuid, why)
    return _boot_rescue(task, note["boots"] + 1)


def _send_password(task: base.Task) -> None:
    """Send the agent the password as a hash; in plain text only if the operator allows it.

    :raises errors.HardwareError: the agent did not receive it.
    """
    info = task.node.instance_info
    hashed, plain = info.get("hashed_rescue_password"), info.get("rescue_password")
    if not hashed:
        raise errors.MissingParameter(path="instance_info/hashed_rescue_password")
    client = AgentClient(task)
    try:
        client.call(COMMAND, {"rescue_password": hashed, "hashed": True})
    except errors.AgentRefused as why:
        if why.facts.get("status") not in _FAULTS:
            raise
        # The plain password is stored beside its hash only for ramdisks without hash support.
        if not plain:
            raise _not_taken(task, why) from why
        LOG.warning("Node %s: its ramdisk does not accept a password hash", task.node.uuid)
        client.call(COMMAND, {"rescue_password": plain})


def _not_taken(task: base.Task, why: errors.AgentRefused) -> errors.HardwareError:
    logs.failed(task)
    return errors.HardwareError(
        reason=f"the ramdisk did not accept the password: {why.message}. It must support "
        "rescue: with a folder /etc/ipa-rescue-config, and an agent that supports hashes"
    )
