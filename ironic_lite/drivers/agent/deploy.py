"""Deploy interfaces with an agent: their base, ``custom-agent``, ``direct`` and ``ramdisk``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json
from ironic_lite.domain import erasure_records, erasure_results, fields
from ironic_lite.domain.states import State
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.agent import client, images, logs, ramdisk, steps
from ironic_lite.drivers.agent.client import STEP_EXTENSIONS, AgentClient
from ironic_lite.drivers.agent.steps import InBand, concerns, heard
from ironic_lite.drivers.boot import modes
from ironic_lite.images import configdrive

LOG = logging.getLogger(__name__)


class AgentDeploy(InBand, base.Deploy):
    """The base of deploy interfaces that work through an agent."""

    minds_agent: ClassVar[bool] = True

    def property_groups(self) -> settings.GroupedFields:
        """Return the key about a ramdisk that still runs."""
        return {**super().property_groups(), **ramdisk.GROUPS}

    def validate(self, task: base.Task) -> None:
        """Check that the ramdisk can be booted to deploy.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        task.driver.boot.check_ramdisk(task, "deploy")

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
        if task.agent is None or kind not in STEP_EXTENSIONS:
            return None
        value = AgentClient(task).call(
            f"{STEP_EXTENSIONS[kind]}.get_{kind}_steps", client.node_and_ports(task)
        )
        listed, version = value.get(f"{kind}_steps"), value.get("hardware_manager_version")
        if not isinstance(listed, dict) or not isinstance(version, dict):
            raise _unusable_agent(task, kind)
        return base.AgentReport({kind: listed}, version)


class AutodetectDeploy(AgentDeploy):
    """Chooses ``ramdisk`` or another interface by the instance, and has no steps of its own.

    It receives heartbeats, such as those of an inspection, so that fast track finds agents.
    """

    def chosen(self, task: base.Task) -> str | None:
        """Return ``ramdisk`` if the instance is a ramdisk, else the last name of the option."""
        names = config.CONF.autodetect_deploy_interfaces
        return fields.chosen_deploy(task.node.instance_info, names)


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


# The deploy interface ``direct``: the agent writes an image to the disk, which boots then.
#
# deploy (100) boots the ramdisk, write_image (80) lets the agent write, prepare_instance_boot (60)
# makes the machine boot from its disk, tear_down_agent (40) ends the ramdisk, and
# switch_to_tenant_network (30) and boot_instance (20) start the instance. Steps of the agent and of
# deploy templates are sorted in by their priorities.


_UNTIL = "agent_power_off_until"  # epoch seconds; then the power is forced off
_SOFT_SECONDS = 30.0
_LOOK_SECONDS, _LOOK_SHARE, _LONGEST_LOOK = 0.1, 0.25, 2.0
"""The first pause between two polls of the power, later pauses as a share of the elapsed time, and
the longest pause."""
_OOB_REBOOT = "deploy_forces_oob_reboot"
_DIRECT_FIELDS: settings.DriverFields = {
    **images.DOWNLOAD_FIELDS,
    _OOB_REBOOT: settings.DriverField(
        settings.flag,
        "true: the BMC switches the machine off after an image was written, without a request to "
        "the ramdisk.",
    ),
}
"""The keys of driver_info."""
_ROOT, _ESP, _PREP = "root uuid", "efi system partition uuid", "PReP Boot partition uuid"


class DirectDeploy(AgentDeploy):
    """Writes whole-disk and partition images."""

    _polled: ClassVar[Mapping[str, str]] = {
        "write_image": "_image_written",
        "prepare_instance_boot": "_made_bootable",
        "tear_down_agent": "_agent_down",
    }
    """Own steps that wait, and the methods that check whether they have ended."""

    def property_groups(self) -> settings.GroupedFields:
        """Return the keys about a running ramdisk and about images."""
        return {**super().property_groups(), settings.IMAGE: _DIRECT_FIELDS}

    def validate(self, task: base.Task) -> None:
        """Check the settings of ramdisk and image.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        task.driver.boot.check_ramdisk(task, "deploy")
        images.check_instance(task)
        settings.values(_DIRECT_FIELDS, task.node.driver_info)
        modes.wanted(task.node)

    def prepare(self, task: base.Task) -> None:
        """Fetch and verify an image that this service serves, before the machine is touched.

        :raises errors.Error: the image is not available, or invalid.
        """
        task.keep(steps.COMMAND, None)
        ramdisk.begin(task)
        images.make_ready(task)

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, or restart it if its power must stay on.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        ramdisk.switch_off(task)
        task.driver.network.unconfigure_tenant_networks(task)
        task.driver.boot.clean_up_instance(task)
        images.remove(task)
        images.forget_layer(task)
        modes.secure(task, on=False)
        ramdisk.restart_kept_on(task)

    def clean_up(self, task: base.Task) -> None:
        """Collect the logs of a failed ramdisk, and remove its boot files and the image.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        logs.ended(task)
        ramdisk.forget(task)
        task.driver.boot.clean_up_ramdisk(task)
        images.remove(task)

    def lacks_files(self, task: base.Task) -> bool:
        """Return whether boot files or the image are missing on this conductor."""
        return super().lacks_files(task) or images.lacks_files(task)

    def take_over(self, task: base.Task) -> None:
        """Create the files again that another conductor served for this node.

        :raises errors.Error: a file is not available.
        """
        super().take_over(task)
        images.take_over(task)

    # -- steps -------------------------------------------------------------------------------

    @base.deploy_step(priority=100, rerunnable=True, destroys=(), restarts=1)
    def deploy(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, unless a usable one runs."""
        return ramdisk.enter(task)

    @base.deploy_step(priority=80, rerunnable=True, destroys=("data",), restarts=0)
    def write_image(self, task: base.Task) -> base.Outcome:
        """Let the agent write the image and the configuration drive."""
        return steps.begin(task, base.StepKind.DEPLOY, _stored_step(task))

    @base.deploy_step(priority=60, rerunnable=True, destroys=(), restarts=0)
    def prepare_instance_boot(self, task: base.Task) -> base.Outcome:
        """Make the machine boot from its disk; in UEFI mode the agent configures the firmware."""
        image = images.read_image(task.node.instance_info, md5=True)
        mode = modes.wanted(task.node)
        if image.kind == images.WHOLE_DISK and mode == "bios":
            task.driver.boot.prepare_instance(task)
            return base.DONE

        def params(client: AgentClient) -> Json:
            found = client.call("standby.get_partition_uuids", {})
            return {
                "root_uuid": found.get(_ROOT),
                "efi_system_part_uuid": found.get(_ESP),
                "prep_boot_part_uuid": found.get(_PREP),
                "target_boot_mode": mode,
            }

        return steps.order(task, "image.install_bootloader", params)

    @base.deploy_step(priority=40, rerunnable=True, destroys=(), restarts=0)
    def tear_down_agent(self, task: base.Task) -> base.Outcome:
        """Let the ramdisk flush its buffers and power off its machine."""
        logs.ended(task)
        try:
            if self._asked_to_go(task):
                task.keep(_UNTIL, clock.stamp() + _SOFT_SECONDS)
                task.wake_after(_LOOK_SECONDS)
                return base.WAIT
        except errors.HardwareError as why:
            LOG.warning("Node %s: ending its ramdisk without its help: %s", task.node.uuid, why)
        ramdisk.leave(task)
        return base.DONE

    @base.deploy_step(priority=30, rerunnable=True, destroys=(), restarts=0)
    def switch_to_tenant_network(self, task: base.Task) -> None:
        """Connect the machine to the networks of its instance."""
        task.driver.network.configure_tenant_networks(task)

    @base.deploy_step(priority=20, rerunnable=True, destroys=(), restarts=1)
    def boot_instance(self, task: base.Task) -> None:
        """Start the instance; the machine is on from here."""
        ramdisk.boot_instance(task)
        images.remove(task)

    def effects(self, task: base.Task, kind: base.StepKind, step: base.StoredStep) -> base.Effects:
        """Return the effects of a step; whether the written image lasts depends on its kind."""
        found = super().effects(task, kind, step)
        if kind is not base.StepKind.DEPLOY or step["step"] != "write_image":
            return found
        try:
            image = images.read_image(task.node.instance_info, md5=True)
        except errors.InvalidRequest:  # without a valid image nothing is written
            return found
        return steps.image_effects(found, whole_disk=image.kind == images.WHOLE_DISK)

    # -- polling -----------------------------------------------------------------------------

    def heartbeat_ends_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> bool:
        """End the step ``deploy``, which waits for the agent; poll the agent for other steps."""
        if step["step"] in self._polled:
            task.wake_after(0)
        return bool(step["step"] == "deploy")

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Check whether a waiting step has ended.

        :raises errors.AgentCommandFailed: it failed, or was lost with its agent.
        """
        name = self._polled.get(step["step"]) if kind is base.StepKind.DEPLOY else None
        if name is None or not self.owns(kind, step):
            return super().poll_step(task, kind, step)
        found: base.Outcome = getattr(self, name)(task)
        return found

    def _image_written(self, task: base.Task) -> base.Outcome:
        kind = base.StepKind.DEPLOY

        def begin() -> base.Outcome:
            return steps.begin(task, kind, _stored_step(task))

        try:
            found = steps.follow(task, kind, begin)
        except errors.AgentCommandFailed as why:
            if not images.renew_token(task, why):
                raise
            LOG.info(
                "Node %s: the registry refused the agent's token; it gets a new one", task.node.uuid
            )
            return begin()
        return found if isinstance(found, base.Outcome) else steps.ended(task)

    def _made_bootable(self, task: base.Task) -> base.Outcome:
        found = steps.follow(task, base.StepKind.DEPLOY, lambda: self.prepare_instance_boot(task))
        if isinstance(found, base.Outcome):
            return found
        task.driver.boot.prepare_instance(task)
        return steps.ended(task)

    def _asked_to_go(self, task: base.Task) -> bool:
        """Ask the agent to power off its machine; return False if the BMC must do it."""
        client = AgentClient(task)
        told = settings.values(_DIRECT_FIELDS, task.node.driver_info)
        if told.get(_OOB_REBOOT) or ramdisk.stays_on(task):
            client.call("standby.sync", {})
            if not task.driver.power.in_band and task.node.disable_power_off:
                # The agent runs until the reboot, but the machine moves to the instance's network
                # now.
                client.call("system.lockdown", {})
            return False
        client.start("standby.power_off", {})
        return True

    def _agent_down(self, task: base.Task) -> base.Outcome:
        try:
            off = task.driver.power.get_power_state(task) == base.POWER_OFF
        except errors.HardwareError as why:
            LOG.info("Node %s: %s", task.node.uuid, why)
            off = False
        began = (task.recall(_UNTIL) or _SOFT_SECONDS) - _SOFT_SECONDS
        left = _SOFT_SECONDS - clock.lived_since(began)
        if not off and left > 0:
            pause = min(_LONGEST_LOOK, (_SOFT_SECONDS - left) * _LOOK_SHARE)
            task.wake_after(max(_LOOK_SECONDS, pause))
            return base.WAIT
        task.keep(_UNTIL, None)
        ramdisk.leave(task)
        return base.DONE


def _stored_step(task: base.Task) -> base.StoredStep:
    """Return the step as the agent runs it, with all its arguments."""
    return {
        "step": "write_image",
        "interface": "deploy",
        "priority": 80,
        "args": images.step_arguments(task),
    }


# The deploy interface ``ramdisk``: the instance is a ramdisk or an ISO, without a disk.
#
# ``instance_info`` names it: ``boot_iso``, or ``kernel`` and ``ramdisk``. The machine boots it at
# each start while the node is active. Cleaning and servicing use a ramdisk with an agent as
# elsewhere.

MODE = "instance"


class RamdiskDeploy(AgentDeploy):
    """Boots instances that live in memory."""

    boots_ramdisk: ClassVar[bool] = True

    def validate(self, task: base.Task) -> None:
        """Check that the instance is named, and can be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        task.driver.boot.check_ramdisk(task, MODE)
        images.check_drive(task.node.instance_info)
        wanted = bool(task.node.instance_info.get("configdrive"))
        if wanted and not task.driver.boot.brings_configdrive:
            reason = (
                "is not supported for a ramdisk instance by this boot interface: leave it "
                "out, and give parameters in instance_info/ramdisk_kernel_arguments; or set "
                "boot_interface to redfish-virtual-media"
            )
            raise errors.InvalidParameter(path=configdrive.PATH, reason=reason)

    def prepare(self, task: base.Task) -> None:
        """Check again with the instance of this request: fetch its boot files and ask the BMC.

        :raises errors.Error: the instance cannot be booted; the machine is unchanged.
        """
        self.validate(task)
        task.driver.boot.check_instance(task)

    def adopt(self, task: base.Task) -> None:
        """Let the next boot of a machine with such an instance start the instance again.

        :raises errors.Error: a part is not available, or the BMC refused.
        """
        task.driver.boot.prepare_instance(task)

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, or restart it if its power must stay on.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        ramdisk.switch_off(task)
        task.driver.network.unconfigure_tenant_networks(task)
        task.driver.boot.clean_up_instance(task)
        modes.secure(task, on=False)
        ramdisk.restart_kept_on(task)

    def clean_up(self, task: base.Task) -> None:
        """Remove the boot files of the instance.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        task.driver.boot.clean_up_instance(task)

    @base.deploy_step(priority=100, rerunnable=True, destroys=(), restarts=1)
    def deploy(self, task: base.Task) -> None:
        """Start the instance; the machine is on from here."""
        ramdisk.switch_off(task)
        task.driver.network.configure_tenant_networks(task)
        ramdisk.boot_instance(task)
