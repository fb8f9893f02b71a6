"""Each step of each phase broken in turn, by the machine and by the driver's own fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed

CLEAN = ["bios.factory_reset", "raid.delete_configuration", "management.reset_bmc"]
DEPLOY = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
SERVICE = ["vendor.log_passthrough"]
AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]

# phase -> state before, endpoint, arguments, steps, fail state, its target, maintenance and fault
PHASES: dict[str, tuple[Any, ...]] = {
    "manual": (
        "manageable",
        "do_node_clean",
        {"clean_steps": listed(*CLEAN)},
        CLEAN,
        ("clean failed", "manageable", "clean failure"),
    ),
    "automated": (
        "manageable",
        "do_provisioning_action",
        {"action": "provide"},
        AUTOMATED,
        ("clean failed", "available", "clean failure"),
    ),
    "after deletion": (
        "active",
        "do_node_tear_down",
        {},
        AUTOMATED,
        ("clean failed", "available", "clean failure"),
    ),
    "deploy": ("available", "do_node_deploy", {}, DEPLOY, ("deploy failed", "active", None)),
    "rebuild": (
        "active",
        "do_node_deploy",
        {"rebuild": True},
        DEPLOY,
        ("deploy failed", "active", None),
    ),
    "service": (
        "active",
        "do_node_service",
        {"service_steps": listed(*SERVICE)},
        SERVICE,
        ("service failed", "active", "service failure"),
    ),
}
CASES = [(phase, at) for phase, facts in PHASES.items() for at in range(len(facts[3]))]


def check(rig: ConductorFixture, node: str, phase: str, at: int, said: str) -> None:
    """Check what the failure of one step leaves."""
    steps, (state, target, fault) = PHASES[phase][3:5]
    row = rig.reaches(node, state)
    assert row["target_provision_state"] == target
    assert steps[at] in row["last_error"]
    assert said in row["last_error"]
    assert row["maintenance"] == (fault is not None)
    assert row["fault"] == fault
    assert row["maintenance_reason"] == (row["last_error"] if fault else None)
    assert rig.started(node) == steps[: at + 1]
    done, later = ["done"] * at, ["skipped"] * (len(steps) - at - 1)
    assert rig.step_states(node) == [*done, "failed", *later]
    run = rig.run(node)
    assert (run["state"], run["error"]["step"]) == ("failed", steps[at])
    assert run["ended_at"] is not None
    assert (row["run_uuid"], row["wake_at"]) == (None, None)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["at once", "while waiting"])
@pytest.mark.parametrize(("phase", "at"), CASES)
def test_the_machine_may_fail_any_step(
    rig: ConductorFixture, phase: str, at: int, asynchronous: bool
) -> None:
    state, method, args, steps, _ = PHASES[phase]
    told = {"fake_fail_steps": {steps[at]: "smoke"}}
    node = rig.node(state, **told, **({"fake_async_steps": ["*"]} if asynchronous else {}))
    rig.ask(method, node, **args)
    check(rig, node, phase, at, "smoke")


@pytest.mark.parametrize(("phase", "at"), CASES)
def test_a_driver_may_raise_anything_in_any_step(
    build: Callable[..., ConductorFixture], phase: str, at: int
) -> None:
    state, method, args = PHASES[phase][:3]
    left = [at]
    powered_off = []

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name.startswith("execute_"):
            left[0] -= 1
            if left[0] < 0:
                raise ZeroDivisionError("a bug")
        if name == "set_power_state":
            powered_off.append(call.args[1])  # type: ignore[attr-defined]
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node(state)
    rig.call(method, node, **args)
    check(rig, node, phase, at, "ZeroDivisionError: a bug")
    # A failed deployment powers its machine off (tests/flows/test_power_after_failure.py).
    if phase not in ("after deletion", "deploy", "rebuild"):
        assert "power off" not in powered_off


@pytest.mark.parametrize("result", ["done", 7, object()])
def test_a_step_that_returns_nonsense_fails(
    build: Callable[..., ConductorFixture], result: object
) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return result if name == "execute_clean_step" else call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node()
    row = rig.clean(node, *CLEAN)
    assert row["provision_state"] == "clean failed"
    assert "invalid value" in row["last_error"]


def test_the_name_of_the_wait_state_reads_as_a_wait(build: Callable[..., ConductorFixture]) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return "clean wait" if name == "execute_clean_step" else call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node()
    assert rig.clean(node, *CLEAN)["provision_state"] == "clean wait"


# Lists that boot the ramdisk: no step of them says that it needs none.
ERASE = {"clean_steps": listed("deploy.erase_devices")}
SWITCH = {"service_steps": listed("power.power_on")}
# What a driver may be asked for outside its steps: verb by verb, each call broken in turn.
OUTSIDE = [
    ("enroll", "do_provisioning_action", {"action": "manage"}, "get_power_state", "enroll"),
    ("manageable", "do_provisioning_action", {"action": "adopt"}, "adopt", "adopt failed"),
    ("manageable", "inspect_hardware", {}, "inspect_hardware", "inspect failed"),
    ("manageable", "do_node_clean", ERASE, "prepare_cleaning", "clean failed"),
    ("manageable", "do_node_clean", ERASE, "tear_down_cleaning", "clean failed"),
    ("available", "do_node_deploy", {}, "prepare", "deploy failed"),
    ("active", "do_node_tear_down", {}, "tear_down", "error"),
    ("active", "do_node_rescue", {"rescue_password": "x"}, "rescue", "rescue failed"),
    ("rescue", "do_node_unrescue", {}, "unrescue", "unrescue failed"),
    ("active", "do_node_service", SWITCH, "prepare_service", "service failed"),
    ("active", "do_node_service", SWITCH, "tear_down_service", "service failed"),
]


@pytest.mark.parametrize("case", OUTSIDE, ids=lambda case: f"{case[0]}-{case[3]}")
def test_a_driver_may_raise_anything_anywhere(
    build: Callable[..., ConductorFixture], case: Any
) -> None:
    state, method, args, broken, end = case

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == broken:
            raise ZeroDivisionError("a bug")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node(state)
    row = rig.call(method, node, **args)
    assert row["provision_state"] == end
    assert "Unexpected ZeroDivisionError" in row["last_error"]
    assert rig.run(node)["state"] == "failed"
    assert row["run_uuid"] is None
