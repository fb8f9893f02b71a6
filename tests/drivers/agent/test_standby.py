"""When a ramdisk that runs is used, what becomes of it, and power by its agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import ramdisk, standby
from ironic_lite.drivers.agent.deploy import CustomAgentDeploy
from ironic_lite.drivers.agent.power import AgentPower
from tests.emulators.agent import process
from tests.support.fake_task import FAKE, FakeTask, node

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
    assert standby.ready(one) is found


def test_without_an_agent_or_after_a_failure_it_is_not(conf: cfg.ConfigOpts) -> None:
    failing, silent = task(), task()
    failing.failing = True
    silent.agent = None
    assert not standby.ready(failing)
    assert not standby.ready(silent)


def test_a_ramdisk_of_another_machine_is_not(conf: cfg.ConfigOpts) -> None:
    one, by_hand = task(), task(in_band=True)
    for each in (one, by_hand):
        assert each.agent is not None
        each.agent = dataclasses.replace(each.agent, moved=True)
    assert not standby.ready(one)
    assert standby.ready(by_hand)  # there is no BMC that could be another machine's


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
