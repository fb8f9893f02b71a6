"""What all deploy interfaces with an agent share: the ramdisk around cleaning and servicing, the
agent's steps, and its heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import errors, fast_track
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import about, logs, ramdisk, standby
from ironic_lite.drivers.agent.client import Client
from ironic_lite.drivers.agent.results import LISTED
from ironic_lite.drivers.agent.steps import InBand, concerns, heard
from ironic_lite.states import State


class AgentDeploy(InBand, base.Deploy):
    """The base of deploy interfaces whose work is done by an agent."""

    minds_agent: ClassVar[bool] = True

    def get_properties(self) -> dict[str, str]:
        """Return what driver_info may hold."""
        return {**super().get_properties(), fast_track.KEY: standby.DESCRIPTION}

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse nonsense in driver_info.

        :raises errors.InvalidParameter: naming ``driver_info/fast_track``.
        """
        super().check_driver_info(driver_info)
        fast_track.check(driver_info)

    def validate(self, task: base.Task) -> None:
        """Check that the ramdisk could be booted to deploy.

        :raises errors.InvalidParameter, errors.MissingParameter: naming what is wrong.
        """
        task.driver.boot.validate(task)

    def check_ramdisk(self, task: base.Task) -> None:
        """Check that the ramdisk could be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming what is wrong.
        """
        task.driver.boot.check_ramdisk(task, "deploy")

    def prepare_cleaning(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, whose first heartbeat goes on; on the fast track the one that runs is
        used.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        return ramdisk.enter(task)

    def tear_down_cleaning(self, task: base.Task) -> None:
        """Take the ramdisk away; after a failure the machine stays on, to be looked at (S2.19), and
        on the fast track the ramdisk goes on.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        logs.ended(task)
        ramdisk.part(task)

    def prepare_service(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk beside the instance; its first heartbeat goes on.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        ramdisk.boot(task)
        return base.WAIT

    def prepare_restart(self, task: base.Task) -> None:
        """Have the ramdisk boot again, if the run works with one.

        :raises errors.Error: what it boots from cannot be put in place.
        """
        ramdisk.again(task)

    def tear_down_service(self, task: base.Task) -> None:
        """Take the ramdisk away and boot the instance again; after a failure the machine stays as
        it is, to be looked at.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        logs.ended(task)
        ramdisk.leave(task, off=not task.failing)
        if not task.failing:
            ramdisk.boot_instance(task)

    def minds_heartbeat(self, task: base.Task) -> bool:
        """A step of a BMC's waits for its own end, and an inspection for a report."""
        return task.node.provision_state == State.RESCUEWAIT or concerns(task)

    def heartbeat(self, task: base.Task) -> bool:
        """Let a step of the agent's be asked about, or end what has waited for the agent to come.

        A rescue that waits is asked by `poll_rescue`.
        """
        if task.node.provision_state == State.RESCUEWAIT:
            task.wake_after(0)
            return False
        return heard(task)

    def agent_steps(self, task: base.Task, kind: base.StepKind) -> base.AgentReport | None:
        """Ask the agent for its steps, and its hardware managers for their versions.

        :raises errors.HardwareError: it does not answer as it should.
        """
        if task.agent is None or kind not in LISTED:
            return None
        value = Client(task).call(f"{LISTED[kind]}.get_{kind}_steps", about.both(task))
        listed, version = value.get(f"{kind}_steps"), value.get("hardware_manager_version")
        if not isinstance(listed, dict) or not isinstance(version, dict):
            raise _unusable(task, kind)
        return base.AgentReport({kind: listed}, version)


class CustomAgentDeploy(AgentDeploy):
    """Deploys by the steps of the agent alone, and by those of deploy templates."""

    def prepare(self, task: base.Task) -> None:
        """Forget an agent that this deployment will not use."""
        ramdisk.begin(task)

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, unless it must never be.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        ramdisk.switch_off(task)

    def clean_up(self, task: base.Task) -> None:
        """Keep the logs of a ramdisk that could not be used, and take away what it booted from.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        logs.ended(task)
        ramdisk.forget(task)
        task.driver.boot.clean_up_ramdisk(task)

    def agent_came(self, task: base.Task, kind: base.StepKind, step: Any) -> bool:
        """The step ``deploy`` waits for the agent."""
        return bool(step["step"] == "deploy")

    @base.deploy_step(priority=100, rerunnable=True)
    def deploy(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, unless one runs that can be used; the agent's steps follow."""
        return ramdisk.enter(task)

    @base.deploy_step(priority=40, rerunnable=True)
    def tear_down_agent(self, task: base.Task) -> None:
        """Take the ramdisk away."""
        logs.ended(task)
        ramdisk.leave(task)

    @base.deploy_step(priority=20, rerunnable=True)
    def boot_instance(self, task: base.Task) -> None:
        """Start what the agent has written: the machine is on from here."""
        ramdisk.boot_instance(task)


def _unusable(task: base.Task, kind: base.StepKind) -> errors.AgentRefused:
    agent = task.agent
    return errors.AgentRefused(
        node=task.node.uuid,
        address=agent and agent.url,
        what=f"get_{kind}_steps",
        reason="there are no steps, or no versions of hardware managers, in it",
    )
