"""Restarts in the middle of a list of steps: a machine boots its ramdisk once, then its disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.conductor.watch import timers
from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import client, direct, steps
from tests.support import crashes, scripted_agent
from tests.support.conductor_fixture import ConductorFixture, listed

ERASE = {"step": "erase", "interface": "deploy", "priority": 10, "abortable": True}
CHECK = {"step": "check", "interface": "deploy", "priority": 5}
IMAGE = {
    "image_source": "http://192.0.2.80/jammy.raw",
    "image_checksum": "a" * 64,
    "image_disk_format": "raw",
    "capabilities": {"boot_mode": "uefi"},
}


class Forgetful(scripted_agent.Machine):
    """Its BMC takes a boot device for one boot; then it is the disk's turn again."""

    def _switch(self, to: str) -> None:
        super()._switch(to)
        if to == base.POWER_ON:
            self.boots = "disk"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forgetful]:
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(steps, "SOON", 0.02)
    monkeypatch.setattr(direct, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(client, "_PAUSE", 0.02)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    found = Forgetful(clean=[ERASE, CHECK], deploy=[CHECK | {"priority": 0}], service=[CHECK])
    with scripted_agent.running(found):
        yield found
    config.CONF.reset()


@pytest.fixture
def rig(build: Callable[..., ConductorFixture], machine: Forgetful) -> ConductorFixture:
    """A conductor that deploys on the machine by images."""
    drivers = scripted_agent.registry(machine, direct.DirectDeploy(), crashes.Life())
    found = build(registry=drivers, agent__require_tls=False)
    machine.service = found.service
    return found


def node(rig: ConductorFixture, machine: Forgetful, state: str, **values: Any) -> str:
    machine.node = rig.node(state, **values)
    return machine.node


@pytest.mark.parametrize(
    "restart",
    [["power.reboot"], ["power.power_off", "power.power_on"], ["power.reboot", "power.power_on"]],
    ids=",".join,
)
def test_steps_after_a_restart_run_in_the_rebooted_ramdisk(
    rig: ConductorFixture, machine: Forgetful, restart: list[str]
) -> None:
    one = node(rig, machine, "manageable")
    rig.clean(one, "deploy.erase", *restart, "deploy.check")
    row = rig.reaches(one, "manageable")
    assert row["last_error"] is None
    assert [name for name in machine.ran if name in ("erase", "check")] == ["erase", "check"]
    assert set(rig.step_states(one)) == {"done"}
    assert "agent_ramdisk" not in str(row["driver_internal_info"])


def test_a_service_gets_its_ramdisk_back_too(rig: ConductorFixture, machine: Forgetful) -> None:
    one = node(rig, machine, "active", instance_info=IMAGE)
    wanted = listed("deploy.check", "power.reboot", "deploy.check")
    rig.ask("do_node_service", one, service_steps=wanted)
    assert rig.reaches(one, "active")["last_error"] is None
    assert machine.ran.count("check") == 2


def test_a_deployment_goes_on_behind_a_restart(rig: ConductorFixture, machine: Forgetful) -> None:
    one = node(rig, machine, "available", instance_info=IMAGE)
    more = [{**listed("power.reboot")[0], "args": {}, "priority": 70}]
    rig.ask("do_node_deploy", one, deploy_steps=more)
    assert rig.reaches(one, "active")["last_error"] is None
    assert machine.ran.index("write_image") < machine.ran.index("install_bootloader")
    assert (machine.power, machine.runs) == (base.POWER_ON, "disk")


def test_a_restart_behind_the_ramdisk_is_one_of_the_instance(
    rig: ConductorFixture, machine: Forgetful
) -> None:
    one = node(rig, machine, "available", instance_info=IMAGE)
    more = [{**listed("power.reboot")[0], "args": {}, "priority": 10}]
    rig.ask("do_node_deploy", one, deploy_steps=more)
    assert rig.reaches(one, "active")["last_error"] is None
    assert (machine.power, machine.runs) == (base.POWER_ON, "disk")


def test_a_step_for_the_ramdisk_of_a_machine_that_is_off_fails_at_once(
    rig: ConductorFixture, machine: Forgetful
) -> None:
    one = node(rig, machine, "manageable")
    rig.clean(one, "deploy.erase", "power.power_off", "deploy.check")
    assert "no heartbeat" in rig.reaches(one, "clean failed")["last_error"]


def test_a_clean_without_a_ramdisk_restarts_into_whatever_there_is(
    rig: ConductorFixture, machine: Forgetful
) -> None:
    one = node(rig, machine, "manageable")
    rig.clean(one, "power.reboot", disable_ramdisk=True)
    assert rig.reaches(one, "manageable")["last_error"] is None
    assert (machine.runs, machine.ran) == ("disk", [])
