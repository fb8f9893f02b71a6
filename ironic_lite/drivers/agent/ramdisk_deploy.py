"""The deploy interface ``ramdisk``: the instance is a ramdisk or an ISO, without a disk.

``instance_info`` names it: ``boot_iso``, or ``kernel`` and ``ramdisk``. The machine boots it at
each start while the node is active. Cleaning and servicing use a ramdisk with an agent as
elsewhere.
"""

from __future__ import annotations

from typing import ClassVar

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import ramdisk, serving
from ironic_lite.drivers.agent.deploy import AgentDeploy
from ironic_lite.drivers.boot import modes
from ironic_lite.images import configdrive

MODE = "instance"


class RamdiskDeploy(AgentDeploy):
    """Boots instances that live in memory."""

    boots_ramdisk: ClassVar[bool] = True

    def validate(self, task: base.Task) -> None:
        """Check that the instance is named, and can be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        task.driver.boot.check_ramdisk(task, MODE)
        serving.check_drive(task.node.instance_info)
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
