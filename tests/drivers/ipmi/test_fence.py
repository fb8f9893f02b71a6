"""A conductor that has lost a node runs ipmitool no more, whatever method it is in."""

from __future__ import annotations

import pathlib
import time

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import management, power, tool
from tests.support import expiring_locks, fake_task
from tests.support.bmc_tasks import Program

POWER, MANAGEMENT = power.IpmiPower(), management.IpmiManagement()
INFO = {"ipmi_address": "192.0.2.9", "ipmi_username": "u", "ipmi_password": "p"}
BMC = """\
echo "$*" >> commands
case "$*" in
    *" power status") echo "Chassis Power is $(cat power 2> /dev/null || echo on)" ;;
    *" power on" | *" power reset") echo on > power ;;
    *" power off" | *" power soft") echo off > power ;;
esac
"""
"""A machine that goes where it is sent at once."""

ACTS: dict[str, expiring_locks.Act] = {
    "power on": lambda task: POWER.set_power_state(task, base.POWER_ON, 2),
    "power off": lambda task: POWER.set_power_state(task, base.POWER_OFF, 2),
    "soft power off": lambda task: POWER.set_power_state(task, base.SOFT_POWER_OFF, 2),
    "reboot": lambda task: POWER.reboot(task, 2),
    "boot device": lambda task: MANAGEMENT.set_boot_device(task, "pxe", persistent=False),
    "interrupt": MANAGEMENT.inject_nmi,
    "restart": MANAGEMENT.restart_bmc,
    "sensors": MANAGEMENT.get_sensors_data,
}


@pytest.mark.parametrize("name", ACTS)
def test_no_command_is_run_after_the_lock_is_lost(program: Program, name: str) -> None:
    commands = program(BMC) / "commands"

    def make(answers: int) -> expiring_locks.LeasedTask:
        node = fake_task.node(driver="ipmi", driver_info=INFO, power_state="power on")
        return expiring_locks.LeasedTask(node, answers=answers)

    def orders() -> list[str]:
        return commands.read_text(encoding="utf-8").splitlines() if commands.exists() else []

    assert expiring_locks.interrupt(ACTS[name], make, orders) >= 1


class Unsure(fake_task.FakeTask):
    """A task whose lock is not sure any more when the program has begun."""

    def __init__(self, begun: pathlib.Path, *, ours: bool) -> None:
        super().__init__(fake_task.node(driver="ipmi", driver_info=INFO))
        self._begun = begun
        self._ours = ours

    @property
    def lock_is_sure(self) -> bool:
        return not self._begun.exists()

    def confirm_lock(self) -> None:
        super().confirm_lock()
        if self._begun.exists() and not self._ours:
            raise errors.LockLost(node=self.node.uuid)


@pytest.mark.parametrize(
    ("ours", "error"), [(False, errors.LockLost), (True, errors.BmcUnreachable)]
)
def test_a_command_that_runs_is_killed_when_the_lock_is_not_sure(
    program: Program, ours: bool, error: type[errors.Error]
) -> None:
    folder = program("touch begun; sleep 20; touch sent")
    began = time.monotonic()
    with pytest.raises(error):
        tool.run(Unsure(folder / "begun", ours=ours), ("power", "on"), once=True)
    assert time.monotonic() - began < 15
    assert not (folder / "sent").exists()
