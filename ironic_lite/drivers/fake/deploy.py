"""Deployment and erasure of a machine that is not there."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

LISTED = "fake_listed_steps"
"""Where the list of the latest agent is kept on the node."""


class FakeDeploy(stage.Staged, base.Deploy):
    """Its steps write nothing anywhere; the power is as real as the node's power interface."""

    def adopt(self, task: base.Task) -> None:
        """Take the machine in.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``adopt``.
        """
        stage.fail_verb(task, "adopt")

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, unless it must never be.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``delete``; or power fails.
        """
        stage.fail_verb(task, "delete")
        if not task.node.disable_power_off:
            task.driver.power.set_power_state(task, base.POWER_OFF)
            task.node.power_state = base.POWER_OFF

    def prepare_cleaning(self, task: base.Task) -> base.Outcome:
        """Start the agent; where only it knows the clean steps, its list is kept (S1.25, S1.35)."""
        if stage.told(task).steps_unavailable is not None:
            task.keep(LISTED, super().get_clean_steps(task))
        return base.DONE

    def get_clean_steps(self, task: base.Task) -> list[dict[str, Any]]:
        """Return the clean steps; where only an agent knows them, those of the latest one.

        :raises errors.StepsUnavailable: there was none, and driver_info/fake_steps_unavailable is
            set (S1.26).
        """
        wait = stage.told(task).steps_unavailable
        if wait is None:
            return super().get_clean_steps(task)
        listed: list[dict[str, Any]] | None = task.recall(LISTED)
        if listed is None:
            raise errors.StepsUnavailable(node=task.node.uuid, seconds=wait)
        return listed

    @base.clean_step(priority=10, abortable=True)
    def erase_devices(self, task: base.Task) -> None:
        """Erase all data."""

    @base.clean_step(priority=99, abortable=True)
    def erase_devices_metadata(self, task: base.Task) -> None:
        """Erase partition tables."""

    @base.deploy_step(priority=100, rerunnable=True)
    def deploy(self, task: base.Task) -> None:
        """Start the deployment."""

    @base.deploy_step(priority=80, rerunnable=True)
    def write_image(self, task: base.Task) -> None:
        """Write the image to the disk."""

    @base.deploy_step(priority=20, rerunnable=True)
    def boot_instance(self, task: base.Task) -> None:
        """Start the instance: the machine is on from here."""
        task.driver.power.set_power_state(task, base.POWER_ON)
        task.node.power_state = base.POWER_ON
