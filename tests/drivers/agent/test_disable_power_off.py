"""Machines with disable_power_off: a restart ends the ramdisk or instance that runs on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.deploy import CustomAgentDeploy
from ironic_lite.drivers.agent.direct import DirectDeploy
from ironic_lite.drivers.agent.inspect import AgentInspect
from ironic_lite.drivers.agent.power import AgentPower
from ironic_lite.drivers.agent.ramdisk_deploy import RamdiskDeploy
from ironic_lite.drivers.fake.power import FakePower
from tests.support import fake_task
from tests.support.fake_task import FakeTask, node

DIRECT = DirectDeploy()
ENDS: dict[str, Callable[[base.Task], None]] = {
    "clean": DIRECT.tear_down_cleaning,
    "direct deployment": DIRECT.tear_down,
    "custom-agent deployment": CustomAgentDeploy().tear_down,
    "ramdisk deployment": RamdiskDeploy().tear_down,
    "inspection": AgentInspect().abort,
}


class Power(FakePower):
    """Notes each change of the power."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[str] = []

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        self.changes.append(target)
        super().set_power_state(task, target, timeout)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        self.changes.append(base.REBOOT)


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    yield
    config.CONF.clear_override("power_off", "inspector")


def task_of(power: base.Power, *, kept_on: bool) -> FakeTask:
    driver = dataclasses.replace(fake_task.FAKE, power=power)
    return FakeTask(node(disable_power_off=kept_on, power_state=base.POWER_ON), driver=driver)


@pytest.mark.parametrize("name", ENDS)
def test_restart_replaces_the_power_off(name: str) -> None:
    power = Power()
    task = task_of(power, kept_on=True)
    ENDS[name](task)
    assert power.changes == [base.REBOOT]
    assert task.node.power_state == base.POWER_ON


@pytest.mark.parametrize("name", ENDS)
def test_other_machines_are_only_switched_off(name: str) -> None:
    power = Power()
    task = task_of(power, kept_on=False)
    ENDS[name](task)
    assert power.changes == [base.POWER_OFF]
    assert task.node.power_state == base.POWER_OFF


def test_machine_is_left_for_inspection_after_a_failure() -> None:
    power = Power()
    task = task_of(power, kept_on=True)
    task.failing = True
    DIRECT.tear_down_cleaning(task)
    assert power.changes == []


def test_ramdisk_of_an_inspection_runs_on_if_the_operator_wants_that() -> None:
    config.CONF.set_override("power_off", False, "inspector")
    power = Power()
    AgentInspect().abort(task_of(power, kept_on=True))
    assert power.changes == []


@pytest.mark.parametrize("name", ENDS)
def test_machine_that_only_its_agent_can_restart_is_left_to_it(name: str) -> None:
    task = task_of(AgentPower(), kept_on=True)
    ENDS[name](task)
    assert task.node.power_state == base.POWER_ON
