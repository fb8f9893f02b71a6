"""Lists of steps that need no ramdisk boot none, and so have none to take away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

Json = dict[str, Any]
AROUND = ("prepare_cleaning", "tear_down_cleaning", "prepare_service", "tear_down_service")
NEEDLESS = ("bios.factory_reset", "raid.delete_configuration")


@pytest.fixture
def asked() -> list[str]:
    """What the deploy interface was asked for around the steps."""
    return []


@pytest.fixture
def rig(build: Callable[..., ConductorFixture], asked: list[str]) -> ConductorFixture:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name in AROUND:
            asked.append(name)
        return call()

    return build(registry=cast(Registry, crashes.Drivers(drivers(), around)))


def runs(rig: ConductorFixture, state: str, steps: list[Json], **told: Any) -> str:
    """Begin a clean of a manageable node, or a service of an active one."""
    node = rig.node(state, **told)
    if state == "manageable":
        rig.ask("do_node_clean", node, clean_steps=steps)
    else:
        rig.ask("do_node_service", node, service_steps=steps)
    return node


def steps_of(state: str) -> list[Json]:
    return listed(*(NEEDLESS if state == "manageable" else NEEDLESS[1:]))


STATES = ["manageable", "active"]


@pytest.mark.parametrize("state", STATES)
def test_steps_without_a_ramdisk_boot_none(
    rig: ConductorFixture, asked: list[str], state: str
) -> None:
    """An instance in service stays as it is."""
    node = runs(rig, state, steps_of(state))
    rig.reaches(node, state)
    assert rig.get(node)["last_error"] is None
    assert asked == []
    assert not [key for key in rig.get(node)["driver_internal_info"] if "ramdisk" in key]


@pytest.mark.parametrize("state", STATES)
def test_failure_without_a_ramdisk_tears_down_none(
    rig: ConductorFixture, asked: list[str], state: str
) -> None:
    fails = {"raid.delete_configuration": "no"}
    node = runs(rig, state, steps_of(state), fake_fail_steps=fails)
    rig.reaches(node, "clean failed" if state == "manageable" else "service failed")
    assert asked == []


@pytest.mark.parametrize("state", STATES)
def test_abort_without_a_ramdisk_tears_down_none(
    rig: ConductorFixture, asked: list[str], state: str
) -> None:
    steps = [*steps_of(state), {"interface": "power", "step": "hold"}]
    node = runs(rig, state, steps)
    rig.reaches(node, "clean hold" if state == "manageable" else "service hold")
    rig.act("abort", node)
    wait_for(lambda: rig.get(node)["reservation"] is None)
    assert rig.get(node)["provision_state"] in {"clean failed", "active"}
    assert asked == []
    assert not [key for key in rig.get(node)["driver_internal_info"] if "ramdisk" in key]


@pytest.mark.parametrize("ramdisk", [True, False])
def test_abort_of_a_failed_service_boots_the_instance_if_a_ramdisk_was_booted(
    rig: ConductorFixture, asked: list[str], ramdisk: bool
) -> None:
    steps = listed("deploy.unheard_of") if ramdisk else steps_of("active")
    node = runs(rig, "active", steps, fake_fail_steps={NEEDLESS[1]: "no"})
    rig.reaches(node, "service failed")
    rig.edit(node, maintenance=False, fault=None, maintenance_reason=None)
    asked.clear()
    rig.act("abort", node)
    rig.reaches(node, "active")
    assert asked == (["tear_down_service"] if ramdisk else [])
    assert not [key for key in rig.get(node)["driver_internal_info"] if "ramdisk" in key]


NEEDS = {
    "a step of the ramdisk": listed("bios.factory_reset", "deploy.erase_devices"),
    "a step that nobody knows": listed("bios.factory_reset", "deploy.unheard_of"),
    "one that waits for a heartbeat": listed("bios.factory_reset", "power.wait"),
    "none that says so": listed("power.reboot"),
}


@pytest.mark.parametrize("case", NEEDS)
def test_the_ramdisk_is_booted_for_whatever_may_need_it(
    rig: ConductorFixture, asked: list[str], case: str
) -> None:
    runs(rig, "manageable", NEEDS[case])
    wait_for(lambda: asked[:1] == ["prepare_cleaning"])


def test_a_step_that_waits_for_a_time_needs_none(rig: ConductorFixture, asked: list[str]) -> None:
    steps = [*listed("bios.factory_reset", "power.wait")]
    steps[1]["args"] = {"seconds": 0}
    node = runs(rig, "manageable", steps)
    rig.reaches(node, "manageable")
    assert asked == []
