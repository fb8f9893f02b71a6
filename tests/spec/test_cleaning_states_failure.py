"""S2, cleaning states: what a failed clean leaves, and what a clean under way refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ironic_lite import errors
from ironic_lite.domain import verbs
from tests.support.cleaning_fixture import (
    AUTOMATED,
    Gate,
    begun,
    enroll_waiting,
    overdue,
    ring,
    sweep,
    watched,
)
from tests.support.conductor_fixture import listed
from tests.support.operator import Json, Operator

Serve = Callable[..., Operator]
ON, OFF = "power on", "power off"
SECOND = {"fake_fail_steps": {"deploy.erase_devices": "disk on fire"}}


# -- failures --------------------------------------------------------------------------------


def automated(operator: Operator, node: str) -> str:
    """A step of an automated clean fails."""
    operator.patches(node, driver_info=SECOND)
    operator.provision(node, "provide")
    return "disk on fire"


def manual(operator: Operator, node: str) -> str:
    """A step of a manual clean fails."""
    operator.patches(node, driver_info=SECOND)
    operator.clean(node, "bios.factory_reset", "deploy.erase_devices")
    return "disk on fire"


def torn_down(operator: Operator, node: str) -> str:
    """A step fails after an instance was removed."""
    operator.provision(node, "provide")
    operator.provision(node, "active")
    operator.patches(node, driver_info=SECOND)
    operator.provision(node, "deleted")
    return "disk on fire"


def waiting(operator: Operator, node: str) -> str:
    """A step fails at the end of its wait."""
    told = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
    operator.patches(node, driver_info={**told, **SECOND})
    operator.clean(node, "deploy.erase_devices")
    ring(operator, node)
    return "disk on fire"


def silent(operator: Operator, node: str) -> str:
    """A step waits for ever."""
    told = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
    operator.patches(node, driver_info=told)
    operator.provision(node, "provide")
    overdue(operator, node)
    return "Timeout reached"


def unknown(operator: Operator, node: str) -> str:
    """The list has a step that the machine does not know: nothing runs."""
    operator.clean(node, "bios.factory_reset", "raid.no_such")
    return "raid.no_such"


def incomplete(operator: Operator, node: str) -> str:
    """The list lacks an argument: nothing runs."""
    operator.clean(node, "bios.factory_reset", "bios.apply_configuration")
    return "settings"


def refused(operator: Operator, node: str) -> str:
    """A step finds out that its argument is wrong."""
    step: Json = {**listed("bios.apply_configuration")[0], "args": {"settings": "none"}}
    operator.provision(node, "clean", clean_steps=[step])
    return "settings"


def unprepared(operator: Operator, node: str) -> str:
    """The ramdisk cannot be booted before the first step, though nothing told against it."""
    operator.patches(node, extra__unprepared=True)
    operator.provision(node, "provide")
    return "ramdisk will not come"


def stuck(operator: Operator, node: str) -> str:
    """All steps are done, and putting the ramdisk away fails."""
    operator.patches(node, extra__stuck=True)
    operator.provision(node, "provide")
    return "ramdisk will not go"


CAUSES = [
    automated,
    manual,
    torn_down,
    waiting,
    silent,
    unknown,
    incomplete,
    refused,
    unprepared,
    stuck,
]
Cause = Callable[[Operator, str], str]


@pytest.fixture
def switched(serve: Serve) -> tuple[Operator, list[str]]:
    """A service, and the power calls that its conductor makes while a node is cleaned."""
    calls: list[str] = []

    def before(kind: str, name: str) -> None:
        (row,) = operator.api.get("/v1/nodes/detail").json["nodes"]
        if name == "tear_down_cleaning" and row["extra"].get("stuck"):
            raise errors.HardwareError(reason="the ramdisk will not go")
        if name == "prepare_cleaning" and row["extra"].get("unprepared"):
            raise errors.HardwareError(reason="the ramdisk will not come")
        cleaned = row["provision_state"].startswith("clean")
        if kind == "power" and name in ("set_power_state", "reboot") and cleaned:
            calls.append(name)

    operator = serve(registry=watched(before))
    return operator, calls


@pytest.mark.parametrize("cause", CAUSES)
def test_s2_19_a_failed_clean_leaves_maintenance_and_the_reason(
    switched: tuple[Operator, list[str]], cause: Cause
) -> None:
    operator, _ = switched
    node = operator.enroll()
    said = cause(operator, node)
    row = operator.rig.reaches(node, "clean failed")
    shown = operator.shows(node)
    assert said in shown["last_error"]
    assert (shown["maintenance"], shown["fault"]) == (True, "clean failure")
    assert shown["maintenance_reason"] == shown["last_error"]
    assert (shown["clean_step"], row["run_uuid"], row["wake_at"]) == ({}, None, None)
    run = operator.rig.run(node)
    assert (run["state"], said in run["error"]["text"]) == ("failed", True)


def test_s2_19_an_abort_is_a_request_and_no_failure(operator: Operator) -> None:
    node = enroll_waiting(operator)
    operator.provision(node, "provide")
    shown = operator.provision(node, "abort")
    assert (shown["provision_state"], shown["maintenance"], shown["fault"]) == (
        "clean failed",
        False,
        None,
    )
    assert "By request" in shown["last_error"]


def power(operator: Operator, node: str, target: str) -> Json:
    """Ask for a power state, wait, and return the node."""
    answer = operator.api.put(f"/v1/nodes/{node}/states/power", {"target": target})
    assert answer.status == 202, answer.text
    operator.rig.settled(node)
    return operator.shows(node)


@pytest.mark.parametrize("cause", [one for one in CAUSES if one is not torn_down])
def test_s2_20_a_failed_clean_does_not_touch_the_power(
    switched: tuple[Operator, list[str]], cause: Cause
) -> None:
    operator, calls = switched
    node = operator.enroll()
    assert power(operator, node, ON)["power_state"] == ON
    cause(operator, node)
    operator.rig.reaches(node, "clean failed")
    sweep(operator)  # nor does anything that comes round later
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["power_state"]) == ("clean failed", ON)
    assert shown["driver_internal_info"]["driver_notes"]["fake_power_state"] == ON
    assert calls == []


def test_s2_20_nor_does_one_after_tear_down_nor_an_abort(
    switched: tuple[Operator, list[str]],
) -> None:
    operator, calls = switched
    node = operator.enroll()
    torn_down(operator, node)
    assert operator.shows(node)["provision_state"] == "clean failed"
    operator.patches(node, driver_info={"fake_async_steps": ["*"], "fake_step_seconds": 3600})
    power(operator, node, ON)
    calls.clear()
    assert operator.provision(node, "provide")["provision_state"] == "clean wait"
    shown = operator.provision(node, "abort")
    assert (shown["provision_state"], shown["power_state"]) == ("clean failed", ON)
    assert calls == []


# -- while it is cleaned ---------------------------------------------------------------------

POWERS = ("power on", "power off", "rebooting", "soft rebooting", "soft power off")
STEPS = listed("power.cycle")
BODIES: dict[str, Json] = {
    "clean": {"clean_steps": STEPS},
    "service": {"service_steps": STEPS},
    "rescue": {"rescue_password": "sesame"},
}
TARGETS = [verb.target for verb in verbs.TABLE]


def no_power(operator: Operator, node: str) -> None:
    """Check that no power state can be asked for, and that asking changes nothing."""
    before = operator.rig.get(node)
    for target in POWERS:
        answer = operator.api.put(f"/v1/nodes/{node}/states/power", {"target": target})
        assert answer.status == 400, answer.text
        assert before["provision_state"] in answer.text
    assert operator.rig.get(node) == before


def test_s2_22_power_and_verbs_are_refused_while_cleaning(serve: Serve) -> None:
    gate = Gate()
    operator = serve(registry=gate.registry(), conductor__node_locked_retry_attempts=1)
    node = operator.enroll()
    assert operator.asks(node, "provide").status == 202
    gate.wait()
    assert operator.shows(node)["provision_state"] == "cleaning"
    no_power(operator, node)
    for target in TARGETS:
        operator.refused(node, target, 409, **BODIES.get(target, {}))
    gate.opened.set()
    operator.rig.reaches(node, "available")  # and the clean has not noticed
    assert begun(operator, node) == AUTOMATED


def test_s2_22_and_while_a_step_is_waited_for(operator: Operator) -> None:
    node = enroll_waiting(operator)
    assert operator.provision(node, "provide")["provision_state"] == "clean wait"
    no_power(operator, node)
    for target in TARGETS:
        if target != "abort":  # C27: the only one
            operator.refused(node, target, 400, **BODIES.get(target, {}))
    assert operator.provision(node, "abort")["provision_state"] == "clean failed"


def test_s2_23_after_a_failed_clean_the_power_can_be_switched(operator: Operator) -> None:
    node = operator.enroll()
    automated(operator, node)
    for target, state in zip(POWERS, (ON, OFF, ON, ON, OFF), strict=True):
        shown = power(operator, node, target)
        assert (shown["power_state"], shown["target_power_state"]) == (state, None)
        assert shown["driver_internal_info"]["driver_notes"]["fake_power_state"] == state
    assert (shown["provision_state"], shown["maintenance"]) == ("clean failed", True)


def test_s2_25_the_node_is_locked_while_it_is_cleaned(serve: Serve) -> None:
    gate = Gate()
    operator = serve(registry=gate.registry(), conductor__node_locked_retry_attempts=1)
    node = operator.enroll()
    assert operator.asks(node, "provide").status == 202
    gate.wait()
    before = operator.rig.get(node)
    assert operator.shows(node)["reservation"] == "here"
    assert operator.patches(node, extra__rack="r2").status == 409
    assert operator.patches(node, retired=True).status == 409
    assert operator.api.delete(f"/v1/nodes/{node}").status == 409
    boot_device = f"/v1/nodes/{node}/management/boot_device"
    assert operator.api.put(boot_device, {"boot_device": "disk"}).status == 409
    assert operator.rig.get(node) == before
    gate.opened.set()
    operator.rig.reaches(node, "available")
    assert operator.shows(node)["reservation"] is None


def test_s2_25_one_lock_lasts_over_all_steps(serve: Serve) -> None:
    tokens: list[str] = []

    def before(_kind: str, name: str) -> None:
        if name in ("prepare_cleaning", "execute_clean_step", "tear_down_cleaning"):
            tokens.append(operator.rig.get(node)["lock_token"])

    operator = serve(registry=watched(before))
    node = operator.enroll()
    operator.clean(node, "bios.factory_reset", "power.cycle", "deploy.erase_devices")
    assert len(tokens) == 5
    assert len(set(tokens)) == 1
    assert tokens[0] is not None


def test_s2_25_waiting_node_is_not_locked(operator: Operator) -> None:
    node = enroll_waiting(operator)
    shown = operator.provision(node, "provide")
    assert (shown["provision_state"], shown["reservation"]) == ("clean wait", None)
    # C12: the lock is given back, and updates stay refused - but for retiring (C21).
    assert operator.patches(node, extra__rack="r2").status == 409
    assert operator.patches(node, retired=True).status == 200
    operator.provision(node, "abort")
    assert operator.patches(node, extra__rack="r2").status == 200
