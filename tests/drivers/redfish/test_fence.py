"""A conductor that has lost a node sends its BMC nothing more, whatever method it is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import bios, inspect, management, power
from ironic_lite.drivers.redfish.raid import interface as raid_interface
from tests.emulators import bmc
from tests.support import bmc_tasks, expiring_locks, fake_task

POWER, MANAGEMENT = power.RedfishPower(), management.RedfishManagement()
IMAGE = "http://192.0.2.1/image.iso"
SETTINGS = [{"name": "BootMode", "value": "Bios"}]
VOLUMES = {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}


def _switched(target: str) -> expiring_locks.Act:
    return lambda task: POWER.set_power_state(task, target, 2)


def _stepped(kind: str, title: str, **args: Any) -> expiring_locks.Act:
    """Return an act that begins a clean step, and asks ten times how it goes on."""
    interface: Any = {"raid": raid_interface.RedfishRAID(), "bios": bios.RedfishBIOS()}[kind]
    step = fake_task.step(f"{kind}.{title}", **args)

    def act(task: fake_task.FakeTask) -> None:
        outcome = interface.execute_clean_step(task, step)
        for _ in range(10):
            if outcome is not base.WAIT:
                return
            outcome = interface.poll_step(task, base.StepKind.CLEAN, step)

    return act


ACTS: dict[str, expiring_locks.Act] = {
    "power on": _switched(base.POWER_ON),
    "power off": _switched(base.POWER_OFF),
    "soft power off": _switched(base.SOFT_POWER_OFF),
    "reboot": lambda task: POWER.reboot(task, 2),
    "soft reboot": lambda task: POWER.reboot(task, 2, soft=True),
    "read the power": POWER.get_power_state,
    "boot device": lambda task: MANAGEMENT.set_boot_device(task, "pxe", persistent=True),
    "boot mode": lambda task: MANAGEMENT.set_boot_mode(task, "bios"),
    "secure boot": lambda task: MANAGEMENT.set_secure_boot_state(task, True),
    "interrupt": MANAGEMENT.inject_nmi,
    "sensors": MANAGEMENT.get_sensors_data,
    "vendor": MANAGEMENT.detect_vendor,
    "inspection": inspect.RedfishInspect().inspect_hardware,
    "virtual media": lambda task: MANAGEMENT.attach_virtual_media(task, "cdrom", IMAGE),
    "no virtual media": lambda task: MANAGEMENT.detach_virtual_media(task, None),
    "settings": _stepped("bios", "apply_configuration", settings=SETTINGS),
    "no settings": _stepped("bios", "factory_reset"),
    "volumes": _stepped("raid", "create_configuration", delete_existing=True),
    "no volumes": _stepped("raid", "delete_configuration"),
}


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        running.tree[running.system]["PowerState"] = "On"
        yield running


@pytest.mark.parametrize("name", ACTS)
def test_no_order_arrives_after_the_lock_is_lost(machine: bmc.Machine, name: str) -> None:
    driver = bmc_tasks.REDFISH

    def make(answers: int) -> expiring_locks.LeasedTask:
        node = fake_task.node(
            driver="redfish", driver_info=machine.driver_info, target_raid_config=VOLUMES
        )
        return expiring_locks.LeasedTask(node, driver=driver, answers=answers)

    assert expiring_locks.interrupt(ACTS[name], make, lambda: machine.log) >= 1
