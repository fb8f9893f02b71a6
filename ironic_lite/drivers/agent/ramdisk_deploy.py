"""The deploy interface ``ramdisk``: the instance is a ramdisk or an ISO, and no disk is written.

``instance_info`` names it: ``boot_iso``, or ``kernel`` and ``ramdisk``. The machine boots it each
time it starts, for as long as the node is active. Cleaning and servicing have a ramdisk with an
agent, as with all others.
"""

from __future__ import annotations

from typing import ClassVar

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import ramdisk, serving
from ironic_lite.drivers.agent.deploy import AgentDeploy
from ironic_lite.images import configdrive

MODE = "instance"


class RamdiskDeploy(AgentDeploy):
    """Boots instances that live in memory."""

    boots_ramdisk: ClassVar[bool] = True

    def validate(self, task: base.Task) -> None:
        """Check that the instance is named, and could be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming what is wrong.
        """
        task.driver.boot.check_ramdisk(task, MODE)
        serving.check_drive(task.node.instance_info)
        wanted = bool(task.node.instance_info.get("configdrive"))
        if wanted and not task.driver.boot.brings_configdrive:
            reason = (
                "is not brought to an instance that is a ramdisk by this boot interface: leave it "
                "out, and say what it must know in instance_info/ramdisk_kernel_arguments; or set "
                "boot_interface to redfish-virtual-media"
            )
            raise errors.InvalidParameter(path=configdrive.PATH, reason=reason)

    def prepare(self, task: base.Task) -> None:
        """Check once more, with what the request for this instance has brought, and what takes
        longer: what it boots from is fetched, and the BMC is asked.

        :raises errors.Error: the instance could not be booted; the machine is as it was.
        """
        self.validate(task)
        task.driver.boot.check_instance(task)

    def adopt(self, task: base.Task) -> None:
        """Let the next boot of a machine that runs such an instance start it again.

        :raises errors.Error: a part of it cannot be had, or the BMC refused.
        """
        task.driver.boot.prepare_instance(task)

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, unless it must never be: its instance is gone with that.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        ramdisk.switch_off(task)
        task.driver.network.unconfigure_tenant_networks(task)
        task.driver.boot.clean_up_instance(task)

    def clean_up(self, task: base.Task) -> None:
        """Take away what the instance boots from.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        task.driver.boot.clean_up_instance(task)

    @base.deploy_step(priority=100, rerunnable=True)
    def deploy(self, task: base.Task) -> None:
        """Start the instance: the machine is on from here."""
        ramdisk.switch_off(task)
        task.driver.network.configure_tenant_networks(task)
        ramdisk.boot_instance(task)
