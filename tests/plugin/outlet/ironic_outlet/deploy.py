"""An instance is a machine that is on, with its name on the display."""

from __future__ import annotations

from ironic_lite.drivers import base

from . import rack


class OutletDeploy(rack.Racked, base.Deploy):
    """One step to deploy, one to clean."""

    @base.deploy_step(priority=50, rerunnable=True)
    def hand_over(self, task: base.Task) -> None:
        """Switch on."""
        rack.call(task, on=True, label=task.node.name or task.node.uuid)
        task.node.power_state = base.POWER_ON

    @base.clean_step(priority=10, abortable=True, requires_ramdisk=False)
    def wipe(self, task: base.Task) -> None:
        """Clear the display."""
        rack.call(task, label="", blink=False)

    def tear_down(self, task: base.Task) -> None:
        """Switch off."""
        rack.call(task, on=False)
        task.node.power_state = base.POWER_OFF
