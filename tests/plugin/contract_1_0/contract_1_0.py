"""A driver as release 1.0 allows it, with an interface of each kind.

This source never changes. It has the methods that 1.0 requires, and the decorators and helpers of
``drivers.base`` at 1.0, so a later release that requires more fails its test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.drivers import base

NAME = "contract-1-0"
_STATES: dict[str, str] = {}
"""Power states of the machines, by the UUIDs of their nodes."""


class Power(base.Power):
    def get_properties(self) -> dict[str, str]:
        return {"contract_slot": "Slot of the machine, a number. Required."}

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        if not isinstance(driver_info.get("contract_slot", 0), int):
            raise errors.InvalidParameter(path="driver_info/contract_slot", reason="not a number")

    def validate(self, task: base.Task) -> None:
        if "contract_slot" not in task.node.driver_info:
            raise errors.MissingParameter(path="driver_info/contract_slot")

    def get_power_state(self, task: base.Task) -> str:
        return _STATES.get(task.node.uuid, base.POWER_OFF)

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        if target not in {base.POWER_ON, base.POWER_OFF}:
            raise self.unsupported(task, target)
        task.confirm_lock(changes=True)
        _STATES[task.node.uuid] = target

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        self.set_power_state(task, base.POWER_OFF)
        task.pause(0.01)
        self.set_power_state(task, base.POWER_ON)


class Management(base.Management):
    @base.clean_step(
        priority=0,
        requires_ramdisk=False,
        argsinfo={"seconds": base.Arg("Length of the wait.", required=True)},
    )
    @base.service_step(requires_ramdisk=False)
    def rest(self, task: base.Task, seconds: float) -> base.Outcome:
        task.keep("contract_rests", task.recall("contract_rests", 0) + 1)
        task.wake_after(seconds)
        return base.WAIT

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: Mapping[str, Any]
    ) -> base.Outcome:
        return base.DONE

    def get_boot_device(self, task: base.Task) -> dict[str, Any]:
        return {"boot_device": "disk", "persistent": True}


class Boot(base.Boot):
    pass


class Deploy(base.Deploy):
    @base.deploy_step(priority=50, rerunnable=True)
    def hand_over(self, task: base.Task) -> None:
        task.driver.power.set_power_state(task, base.POWER_ON)
        task.node.power_state = base.POWER_ON

    @base.clean_step(priority=10, abortable=True, requires_ramdisk=False)
    def wipe(self, task: base.Task) -> base.Outcome:
        return base.DONE

    def tear_down(self, task: base.Task) -> None:
        task.driver.power.set_power_state(task, base.POWER_OFF)
        task.node.power_state = base.POWER_OFF


class Inspect(base.Inspect):
    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        task.node.properties = {**task.node.properties, "cpu_arch": "x86_64"}
        task.add_ports(["52:54:00:00:00:10"])
        return base.DONE


class Rescue(base.Rescue):
    def rescue(self, task: base.Task) -> base.Outcome:
        return base.DONE

    def unrescue(self, task: base.Task) -> None:
        pass


class BIOS(base.BIOS):
    def cache_bios_settings(self, task: base.Task) -> Sequence[base.BiosSetting]:
        return [base.BiosSetting("Virtualization", "Enabled")]


class Firmware(base.Firmware):
    def cache_firmware_components(self, task: base.Task) -> Sequence[base.FirmwareComponent]:
        return [base.FirmwareComponent("bmc", "1.0")]


class Network(base.Network):
    pass


class RAID(base.RAID):
    pass


class Storage(base.Storage):
    pass


class Console(base.Console):
    pass


class Vendor(base.Vendor):
    @base.passthru(methods=("PUT",), description="Return what was sent.")
    def repeat(self, task: base.Task, call: base.Call) -> dict[str, Any]:
        return {"repeated": dict(call.info)}


class Machine(base.HardwareType):
    supported: ClassVar[Mapping[str, tuple[str, ...]]] = dict.fromkeys(base.KINDS, (NAME,))
