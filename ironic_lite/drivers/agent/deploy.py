"""Base of deploy interfaces with an agent: ramdisk, agent steps, heartbeats."""

from __future__ import annotations

from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import erasure_records, erasure_results, fast_track
from ironic_lite.domain.states import State
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import about, logs, ramdisk, standby
from ironic_lite.drivers.agent.client import Client
from ironic_lite.drivers.agent.results import LISTED
from ironic_lite.drivers.agent.steps import InBand, concerns, heard
from ironic_lite.drivers.boot import modes


class AgentDeploy(InBand, base.Deploy):
    """The base of deploy interfaces that work through an agent."""

    minds_agent: ClassVar[bool] = True

    def get_properties(self) -> dict[str, str]:
        """Return ``{driver_info key: description}``."""
        return {**super().get_properties(), fast_track.KEY: standby.DESCRIPTION}

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values in driver_info.

        :raises errors.InvalidParameter: naming ``driver_info/fast_track``.
        """
        super().check_driver_info(driver_info)
        fast_track.check(driver_info)

    def validate(self, task: base.Task) -> None:
        """Check that the ramdisk can be booted to deploy.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        task.driver.boot.validate(task)

    def check_ramdisk(self, task: base.Task) -> None:
        """Check that the ramdisk can be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        task.driver.boot.check_ramdisk(task, "deploy")

    def prepare_cleaning(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk and wait for its first heartbeat; fast track uses a running one.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        return ramdisk.enter(task)

    def tear_down_cleaning(self, task: base.Task) -> None:
        """Take the ramdisk away, unless the run failed or fast track keeps the ramdisk.

        After a failure the machine stays on for inspection.

        :raises errors.HardwareError: the machine or its BMC refused.

        Source: S2.19.
        """
        logs.ended(task)
        ramdisk.part(task)

    def prepare_service(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk beside the instance, and wait for its first heartbeat.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        ramdisk.boot(task)
        return base.WAIT

    def prepare_restart(self, task: base.Task) -> None:
        """Let the ramdisk boot again, if the run uses one.

        :raises errors.Error: its boot files cannot be put in place.
        """
        ramdisk.again(task)

    def tear_down_service(self, task: base.Task) -> None:
        """Take the ramdisk away and boot the instance again; after a failure change nothing.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        logs.ended(task)
        ramdisk.leave(task, off=not task.failing)
        if not task.failing:
            ramdisk.boot_instance(task)

    def handles_heartbeat(self, task: base.Task) -> bool:
        """Return False for a BMC's step, which ends by itself, and for an inspection."""
        return task.node.provision_state == State.RESCUEWAIT or concerns(task)

    def heartbeat(self, task: base.Task) -> bool:
        """Poll an agent's step, or end a step that has waited for the agent.

        `poll_rescue` handles a waiting rescue.
        """
        if task.node.provision_state == State.RESCUEWAIT:
            task.wake_after(0)
            return False
        return heard(task)

    def after_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep, value: Json
    ) -> None:
        """Report the result of an erasing step.

        :raises errors.HardwareError: a disk was not erased although the step ended.
        """
        if erasure_records.erases(step):
            report = value.get(f"{kind}_result")
            task.report_erasure(report)
            erasure_results.refuse_failed(report)

    def agent_steps(self, task: base.Task, kind: base.StepKind) -> base.AgentReport | None:
        """Read the agent's steps, and the versions of its hardware managers.

        :raises errors.HardwareError: its answer is unusable.
        """
        if task.agent is None or kind not in LISTED:
            return None
        value = Client(task).call(f"{LISTED[kind]}.get_{kind}_steps", about.both(task))
        listed, version = value.get(f"{kind}_steps"), value.get("hardware_manager_version")
        if not isinstance(listed, dict) or not isinstance(version, dict):
            raise _unusable_agent(task, kind)
        return base.AgentReport({kind: listed}, version)


class CustomAgentDeploy(AgentDeploy):
    """Deploys only by the agent's own steps and those of deploy templates."""

    def prepare(self, task: base.Task) -> None:
        """Forget an agent that this deployment will not use."""
        ramdisk.begin(task)

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, or restart it if its power must stay on.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        ramdisk.switch_off(task)
        modes.secure(task, on=False)
        ramdisk.restart_kept_on(task)

    def clean_up(self, task: base.Task) -> None:
        """Collect the logs of a failed ramdisk, and remove its boot files.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        logs.ended(task)
        ramdisk.forget(task)
        task.driver.boot.clean_up_ramdisk(task)

    def heartbeat_ends_step(self, task: base.Task, kind: base.StepKind, step: Any) -> bool:
        """Return True for the step ``deploy``, which waits for the agent."""
        return bool(step["step"] == "deploy")

    @base.deploy_step(priority=100, rerunnable=True, destroys=(), restarts=1)
    def deploy(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk unless a usable one runs; the agent's steps follow."""
        return ramdisk.enter(task)

    @base.deploy_step(priority=40, rerunnable=True, destroys=(), restarts=0)
    def tear_down_agent(self, task: base.Task) -> None:
        """Take the ramdisk away."""
        logs.ended(task)
        ramdisk.leave(task)

    @base.deploy_step(priority=20, rerunnable=True, destroys=(), restarts=1)
    def boot_instance(self, task: base.Task) -> None:
        """Start the written instance; the machine is on from here."""
        ramdisk.boot_instance(task)


def _unusable_agent(task: base.Task, kind: base.StepKind) -> errors.AgentRefused:
    agent = task.agent
    return errors.AgentRefused(
        node=task.node.uuid,
        address=agent and agent.url,
        what=f"get_{kind}_steps",
        reason="there are no steps, or no versions of hardware managers, in it",
    )
