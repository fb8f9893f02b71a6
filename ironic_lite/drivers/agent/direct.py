"""The deploy interface ``direct``: the agent writes an image to the disk, and the machine boots it.

deploy (100) boots the ramdisk, write_image (80) has the agent write, prepare_instance_boot (60)
makes the disk what the machine boots from, tear_down_agent (40) ends the ramdisk, and
switch_to_tenant_network (30) and boot_instance (20) start the instance. Steps of the agent and of
deploy templates go in between by their priorities.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import clock, errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import image_info, logs, ramdisk, serving, steps
from ironic_lite.drivers.agent.client import Client
from ironic_lite.drivers.agent.deploy import AgentDeploy
from ironic_lite.drivers.boot import modes

LOG = logging.getLogger(__name__)

Json = dict[str, Any]

_UNTIL = "agent_power_off_until"  # epoch seconds; then the machine is switched off hard
_SOFT_SECONDS = 30.0
_LOOK_SECONDS, _LOOK_SHARE, _LONGEST_LOOK = 0.1, 0.25, 2.0
"""The first pause between two looks at the power, of which part of the time taken later ones are,
and the longest."""
_OOB_REBOOT = "deploy_forces_oob_reboot"
_ROOT, _ESP, _PREP = "root uuid", "efi system partition uuid", "PReP Boot partition uuid"


class DirectDeploy(AgentDeploy):
    """Writes whole-disk and partition images."""

    _polled: ClassVar[Mapping[str, str]] = {
        "write_image": "_written",
        "prepare_instance_boot": "_bootable",
        "tear_down_agent": "_down",
    }
    """Own steps that wait, and the methods that tell whether they have ended."""

    def get_properties(self) -> dict[str, str]:
        """Return what driver_info may hold."""
        return {
            **super().get_properties(),
            **serving.DESCRIPTIONS,
            _OOB_REBOOT: "true: the BMC switches the machine off after an image has been written, "
            "and the ramdisk is not asked to.",
        }

    def validate(self, task: base.Task) -> None:
        """Check that ramdisk and image are named as they must be.

        :raises errors.InvalidParameter, errors.MissingParameter: naming what is wrong.
        """
        task.driver.boot.validate(task)
        serving.wanted(task)
        modes.wanted(task.node)

    def prepare(self, task: base.Task) -> None:
        """Fetch and judge an image that this service serves, before the machine is touched.

        :raises errors.Error: it cannot be had, or is not what it should be.
        """
        task.keep(steps.COMMAND, None)
        ramdisk.begin(task)
        serving.make_ready(task)

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, unless it must never be; nothing boots it into the instance.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        ramdisk.switch_off(task)
        task.driver.network.unconfigure_tenant_networks(task)
        task.driver.boot.clean_up_instance(task)
        serving.remove(task)

    def clean_up(self, task: base.Task) -> None:
        """Keep the logs of a ramdisk that could not be used, and take away what it booted from, and
        the image.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        logs.ended(task)
        ramdisk.forget(task)
        task.driver.boot.clean_up_ramdisk(task)
        serving.remove(task)

    def lacks_files(self, task: base.Task) -> bool:
        """Tell whether boot files or the image are not here."""
        return super().lacks_files(task) or serving.lacks_files(task)

    def take_over(self, task: base.Task) -> None:
        """Make anew what another conductor has served for this node.

        :raises errors.Error: a part of it cannot be had.
        """
        super().take_over(task)
        serving.take_over(task)

    # -- steps -------------------------------------------------------------------------------

    @base.deploy_step(priority=100, rerunnable=True)
    def deploy(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, unless one runs that can be used."""
        return ramdisk.enter(task)

    @base.deploy_step(priority=80, rerunnable=True)
    def write_image(self, task: base.Task) -> base.Outcome:
        """Have the agent write the image, and the configuration drive beside it."""
        return steps.begin(task, base.StepKind.DEPLOY, _order(task))

    @base.deploy_step(priority=60, rerunnable=True)
    def prepare_instance_boot(self, task: base.Task) -> base.Outcome:
        """Make the disk what the machine boots from; in UEFI mode the agent tells the firmware."""
        image = image_info.read(task.node.instance_info, md5=True)
        mode = modes.wanted(task.node)
        if image.kind == image_info.WHOLE_DISK and mode == "bios":
            task.driver.boot.prepare_instance(task)
            return base.DONE

        def params(client: Client) -> Json:
            found = client.call("standby.get_partition_uuids", {})
            return {
                "root_uuid": found.get(_ROOT),
                "efi_system_part_uuid": found.get(_ESP),
                "prep_boot_part_uuid": found.get(_PREP),
                "target_boot_mode": mode,
            }

        return steps.order(task, "image.install_bootloader", params)

    @base.deploy_step(priority=40, rerunnable=True)
    def tear_down_agent(self, task: base.Task) -> base.Outcome:
        """Have the ramdisk write all that it has in memory, and switch its machine off."""
        logs.ended(task)
        try:
            if self._asked_to_go(task):
                task.keep(_UNTIL, clock.stamp() + _SOFT_SECONDS)
                task.wake_after(_LOOK_SECONDS)
                return base.WAIT
        except errors.HardwareError as why:
            LOG.warning("Node %s: its ramdisk is ended without its help: %s", task.node.uuid, why)
        ramdisk.leave(task)
        return base.DONE

    @base.deploy_step(priority=30, rerunnable=True)
    def switch_to_tenant_network(self, task: base.Task) -> None:
        """Plug the machine into the networks of its instance."""
        task.driver.network.configure_tenant_networks(task)

    @base.deploy_step(priority=20, rerunnable=True)
    def boot_instance(self, task: base.Task) -> None:
        """Start the instance: the machine is on from here."""
        ramdisk.boot_instance(task)
        serving.remove(task)

    # -- following them ----------------------------------------------------------------------

    def agent_came(self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]) -> bool:
        """The step ``deploy`` waits for the agent; those that it works for are asked about."""
        if step["step"] in self._polled:
            task.wake_after(0)
        return bool(step["step"] == "deploy")

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome:
        """Ask whether a waiting step has ended.

        :raises errors.AgentCommandFailed: it failed, or was lost with its agent.
        """
        name = self._polled.get(step["step"]) if kind is base.StepKind.DEPLOY else None
        if name is None or not self.owns(kind, step):
            return super().poll_step(task, kind, step)
        found: base.Outcome = getattr(self, name)(task)
        return found

    def _written(self, task: base.Task) -> base.Outcome:
        kind = base.StepKind.DEPLOY
        found = steps.follow(task, kind, lambda: steps.begin(task, kind, _order(task)))
        return found if isinstance(found, base.Outcome) else steps.ended(task)

    def _bootable(self, task: base.Task) -> base.Outcome:
        found = steps.follow(task, base.StepKind.DEPLOY, lambda: self.prepare_instance_boot(task))
        if isinstance(found, base.Outcome):
            return found
        task.driver.boot.prepare_instance(task)
        return steps.ended(task)

    def _asked_to_go(self, task: base.Task) -> bool:
        """Ask the agent to switch its machine off; False if that is not what is wanted."""
        client = Client(task)
        if task.node.driver_info.get(_OOB_REBOOT) or ramdisk.stays_on(task):
            client.call("standby.sync", {})
            if not task.driver.power.in_band and task.node.disable_power_off:
                # It runs until the reboot, and is about to stand in the network of the instance.
                client.call("system.lockdown", {})
            return False
        client.start("standby.power_off", {})
        return True

    def _down(self, task: base.Task) -> base.Outcome:
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


def _order(task: base.Task) -> Json:
    """Return the step as the agent runs it, with all it has to know."""
    return {
        "step": "write_image",
        "interface": "deploy",
        "priority": 80,
        "args": serving.for_agent(task),
    }
