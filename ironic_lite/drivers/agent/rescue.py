"""The rescue interface ``agent``: a ramdisk that somebody may log in to boots beside the instance.

Its agent is told the password of its user once, and stops to listen from then on. The conductor
says so on the node before it tells it: one that dies in between leaves a rescue that is gone on
with, and not one that waits for an agent which will never speak again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import logs, ramdisk
from ironic_lite.drivers.agent.client import Client
from ironic_lite.states import State

LOG = logging.getLogger(__name__)

MODE = "rescue"
COMMAND = "rescue.finalize_rescue"
NOTE = "agent_rescue"
"""How far it is: ``{"boots": 1, "asked": false}``; ``asked`` says that the agent may have been told
the password. There until the machine boots its instance again."""
MOST_BOOTS = 2
"""An agent that is silent after it may have been told is given one more ramdisk."""
_SOON = 1.0  # seconds
_FAULTS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR})
"""What an agent answers that knows no hashes, and also one that cannot write a password down."""
_DONE_WITH = frozenset({State.RESCUING, State.RESCUEWAIT, State.RESCUEFAIL, State.UNRESCUING})
"""States in which there may be a ramdisk without a note of it: a conductor died booting it."""


class AgentRescue(base.Rescue):
    """Rescues by a ramdisk with an agent."""

    def validate(self, task: base.Task) -> None:
        """Check that the ramdisk for rescues could be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming what is wrong.
        """
        if task.driver.power.in_band:
            reason = "does not reach a machine that runs an instance: nobody could reboot it"
            raise errors.InvalidParameter(path="power_interface", reason=reason)
        task.driver.boot.check_ramdisk(task, MODE)

    def rescue(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk; its first heartbeat goes on.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        return _boot(task, 1)

    def poll_rescue(self, task: base.Task) -> base.Outcome:
        """Tell the agent the password, once it speaks; then the ramdisk is left to its user.

        :raises errors.HardwareError: it cannot be told, or could not do it.
        """
        note = task.recall(NOTE) or {"boots": 1, "asked": False}
        if task.agent is None:
            return base.WAIT
        if not note["asked"]:
            task.keep(NOTE, {**note, "asked": True})
            task.wake_after(0)
            return base.WAIT
        try:
            _tell(task)
        except errors.AgentBusy as why:
            LOG.info("Node %s: its agent is told the password later: %s", task.node.uuid, why)
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
        """Take the ramdisk away, if there may be one; the machine is off then, unless it must not.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        if task.recall(NOTE) is None and State(task.node.provision_state) not in _DONE_WITH:
            return
        ramdisk.leave(task, MODE)
        task.keep(NOTE, None)


def _boot(task: base.Task, boots: int) -> base.Outcome:
    task.keep(NOTE, {"boots": boots, "asked": False})
    ramdisk.switch_off(task)
    task.driver.network.unconfigure_tenant_networks(task)
    ramdisk.boot(task, MODE)
    return base.WAIT


def _once_more(
    task: base.Task, note: Mapping[str, Any], why: errors.AgentUnreachable
) -> base.Outcome:
    """Boot another ramdisk for one of which nobody knows whether it was told."""
    if note["boots"] >= MOST_BOOTS:
        raise why
    LOG.warning("Node %s: its ramdisk is booted once more: %s", task.node.uuid, why)
    return _boot(task, note["boots"] + 1)


def _tell(task: base.Task) -> None:
    """Give the agent the password as a hash; as it is only where the operator allows that.

    :raises errors.HardwareError: it has not got it.
    """
    info = task.node.instance_info
    hashed, plain = info.get("hashed_rescue_password"), info.get("rescue_password")
    if not hashed:
        raise errors.MissingParameter(path="instance_info/hashed_rescue_password")
    client = Client(task)
    try:
        client.call(COMMAND, {"rescue_password": hashed, "hashed": True})
    except errors.AgentRefused as why:
        if why.facts.get("status") not in _FAULTS:
            raise
        # The password is kept beside its hash only for ramdisks that know no hashes.
        if not plain:
            raise _not_taken(task, why) from why
        LOG.warning("Node %s: its ramdisk takes no hash of a password", task.node.uuid)
        client.call(COMMAND, {"rescue_password": plain})


def _not_taken(task: base.Task, why: errors.AgentRefused) -> errors.HardwareError:
    logs.failed(task)
    return errors.HardwareError(
        reason=f"the ramdisk did not take the password: {why.message}. It must be one that can "
        "rescue: with a folder /etc/ipa-rescue-config, and an agent that knows hashes"
    )
