"""Dell machines in the service: conductors that die during a reset, and a whole life of a node."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite.core import config
from ironic_lite.drivers.redfish import idrac, power
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.drivers.registry import Registry
from tests.emulators import bmc
from tests.emulators.bmc import dell
from tests.support import crashes
from tests.support.conductor_fixture import drivers
from tests.support.crashes import Scene, Stage

STEP = 1 if os.environ.get("ANY_LIFE_EXAMPLES") else 2
"""Of every second moment a conductor dies here; of each in `make life`."""
KNOWN_GOOD = [{"interface": "management", "step": "known_good_state"}]
CASES = {
    "clean": Scene("manageable", "clean", {"clean_steps": KNOWN_GOOD}, "manageable"),
    "verify": Scene("enroll", "manage", {}, "manageable"),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pauses are short."""
    monkeypatch.setattr(idrac, "RECOVERY_PAUSE", 0.02)
    monkeypatch.setattr(power, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(power.RedfishPower, "first_pause", 0.01)
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("connection_retry_interval", 0, group="redfish")
    yield
    config.CONF.clear_override("connection_retry_interval", group="redfish")
    config.CONF.reset()


@pytest.fixture
def stage(stages: Callable[..., Stage]) -> Stage:
    """A stage for Dell machines, whose verification brings the known good state."""
    interfaces: Any = {"management": idrac.IdracManagement(), "power": power.RedfishPower()}
    inner = cast(Registry, crashes.Replaced(drivers(), **interfaces))
    priority = {"management.known_good_state": 90.0}
    return stages(
        functools.partial(crashes.drivers, inner),
        dead="removed",
        conductor__verify_step_priority_override=[priority],
    )


@pytest.mark.parametrize("heir", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("name", CASES)
def test_an_idrac_is_reset_once_whenever_a_conductor_dies(
    stage: Stage, name: str, what: str, heir: str
) -> None:
    for moment in stage.moments(what, step=STEP, least=4 if what == "commit" else 2):
        with bmc.serve(make="dell") as machine:
            dell.put_job(machine)
            scene = CASES[name]._replace(columns={"driver_info": dict(machine.driver_info)})
            rig, node = moment.play(scene.begin, scene.ask, heir)
            row = rig.get(node)
            if not rig.runs(node):
                assert moment.died
                continue
            assert (row["provision_state"], row["last_error"]) == (scene.end, None), moment.number
            assert machine.idrac.resets == ["Graceful"], moment.number
            assert set(machine.idrac.cleared) == {"JID_CLEARALL"}
            assert row["driver_internal_info"].get("driver_notes") is None
