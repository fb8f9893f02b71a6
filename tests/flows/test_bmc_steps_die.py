"""Conductors that die around steps of a BMC: settings that a machine takes up when it boots."""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite.conductor.engine import stepper
from ironic_lite.core import config
from ironic_lite.drivers.redfish import bios, management, power
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.drivers.registry import Registry
from tests.emulators import bmc
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers
from tests.support.crashes import Moment, Scene, Stage

STEP = 1 if os.environ.get("ANY_LIFE_EXAMPLES") else 2
"""Of every second moment a conductor dies here; of each in `make life`."""
WANTED: tuple[dict[str, Any], ...] = ({"NumberOfCores": 8}, {"ProcTurboMode": "Disabled"})
STEPS = [
    {
        "interface": "bios",
        "step": "apply_configuration",
        "args": {"settings": [{"name": name, "value": str(value)}]},
    }
    for wanted in WANTED
    for name, value in wanted.items()
]


CASES = {
    "service": Scene("active", "service", {"service_steps": STEPS}, "active"),
    "clean": Scene("manageable", "clean", {"clean_steps": STEPS}, "manageable"),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is waited for longer than need be."""
    monkeypatch.setattr(bios, "_interval", lambda: 0.02)
    monkeypatch.setattr(power, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(power.RedfishPower, "first_pause", 0.01)
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    config.CONF([], default_config_files=[], default_config_dirs=[])
    yield
    config.CONF.reset()


@pytest.fixture
def stage(stages: Callable[..., Stage]) -> Stage:
    """A stage for machines with a BMC that speaks Redfish."""
    redfish = crashes.Replaced(
        drivers(),
        bios=bios.RedfishBIOS(),
        power=power.RedfishPower(),
        management=management.RedfishManagement(),
    )
    inner = cast(Registry, redfish)
    drivers_of = functools.partial(crashes.drivers, inner, more=("prepare_restart",))
    return stages(drivers_of, dead="removed")


def play(
    moment: Moment, case: Scene, machine: bmc.Machine, host: str
) -> tuple[ConductorFixture, str]:
    """Play a case on a node with this machine."""
    scene = case._replace(columns={"driver_info": dict(machine.driver_info)})
    return moment.play(scene.begin, scene.ask, host)


def patches(machine: bmc.Machine) -> list[dict[str, Any]]:
    """Return what the BMC was told to set, in order."""
    return [one.body["Attributes"] for one in machine.requests if one.method == "PATCH"]


@pytest.mark.parametrize("heir", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_machine_gets_its_settings_whenever_a_conductor_dies(
    stage: Stage, name: str, what: str, heir: str
) -> None:
    for moment in stage.moments(what, step=STEP, least=8):
        with bmc.serve() as machine:
            rig, node = play(moment, CASES[name], machine, heir)
            row = rig.get(node)
            end = (row["provision_state"], row["last_error"])
            assert end == (CASES[name].end, None), moment.number
            if rig.runs(node):
                shown = machine[machine.places.bios]["Attributes"]
                assert all(shown.items() >= wanted.items() for wanted in WANTED)
                told = patches(machine)
                assert [one for one in WANTED if one in told] == list(WANTED)
                assert len(told) <= len(WANTED) + 1
                assert rig.step_states(node) == ["done", "done"]
                assert row["driver_internal_info"].get("driver_notes") is None
            else:
                assert (moment.died, patches(machine)) == (True, [])


@pytest.fixture
def _verifies_clocks(quick: None) -> Iterator[None]:
    del quick
    config.CONF.set_override("enable_verify_bmc_clock", True, group="redfish")
    yield
    config.CONF.clear_override("enable_verify_bmc_clock", group="redfish")


@pytest.mark.usefixtures("_verifies_clocks")
@pytest.mark.parametrize("what", ["commit", "call"])
def test_wrong_clock_is_set_whenever_a_conductor_dies(stage: Stage, what: str) -> None:
    for moment in stage.moments(what, step=STEP, least=2):
        with bmc.serve() as machine:
            manager = machine[machine.places.manager]
            now = datetime.datetime.now(datetime.UTC)
            wrong = (now + datetime.timedelta(seconds=90)).isoformat()
            manager["DateTime"] = wrong
            rig, node = play(moment, Scene("enroll", "manage", {}, "manageable"), machine, "there")
            told = [one.body for one in machine.requests if one.method == "PATCH"]
            if not rig.runs(node):
                assert (moment.died, told) == (True, [])
                continue
            row = rig.get(node)
            assert (row["provision_state"], row["last_error"]) == ("manageable", None)
            assert manager["DateTime"] != wrong
            assert all(set(body) == {"DateTime"} for body in told)
            assert len(told) == 1 or moment.died


@pytest.mark.parametrize("what", ["commit", "call"])
def test_a_service_step_of_a_bmc_that_must_not_be_run_twice_is_not(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """One that waits when its conductor dies goes on; one that was just begun fails plainly."""
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    ends = set()
    for moment in stage.moments(what, first=3 if what == "commit" else 1, step=STEP):
        with bmc.serve() as machine:
            rig, node = play(moment, CASES["service"], machine, "there")
            row = rig.get(node)
            ends.add(row["provision_state"])
            told = patches(machine)
            assert all(told.count(one) <= 1 for one in told)
            if row["provision_state"] == "service failed":
                assert "must not be run twice" in row["last_error"]
    assert ends == {"active", "service failed"}
