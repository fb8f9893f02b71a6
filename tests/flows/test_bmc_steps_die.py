"""Conductors that die around steps of a BMC: settings that a machine takes up when it boots."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pytest

from ironic_lite.conductor.steps import stepper
from ironic_lite.conductor.watch import timers
from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers import base, power_switching
from ironic_lite.drivers.redfish import bios, management, power
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.drivers.registry import Registry
from tests.emulators import bmc
from tests.flows.test_agents_die import at_rest, forget
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)
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


class Case(NamedTuple):
    """State before, endpoint, its arguments, and how it ends."""

    before: str
    method: str
    args: dict[str, Any]
    end: str


CASES = {
    "service": Case("active", "do_node_service", {"service_steps": STEPS}, "active"),
    "clean": Case("manageable", "do_node_clean", {"clean_steps": STEPS}, "manageable"),
}


class Drivers:
    """The drivers of nodes whose machines have a BMC that speaks Redfish."""

    def __init__(self, inner: Registry) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def driver_for(self, *args: Any) -> base.Driver:
        return dataclasses.replace(
            self._inner.driver_for(*args),
            bios=bios.RedfishBIOS(),
            power=power.RedfishPower(),
            management=management.RedfishManagement(),
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is waited for longer than need be."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(bios, "_interval", lambda: 0.02)
    monkeypatch.setattr(power_switching, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(connection, "LINKS", connection.Links())
    config.CONF([], default_config_files=[], default_config_dirs=[])
    yield
    config.CONF.reset()


class Stage:
    """Where conductors called ``here`` die; they, or others, come after."""

    def __init__(self, build: Callable[..., ConductorFixture], database: Database) -> None:
        self._build, self._database = build, database

    def start(self, life: crashes.Life, host: str = "here") -> ConductorFixture:
        if host != "here":
            self._database.write(forget)
        inner = cast(Registry, Drivers(drivers()))
        registry = crashes.drivers(inner, life, more=("prepare_restart",))
        rig = self._build(
            crashes.database(self._database, life), registry=registry, DEFAULT__host=host
        )
        rig.database = self._database
        if host != "here":
            rig.service.orphans.sweep()
        return rig

    def die(
        self, case: Case, machine: bmc.Machine, what: str, n: int, *, heir: str
    ) -> tuple[ConductorFixture, str, bool]:
        """Play the case with a conductor that dies at the n-th; whether it did comes last."""
        life = crashes.Life()
        rig = self.start(life)
        node = rig.node(case.before, driver_info=dict(machine.driver_info))
        life.arm(**{what: n})
        with contextlib.suppress(crashes.Died):
            rig.ask(case.method, node, **case.args)
        wait_for(lambda: life.dead or at_rest(rig, node), lambda: rig.about(node))
        if not life.dead:
            life.disarm()
            return rig, node, False
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(5)
        again = self.start(crashes.Life(), heir)
        wait_for(lambda: at_rest(again, node), lambda: again.about(node))
        return again, node, True


@pytest.fixture
def stage(build: Callable[..., ConductorFixture], sqlite_database: Database) -> Stage:
    return Stage(build, sqlite_database)


def patches(machine: bmc.Machine) -> list[dict[str, Any]]:
    """Return what the BMC was told to set, in order."""
    return [one.body["Attributes"] for one in machine.requests if one.method == "PATCH"]


@pytest.mark.parametrize("heir", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_machine_gets_its_settings_whenever_a_conductor_dies(
    stage: Stage, name: str, what: str, heir: str
) -> None:
    case, deaths = CASES[name], 0
    for n in itertools.count(1, STEP):
        with bmc.serve() as machine:
            rig, node, died = stage.die(case, machine, what, n, heir=heir)
            row = rig.get(node)
            assert (row["provision_state"], row["last_error"]) == (case.end, None), n
            if rig.runs(node):
                shown = machine[machine.places.bios]["Attributes"]
                assert all(shown.items() >= wanted.items() for wanted in WANTED)
                told = patches(machine)
                assert [one for one in WANTED if one in told] == list(WANTED)
                assert len(told) <= len(WANTED) + 1
                assert rig.step_states(node) == ["done", "done"]
                assert row["driver_internal_info"].get("driver_notes") is None
            else:
                assert (died, patches(machine)) == (True, [])
            rig.bury()
        if not died:
            break
        deaths += 1
    assert deaths * STEP >= 8


@pytest.mark.parametrize("what", ["commit", "call"])
def test_a_service_step_of_a_bmc_that_must_not_be_run_twice_is_not(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """One that waits when its conductor dies goes on; one that was just begun fails plainly."""
    monkeypatch.setattr(stepper, "rerunnable", lambda *_: False)
    case, ends = CASES["service"], set()
    for n in itertools.count(2 if what == "commit" else 1, STEP):
        with bmc.serve() as machine:
            rig, node, died = stage.die(case, machine, what, n, heir="there")
            row = rig.get(node)
            ends.add(row["provision_state"])
            told = patches(machine)
            assert all(told.count(one) <= 1 for one in told)
            if row["provision_state"] == "service failed":
                assert "must not be run twice" in row["last_error"]
            rig.bury()
        if not died:
            break
    assert ends == {"active", "service failed"}
