"""Runs on machines whose BMC goes away in the middle: what passes is not noticed, the rest is said.

Each run ends in its own fail state, with the step and the reason in last_error, and nothing locked.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ironic_lite.drivers import bmc_reset
from tests.emulators import bmc
from tests.support.redfish_faults import (
    BAD_POWER,
    PASSING,
    Spoil,
    at_reset,
    nothing_held,
    repair,
    says,
)
from tests.support.redfish_service import RedfishOperator

POWER_CYCLE = [{"interface": "power", "step": name} for name in ("power_on", "power_off")]
RESET_BMC = [{"interface": "management", "step": "reset_bmc"}]


@pytest.mark.parametrize("what", PASSING)
def test_passing_bmc_fault_does_not_fail_a_run(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    node = operator.at(machine)
    at_reset(machine, "ForceOff", PASSING[what])
    shown = operator.provision(node, "clean", clean_steps=POWER_CYCLE)
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert (shown["power_state"], shown["maintenance"]) == ("power off", False)
    assert machine.sent == ["On", "ForceOff"]


@pytest.mark.parametrize("what", PASSING)
def test_a_life_goes_on_over_what_passes(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    node = operator.at(machine, "available")
    at_reset(machine, "On", PASSING[what])
    assert operator.provision(node, "active")["provision_state"] == "active"
    at_reset(machine, "ForceOff", PASSING[what])
    shown = operator.provision(node, "deleted")
    assert (shown["provision_state"], shown["last_error"]) == ("available", None)
    assert machine.sent == ["On", "ForceOff"]


@pytest.mark.parametrize("what", BAD_POWER)
def test_a_clean_ends_in_its_fail_state_and_can_be_tried_again(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    spoil, words = BAD_POWER[what]
    node = operator.at(machine)
    spoil(machine)
    shown = operator.provision(node, "clean", clean_steps=POWER_CYCLE)
    assert shown["provision_state"] == "clean failed"
    assert (shown["maintenance"], shown["fault"]) == (True, "clean failure")
    assert shown["maintenance_reason"] == shown["last_error"]
    assert nothing_held(shown)
    assert says(shown, "power.power_on", *words)
    repair(machine)
    assert operator.provision(node, "manage")["provision_state"] == "manageable"
    assert operator.api.delete(f"/v1/nodes/{node}/maintenance").status == 202
    shown = operator.provision(node, "clean", clean_steps=POWER_CYCLE)
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)


@pytest.mark.parametrize("what", BAD_POWER)
def test_a_deployment_ends_in_its_fail_state_and_can_be_tried_again(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    spoil, words = BAD_POWER[what]
    node = operator.at(machine, "available")
    spoil(machine)
    shown = operator.provision(node, "active")
    assert (shown["provision_state"], shown["target_provision_state"]) == (
        "deploy failed",
        "active",
    )
    assert shown["deploy_step"]["step"] == "boot_instance"
    assert not shown["maintenance"]
    assert nothing_held(shown)
    assert says(shown, "deploy.boot_instance", *words)
    repair(machine)
    shown = operator.provision(node, "active")
    assert (shown["provision_state"], shown["last_error"]) == ("active", None)


@pytest.mark.parametrize("what", ["breaks the BMC", "silences the BMC", "is forbidden"])
def test_a_tear_down_ends_in_error_and_can_be_tried_again(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    spoil, words = BAD_POWER[what]
    node = operator.at(machine, "active")
    spoil(machine)
    shown = operator.provision(node, "deleted")
    assert (shown["provision_state"], nothing_held(shown)) == ("error", True)
    assert says(shown, "Failed to tear down node", *words)
    repair(machine)
    shown = operator.provision(node, "deleted")
    assert (shown["provision_state"], shown["last_error"]) == ("available", None)
    assert machine[machine.system]["PowerState"] == "Off"


# -- restarting the BMC ourselves -----------------------------------------------------------------


@pytest.mark.parametrize("status", [503, 0, 401, 500])
def test_a_bmc_that_is_restarted_is_waited_for(
    operator: RedfishOperator, machine: bmc.Machine, status: int
) -> None:
    machine.habits.restart_status = status
    machine.habits.restart_requests = 15
    node = operator.at(machine)
    operator.asks(node, "clean", clean_steps=RESET_BMC)
    shown = operator.rig.reaches(node, "manageable")
    assert (shown["last_error"], shown["maintenance"]) == (None, False)
    assert "clean wait" in operator.rig.path(node)
    assert machine.silent_for == 0


def test_a_bmc_that_does_not_come_back_fails_the_clean(
    operator: RedfishOperator, machine: bmc.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bmc_reset, "SECONDS", 0.1)
    machine.habits.restart_requests = 1_000_000
    node = operator.at(machine)
    operator.asks(node, "clean", clean_steps=RESET_BMC)
    shown = operator.rig.reaches(node, "clean failed")
    assert (shown["maintenance"], shown["fault"]) == (True, "clean failure")
    assert says(operator.shows(node), "management.reset_bmc", "did not come back", "HTTP 503")


# -- the power comparison -------------------------------------------------------------------------

UNREADABLE: dict[str, tuple[Spoil, tuple[str, ...]]] = {
    what: BAD_POWER[what] for what in ("breaks the BMC", "silences the BMC", "is forbidden")
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_machine_in_use_that_falls_silent_gets_a_fault_and_recovers_by_itself(
    serve: Callable[..., RedfishOperator], machine: bmc.Machine, what: str
) -> None:
    operator = serve(conductor__power_state_sync_max_retries=1)
    spoil, words = UNREADABLE[what]
    node = operator.at(machine, "active")
    spoil(machine)
    operator.sweeps("power sync")
    assert operator.shows(node)["maintenance"] is False
    operator.sweeps("power sync")
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["fault"]) == ("active", "power failure")
    assert (shown["maintenance"], shown["power_state"], nothing_held(shown)) == (True, None, True)
    assert says(shown, "Power state could not be read 2 times in a row", *words)
    repair(machine)
    operator.sweeps("power recovery")
    shown = operator.shows(node)
    assert (shown["maintenance"], shown["fault"], shown["last_error"]) == (False, None, None)
    assert shown["power_state"] == "power on"
