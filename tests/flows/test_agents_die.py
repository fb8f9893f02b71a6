"""Conductors that die around a ramdisk's agent: its machine is deployed, cleaned and off again."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator

import pytest

from ironic_lite.drivers import base
from ironic_lite.drivers.agent import deploy
from tests.support import scripted_agent
from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.crashes import Scene, Stage, at_rest, rests

pytestmark = pytest.mark.usefixtures("quick_agents")

STEPS = {"here": 1, "there": 1} if os.environ.get("ANY_LIFE_EXAMPLES") else {"here": 4, "there": 9}
"""At every fourth moment a conductor dies here, at every ninth if another one comes after it; at
each in `make life`."""
ERASE = {"step": "erase", "interface": "deploy", "priority": 10}
RENEW = {"step": "renew", "interface": "deploy", "priority": 20, "reboot_requested": True}
CHECK = {"step": "check", "interface": "deploy", "priority": 0}
TUNE = {"step": "tune", "interface": "deploy", "priority": 0}
IMAGE = {
    "image_source": "http://192.0.2.80/jammy.raw",
    "image_checksum": "a" * 64,
    "image_disk_format": "raw",
    "capabilities": {"boot_mode": "uefi"},
}


CASES = {
    "deploy": Scene("available", "deploy", {}, "active", ("write_image", "install_bootloader")),
    "clean": Scene("manageable", "provide", {}, "available", ("renew", "erase")),
    "service": Scene(
        *("active", "service", {"service_steps": listed("deploy.check", "deploy.tune")}),
        *("active", ("check", "tune")),
    ),
}
"""The steps are the agent's."""


@pytest.fixture
def machine() -> Iterator[scripted_agent.Machine]:
    """A machine whose agent has two clean steps, and two for servicing."""
    made = scripted_agent.Machine(clean=[ERASE, RENEW], service=[CHECK, TUNE])
    with scripted_agent.running(made) as found:
        yield found


@pytest.fixture
def stage(stages: Callable[..., Stage], machine: scripted_agent.Machine) -> Stage:
    """A stage with one machine."""
    drivers = functools.partial(scripted_agent.registry, machine, deploy.DirectDeploy())
    return stages(drivers, machine.serve, dead="removed", agent__require_tls=False)


@pytest.mark.parametrize("heir", STEPS)
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_agents_work_ends_whenever_a_conductor_dies(
    stage: Stage, machine: scripted_agent.Machine, name: str, what: str, heir: str
) -> None:
    case, lost = CASES[name], 0

    def begin(rig: ConductorFixture) -> str:
        node = rig.node(case.before, instance_info=IMAGE)
        machine.fresh(node)
        return node

    for moment in stage.moments(what, step=STEPS[heir], least=10):
        node = moment.die(begin, case.ask)
        rig = moment.heir(heir)
        row = rests(rig, node, lambda rig, node: machine.lost or at_rest(rig, node))
        if machine.lost:  # who was told the token died before it could pass it on
            lost += 1
            assert row["provision_state"] in ("wait call-back", "clean wait", "service wait")
        elif not rig.runs(node):
            assert row["provision_state"] == case.before
            assert moment.died
            assert machine.ran == []
        else:
            end = (row["provision_state"], row["last_error"])
            assert end == (case.end, None), (moment.number, machine.ran)
            done = [one for one in machine.ran if one in case.steps]
            assert tuple(dict.fromkeys(done)) == case.steps
            assert len(done) <= len(case.steps) + 1
            assert machine.power == (base.POWER_ON if case.end == "active" else base.POWER_OFF)
            assert machine.boots == "disk" or case.end != "active"
            kept = {"agent_url", "agent_secret_token"} & set(row["driver_internal_info"])
            assert not kept or (machine.cut_off and kept == {"agent_secret_token"})
    assert lost <= 4
