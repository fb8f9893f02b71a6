"""Secure boot of instances that require it: on for them, off for the ramdisks beside them."""

from __future__ import annotations

import dataclasses

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import ramdisk
from ironic_lite.drivers.agent.deploy import CustomAgentDeploy
from ironic_lite.drivers.agent.direct import DirectDeploy
from ironic_lite.drivers.agent.ramdisk_deploy import RamdiskDeploy
from ironic_lite.drivers.agent.rescue import AgentRescue
from ironic_lite.drivers.fake.management import SECURE, FakeManagement
from ironic_lite.drivers.noop.interfaces import NoopManagement
from tests.support import fake_task
from tests.support.fake_task import FakeTask, node

CAPABILITIES = [{"secure_boot": "true"}, "secure_boot:true,disk_label:gpt"]
DEPLOYS = [DirectDeploy(), CustomAgentDeploy(), RamdiskDeploy()]


class Management(FakeManagement):
    """Notes the power state at each switch of secure boot."""

    def __init__(self) -> None:
        super().__init__()
        self.switched: list[tuple[bool, str | None]] = []

    def set_secure_boot_state(self, task: base.Task, state: bool) -> None:
        self.switched.append((state, task.driver.power.get_power_state(task)))
        super().set_secure_boot_state(task, state)


@pytest.fixture
def management() -> Management:
    return Management()


def task_of(
    management: base.Management, capabilities: object = CAPABILITIES[0], *, secure: bool = True
) -> FakeTask:
    """Return a task on an active machine that is on."""
    driver = dataclasses.replace(fake_task.FAKE, management=management)
    info = {"capabilities": capabilities} if capabilities else {}
    task = FakeTask(node(provision_state="active", instance_info=info), driver=driver)
    task.driver.power.set_power_state(task, base.POWER_ON)
    task.keep(SECURE, secure)
    return task


@pytest.mark.parametrize("capabilities", CAPABILITIES)
def test_instance_starts_with_the_secure_boot_that_it_requires(
    management: Management, capabilities: object
) -> None:
    task = task_of(management, capabilities, secure=False)
    task.driver.power.set_power_state(task, base.POWER_OFF)
    ramdisk.boot_instance(task)
    assert management.switched == [(True, base.POWER_OFF)]
    assert task.node.secure_boot is True
    assert task.driver.power.get_power_state(task) == base.POWER_ON


@pytest.mark.parametrize("deploy", DEPLOYS)
def test_secure_boot_ends_with_the_instance(management: Management, deploy: base.Deploy) -> None:
    task = task_of(management)
    deploy.tear_down(task)
    assert management.switched == [(False, base.POWER_OFF)]
    assert task.node.secure_boot is False


@pytest.mark.parametrize("deploy", DEPLOYS)
def test_instance_that_has_never_had_secure_boot_can_be_deleted(
    management: Management, deploy: base.Deploy
) -> None:
    """The BMC may lack the licence for it, and refuse each change."""
    task = task_of(management, secure=False)
    deploy.tear_down(task)
    assert management.switched == []


def test_ramdisk_of_a_rebuild_boots_without_secure_boot(management: Management) -> None:
    """A ramdisk may have no signature."""
    task = task_of(management)
    assert DirectDeploy().deploy(task) is base.WAIT
    assert management.switched == [(False, base.POWER_OFF)]


def test_ramdisk_beside_the_instance_boots_without_secure_boot(management: Management) -> None:
    task = task_of(management)
    DirectDeploy().prepare_service(task)
    assert management.switched == [(False, base.POWER_OFF)]
    DirectDeploy().tear_down_service(task)
    assert management.switched[1:] == [(True, base.POWER_OFF)]


def test_rescue_boots_without_secure_boot_and_its_end_with_it(management: Management) -> None:
    task = task_of(management)
    AgentRescue().rescue(task)
    assert management.switched == [(False, base.POWER_OFF)]
    AgentRescue().unrescue(task)
    assert management.switched[1:] == [(True, base.POWER_OFF)]


@pytest.mark.parametrize("capabilities", [None, {"secure_boot": "false"}, {"boot_mode": "uefi"}])
def test_machine_whose_instance_requires_nothing_keeps_its_setting(
    management: Management, capabilities: object
) -> None:
    task = task_of(management, capabilities)
    ramdisk.boot_instance(task)
    DirectDeploy().prepare_service(task)
    DirectDeploy().tear_down(task)
    assert management.switched == []


def test_machine_without_such_a_switch_is_started_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = task_of(NoopManagement())
    ramdisk.boot_instance(task)
    assert "switch secure boot by hand" in caplog.text


def test_instance_is_not_started_if_secure_boot_cannot_be_switched_on() -> None:
    task = task_of(Management())
    task.driver.power.set_power_state(task, base.POWER_OFF)
    task.node.driver_info = {"fake_fail_calls": {"management.set_secure_boot_state": "no keys"}}
    with pytest.raises(errors.HardwareError, match="no keys"):
        ramdisk.boot_instance(task)
    assert task.driver.power.get_power_state(task) == base.POWER_OFF
