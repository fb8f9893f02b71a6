"""What becomes of a machine's power when its clean, deployment or service has failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.conductor_fixture import ConductorFixture, listed

ON: dict[str, Any] = {"power_state": "power on"}
STEPS = {
    "clean": "deploy.erase_devices",
    "deploy": "deploy.write_image",
    "service": "bios.factory_reset",
}
PHASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "clean": ("manageable", "do_node_clean", {"clean_steps": listed(STEPS["clean"])}),
    "deploy": ("available", "do_node_deploy", {}),
    "service": ("active", "do_node_service", {"service_steps": listed(STEPS["service"])}),
}
OPTIONS = {
    "clean": "conductor__poweroff_in_cleanfail",
    "deploy": "deploy__power_off_after_deploy_failure",
    "service": "conductor__poweroff_in_servicefail",
}


def failed(rig: ConductorFixture, phase: str, **more: Any) -> dict[str, Any]:
    state, method, args = PHASES[phase]
    node = rig.node(state, fake_fail_steps={STEPS[phase]: "smoke"}, **{**ON, **more})
    return rig.call(method, node, **args)


@pytest.mark.parametrize(
    ("phase", "power"), [("clean", "on"), ("deploy", "off"), ("service", "on")]
)
def test_only_a_failed_deployment_powers_off_unless_told_otherwise(
    rig: ConductorFixture, phase: str, power: str
) -> None:
    row = failed(rig, phase)
    assert (row["provision_state"], row["power_state"]) == (f"{phase} failed", f"power {power}")
    assert "smoke" in row["last_error"]


@pytest.mark.parametrize(("phase", "off"), [("clean", True), ("deploy", False), ("service", True)])
def test_an_option_says_otherwise(
    build: Callable[..., ConductorFixture], phase: str, off: bool
) -> None:
    row = failed(build(**{OPTIONS[phase]: off}), phase)
    assert row["provision_state"] == f"{phase} failed"
    assert row["power_state"] == ("power off" if off else "power on")


@pytest.mark.parametrize("phase", PHASES)
def test_machine_stays_on_after_a_failed_step_that_writes_firmware(
    build: Callable[..., ConductorFixture], phase: str
) -> None:
    rig = build(**{OPTIONS[phase]: True})
    state, method, _ = PHASES[phase]
    (step,) = listed("firmware.update")
    step["args"] = {"settings": [{"component": "bios", "url": "http://any/bios.bin"}]}
    step |= {"priority": 150} if phase == "deploy" else {}
    node = rig.node(state, fake_fail_steps={"firmware.update": "smoke"}, **ON)
    row = rig.call(method, node, **{f"{phase}_steps": [step]})
    assert (row["provision_state"], row["power_state"]) == (f"{phase} failed", "power on")


def test_a_machine_that_must_never_be_off_stays_on(rig: ConductorFixture) -> None:
    assert failed(rig, "deploy", disable_power_off=True)["power_state"] == "power on"


def test_an_aborted_deployment_powers_off_too(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_async_steps=["*"], fake_step_seconds=3600, **ON)
    rig.call("do_node_deploy", node)
    row = rig.act("abort", node)
    assert (row["provision_state"], row["power_state"]) == ("deploy failed", "power off")
    assert row["last_error"] == "By request, the deploy operation was aborted."


def test_power_that_cannot_be_switched_off_is_told_besides_the_failure(
    rig: ConductorFixture,
) -> None:
    row = failed(rig, "deploy", fake_fail_power="stuck")
    assert row["provision_state"] == "deploy failed"
    assert "smoke" in row["last_error"]
    assert "Also, switching the machine off failed" in row["last_error"]
