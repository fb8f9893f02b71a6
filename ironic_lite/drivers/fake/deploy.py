"""Fake deploy interface, without hardware."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.domain import erasure_results
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeDeploy(stage.Staged, base.Deploy):
    """Its steps write nothing; power changes go to the node's power interface."""

    def adopt(self, task: base.Task) -> None:
        """Adopt the machine.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``adopt``.
        """
        stage.fail_verb(task, "adopt")

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, unless its power must stay on.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``delete``; or power fails.
        """
        stage.fail_verb(task, "delete")
        if not task.node.disable_power_off:
            task.switch_power(base.POWER_OFF)
            task.node.power_state = base.POWER_OFF

    def prepare(self, task: base.Task) -> None:
        """Forget a ramdisk of an earlier deployment; the step ``deploy`` boots another."""
        task.keep(stage.RAMDISK, None)

    def clean_up(self, task: base.Task) -> None:
        """Stop the ramdisk."""
        task.keep(stage.RAMDISK, None)

    def prepare_cleaning(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, if there is one."""
        return self._boot_ramdisk(task)

    def tear_down_cleaning(self, task: base.Task) -> None:
        """Stop the ramdisk."""
        task.keep(stage.RAMDISK, None)

    def prepare_service(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, if there is one."""
        return self._boot_ramdisk(task)

    def tear_down_service(self, task: base.Task) -> None:
        """Stop the ramdisk."""
        task.keep(stage.RAMDISK, None)

    def agent_steps(self, task: base.Task, kind: base.StepKind) -> base.AgentReport | None:
        """Return what the running ramdisk lists, of all kinds.

        Where only an agent knows the clean steps of this interface
        (driver_info/fake_steps_unavailable), it lists these (S1.25, S1.35).
        """
        running, script = task.recall(stage.RAMDISK), stage.told(task)
        if running is None:
            return None
        if script.agent:
            disk = script.agent[min(running, len(script.agent) - 1)]
            listed, version = dict(disk.steps), disk.version
        else:
            listed, version = {}, "1"
        if script.steps_unavailable is not None:
            own = super().get_clean_steps(task)
            listed[base.StepKind.CLEAN] = own + listed.get(base.StepKind.CLEAN, [])
        steps = {each: {stage.MANAGER: some} for each, some in listed.items()}
        return base.AgentReport(steps, {stage.MANAGER: version})

    def get_clean_steps(self, task: base.Task) -> list[base.StoredStep]:
        """Return the clean steps.

        :raises errors.StepsUnavailable: only an agent knows them (S1.26), as
            driver_info/fake_steps_unavailable says.
        """
        wait = stage.told(task).steps_unavailable
        if wait is not None:
            raise errors.StepsUnavailable(node=task.node.uuid, seconds=wait)
        return super().get_clean_steps(task)

    def _erase(self, task: base.Task) -> None:
        disks = stage.told(task).erasures
        if disks is not None:
            report = {"kind": erasure_results.KIND, "managers": {"fake": "1"}, "disks": disks}
            task.report_erasure(report)
            erasure_results.refuse_failed(report)

    def _boot_ramdisk(self, task: base.Task) -> base.Outcome:
        script = stage.told(task)
        if script.agent or script.steps_unavailable is not None:
            task.keep(stage.RAMDISK, 0)
        if not script.agent:
            return base.DONE
        task.wake_after(stage.seconds(script))
        return base.WAIT

    @base.clean_step(priority=10, abortable=True, destroys=("data",), restarts=0)
    def erase_devices(self, task: base.Task) -> None:
        """Erase the disks of driver_info/fake_erasures, if there are any.

        :raises errors.HardwareError: one of them fails.
        """
        self._erase(task)

    @base.clean_step(priority=99, abortable=True, destroys=("data",), restarts=0)
    def erase_devices_metadata(self, task: base.Task) -> None:
        """Erase partition tables."""

    @base.deploy_step(priority=100, rerunnable=True, destroys=(), restarts=0)
    def deploy(self, task: base.Task) -> base.Outcome | None:
        """Start the deployment: boot the ramdisk, if there is one."""
        booted = task.recall(stage.RAMDISK) is not None
        return None if booted or not stage.told(task).agent else self._boot_ramdisk(task)

    @base.deploy_step(priority=80, rerunnable=True, destroys=("data",), restarts=0, lasting=True)
    def write_image(self, task: base.Task) -> None:
        """Write the image to the disk."""

    @base.deploy_step(priority=20, rerunnable=True, destroys=(), restarts=1)
    def boot_instance(self, task: base.Task) -> None:
        """Start the instance; the machine is on from here."""
        task.keep(stage.RAMDISK, None)
        task.switch_power(base.POWER_ON)
        task.node.power_state = base.POWER_ON
