"""Power and boot of machines with a ramdisk: reuse, restarts, and secure boot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import ramdisk
from ironic_lite.drivers.agent.deploy import CustomAgentDeploy, DirectDeploy, RamdiskDeploy
from ironic_lite.drivers.agent.inspect import AgentInspect
from ironic_lite.drivers.agent.ramdisk import AgentPower
from ironic_lite.drivers.agent.rescue import AgentRescue
from ironic_lite.drivers.fake.hardware import SECURE_BOOT, FakeManagement, FakePower
from ironic_lite.drivers.noop import NoopManagement
from tests.emulators.agent import process
from tests.support import fake_task
from tests.support.fake_task import FAKE, FakeTask, node

# When a ramdisk that runs is used, what becomes of it, and power by its agent.

URL = "https://192.0.2.10:9999"


def task(*, ago: float = 0, power: bool = True, in_band: bool = False, **values: Any) -> FakeTask:
    """Return a task on the fast track whose agent was heard ``ago`` seconds ago."""
    driver = dataclasses.replace(FAKE, deploy=CustomAgentDeploy())
    if in_band:
        driver = dataclasses.replace(driver, power=AgentPower())
    info = {"fast_track": True, **values.pop("driver_info", {})}
    found = FakeTask(node(driver_info=info, **values), driver=driver)
    found.agent = base.Agent(URL, "t" * 43, None, "13.0.0", clock.after(-ago))
    if not in_band:
        found.driver.power.set_power_state(found, base.POWER_ON if power else base.POWER_OFF)
    return found


@pytest.mark.parametrize(
    ("about", "found"),
    [
        ({}, True),
        ({"ago": 299}, True),
        ({"ago": 400}, False),
        ({"power": False}, False),
        ({"last_error": "broken"}, False),
        ({"driver_info": {"fast_track": False}}, False),
        ({"driver_info": {"fake_fail_power": "no BMC"}}, False),
    ],
    ids=str,
)
def test_a_ramdisk_is_used_if_it_surely_runs(
    conf: cfg.ConfigOpts, about: dict[str, Any], found: bool
) -> None:
    broken = about.get("driver_info", {}).pop("fake_fail_power", None)
    one = task(**about)
    if broken:
        one.node.driver_info = {**one.node.driver_info, "fake_fail_power": broken}
    assert ramdisk.is_ready(one) is found


def test_without_an_agent_or_after_a_failure_it_is_not(conf: cfg.ConfigOpts) -> None:
    failing, silent = task(), task()
    failing.failing = True
    silent.agent = None
    assert not ramdisk.is_ready(failing)
    assert not ramdisk.is_ready(silent)


def test_a_ramdisk_of_another_machine_is_not(conf: cfg.ConfigOpts) -> None:
    one, by_hand = task(), task(in_band=True)
    for each in (one, by_hand):
        assert each.agent is not None
        each.agent = dataclasses.replace(each.agent, moved=True)
    assert not ramdisk.is_ready(one)
    assert ramdisk.is_ready(by_hand)  # there is no BMC that could be another machine's


def test_a_clean_goes_on_at_once_and_leaves_the_ramdisk(conf: cfg.ConfigOpts) -> None:
    one = task()
    deploy = one.driver.deploy
    assert deploy.prepare_cleaning(one) is base.DONE
    assert one.agent is not None
    deploy.tear_down_cleaning(one)
    assert one.agent is not None
    assert one.driver.power.get_power_state(one) == base.POWER_ON
    one.agent = dataclasses.replace(one.agent, heard_at=clock.after(-1000))
    deploy.tear_down_cleaning(one)
    assert one.agent is None
    assert one.driver.power.get_power_state(one) == base.POWER_OFF


def test_a_deployment_forgets_an_agent_that_it_will_not_use(conf: cfg.ConfigOpts) -> None:
    fresh, stale = task(), task(ago=1000)
    for one in (fresh, stale):
        one.driver.deploy.prepare(one)
    assert (fresh.agent is not None, stale.agent) == (True, None)


# -- power -----------------------------------------------------------------------------------


def test_a_machine_without_an_agent_can_be_restarted_by_nobody(conf: cfg.ConfigOpts) -> None:
    one = task(in_band=True)
    one.agent = None
    acts: list[Callable[[], object]] = [
        lambda: one.driver.power.get_power_state(one),
        lambda: one.driver.power.reboot(one),
        lambda: one.driver.power.set_power_state(one, base.POWER_ON),
        lambda: ramdisk.boot(one),
    ]
    for act in acts:
        with pytest.raises(errors.HardwareError, match="Boot the ramdisk on it by hand"):
            act()


def test_agent_power_cannot_switch_off(conf: cfg.ConfigOpts) -> None:
    one = task(in_band=True)
    for target in (base.POWER_OFF, base.SOFT_POWER_OFF):
        assert target not in one.driver.power.get_supported_power_states(one)
        with pytest.raises(errors.PowerFailure, match="cannot switch machines off"):
            one.driver.power.set_power_state(one, target)
    ramdisk.switch_off(one)
    ramdisk.leave(one)
    assert one.agent is not None
    assert not one.driver.power.supports_power_sync(one)


def test_agent_power_needs_the_fast_track(conf: cfg.ConfigOpts) -> None:
    AgentPower().validate(task(in_band=True))
    with pytest.raises(errors.InvalidParameter, match=r"\[deploy\]fast_track = true"):
        AgentPower().validate(task(in_band=True, driver_info={"fast_track": False}))
    for one in (AgentPower(), CustomAgentDeploy()):
        with pytest.raises(errors.InvalidParameter, match="neither true nor false"):
            one.check_driver_info({"fast_track": "perhaps"})
        assert set(one.get_properties()) == {"fast_track"}


def test_a_real_agent_restarts_its_machine(
    mortal: tuple[process.Agent, FakeTask], conf: cfg.ConfigOpts
) -> None:
    _, one = mortal
    power = AgentPower()
    assert power.get_power_state(one) == base.POWER_ON
    power.set_power_state(one, base.POWER_ON)
    assert one.agent is not None
    power.set_power_state(one, base.SOFT_REBOOT)
    assert one.agent is None


def test_a_step_for_a_ramdisk_that_boots_waits_for_it_and_may_be_repeated(
    conf: cfg.ConfigOpts,
) -> None:
    one = task(power_state=base.POWER_ON)
    erase: base.StoredStep = {"step": "erase", "interface": "deploy"}
    ramdisk.boot(one)
    one.agent = None
    deploy = one.driver.deploy
    assert deploy.execute_clean_step(one, erase) is base.WAIT
    assert one.timers == []
    assert deploy.may_repeat(one, base.StepKind.CLEAN, erase)
    ramdisk.leave(one)
    assert not deploy.may_repeat(one, base.StepKind.CLEAN, erase)
    with pytest.raises(errors.AgentUnreachable):
        deploy.execute_clean_step(one, erase)


# Machines with disable_power_off: a restart ends the ramdisk or instance that runs on them.

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


# Secure boot of instances that require it: on for them, off for the ramdisks beside them.

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


def secure_task(
    management: base.Management, capabilities: object = CAPABILITIES[0], *, secure: bool = True
) -> FakeTask:
    """Return a task on an active machine that is on."""
    driver = dataclasses.replace(fake_task.FAKE, management=management)
    info = {"capabilities": capabilities} if capabilities else {}
    task = FakeTask(node(provision_state="active", instance_info=info), driver=driver)
    task.driver.power.set_power_state(task, base.POWER_ON)
    task.keep(SECURE_BOOT, secure)
    return task


@pytest.mark.parametrize("capabilities", CAPABILITIES)
def test_instance_starts_with_the_secure_boot_that_it_requires(
    management: Management, capabilities: object
) -> None:
    task = secure_task(management, capabilities, secure=False)
    task.driver.power.set_power_state(task, base.POWER_OFF)
    ramdisk.boot_instance(task)
    assert management.switched == [(True, base.POWER_OFF)]
    assert task.node.secure_boot is True
    assert task.driver.power.get_power_state(task) == base.POWER_ON


@pytest.mark.parametrize("deploy", DEPLOYS)
def test_secure_boot_ends_with_the_instance(management: Management, deploy: base.Deploy) -> None:
    task = secure_task(management)
    deploy.tear_down(task)
    assert management.switched == [(False, base.POWER_OFF)]
    assert task.node.secure_boot is False


@pytest.mark.parametrize("deploy", DEPLOYS)
def test_instance_that_has_never_had_secure_boot_can_be_deleted(
    management: Management, deploy: base.Deploy
) -> None:
    """The BMC may lack the licence for it, and refuse each change."""
    task = secure_task(management, secure=False)
    deploy.tear_down(task)
    assert management.switched == []


def test_ramdisk_of_a_rebuild_boots_without_secure_boot(management: Management) -> None:
    """A ramdisk may have no signature."""
    task = secure_task(management)
    assert DirectDeploy().deploy(task) is base.WAIT
    assert management.switched == [(False, base.POWER_OFF)]


def test_ramdisk_beside_the_instance_boots_without_secure_boot(management: Management) -> None:
    task = secure_task(management)
    DirectDeploy().prepare_service(task)
    assert management.switched == [(False, base.POWER_OFF)]
    DirectDeploy().tear_down_service(task)
    assert management.switched[1:] == [(True, base.POWER_OFF)]


def test_rescue_boots_without_secure_boot_and_its_end_with_it(management: Management) -> None:
    task = secure_task(management)
    AgentRescue().rescue(task)
    assert management.switched == [(False, base.POWER_OFF)]
    AgentRescue().unrescue(task)
    assert management.switched[1:] == [(True, base.POWER_OFF)]


@pytest.mark.parametrize("capabilities", [None, {"secure_boot": "false"}, {"boot_mode": "uefi"}])
def test_machine_whose_instance_requires_nothing_keeps_its_setting(
    management: Management, capabilities: object
) -> None:
    task = secure_task(management, capabilities)
    ramdisk.boot_instance(task)
    DirectDeploy().prepare_service(task)
    DirectDeploy().tear_down(task)
    assert management.switched == []


def test_machine_without_such_a_switch_is_started_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = secure_task(NoopManagement())
    ramdisk.boot_instance(task)
    assert "switch secure boot by hand" in caplog.text


def test_instance_is_not_started_if_secure_boot_cannot_be_switched_on() -> None:
    task = secure_task(Management())
    task.driver.power.set_power_state(task, base.POWER_OFF)
    task.node.driver_info = {"fake_fail_calls": {"management.set_secure_boot_state": "no keys"}}
    with pytest.raises(errors.HardwareError, match="no keys"):
        ramdisk.boot_instance(task)
    assert task.driver.power.get_power_state(task) == base.POWER_OFF
