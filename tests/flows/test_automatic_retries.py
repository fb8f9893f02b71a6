"""Retries by the service itself: after a failure that may be temporary, and a bounded number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import timers
from ironic_lite.core import clock
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

STEPS = ["bios.factory_reset", "raid.delete_configuration"]
GONE = errors.AgentUnreachable(node="n", reason="no route to host")


class Failures:
    """Drivers whose second step raises an error so many times."""

    def __init__(self, why: errors.Error, times: int) -> None:
        self.left = times
        self.registry = cast(Registry, crashes.Drivers(drivers(), self._around))
        self._why = why

    def _around(self, _kind: str, name: str, call: Callable[[], Any]) -> Any:
        second = name.startswith("execute_") and "delete_configuration" in str(call)
        if second and self.left:
            self.left -= 1
            raise self._why
        return call()


def begin(rig: ConductorFixture) -> str:
    node = rig.node("manageable")
    rig.clean(node, *STEPS)
    return node


def wake(rig: ConductorFixture, node: str) -> None:
    """Let the pause before the retry pass."""
    rig.edit(node, wake_at=clock.after(-1))


def pause(rig: ConductorFixture, node: str) -> float | None:
    """Return the seconds until the service retries the node."""
    at = rig.reaches(node, "clean failed")["wake_at"]
    return None if at is None else round((at - clock.now()).total_seconds(), -1)


def test_service_retries_after_growing_pauses_and_then_succeeds(
    build: Callable[..., ConductorFixture],
) -> None:
    failures = Failures(GONE, 2)
    rig = build(registry=failures.registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    wake(rig, node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    assert pause(rig, node) == 300
    wake(rig, node)
    row = rig.reaches(node, "manageable")
    first, second, third = rig.runs(node)
    assert [run["retry_of"] for run in (first, second, third)] == [
        None,
        first["uuid"],
        second["uuid"],
    ]
    assert {second["requester"], third["requester"]} == {"conductor:retries"}
    assert rig.started(node) == [*STEPS, STEPS[1], STEPS[1]]
    assert (row["maintenance"], row["wake_at"], row["last_error"]) == (False, None, None)
    assert "automatic_retries" not in row["driver_internal_info"]


def test_service_stops_after_the_configured_number(build: Callable[..., ConductorFixture]) -> None:
    rig = build(registry=Failures(GONE, 9).registry, conductor__automatic_retries=1)
    node = begin(rig)
    wake(rig, node)
    wait_for(lambda: len(rig.runs(node)) == 2)
    assert pause(rig, node) is None
    rig.ask("do_node_retry", node)  # an operator's retry begins a new count
    wait_for(lambda: len(rig.runs(node)) == 3)
    assert pause(rig, node) == 60


@pytest.mark.parametrize(
    ("why", "most"), [(GONE, 0), (errors.CleanStepFailed(step="s", reason="bad argument"), 3)]
)
def test_service_does_not_retry(
    build: Callable[..., ConductorFixture], why: errors.Error, most: int
) -> None:
    rig = build(registry=Failures(why, 1).registry, conductor__automatic_retries=most)
    node = begin(rig)
    assert pause(rig, node) is None


def test_refused_retry_ends_the_automatic_retries(build: Callable[..., ConductorFixture]) -> None:
    rig = build(registry=Failures(GONE, 1).registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    rig.edit(node, maintenance_reason="new disks are on their way", wake_at=clock.after(-1))
    wait_for(lambda: rig.get(node)["wake_at"] is None)
    assert len(rig.runs(node)) == 1
    assert rig.reaches(node, "clean failed")["maintenance"]


def test_verb_of_an_operator_ends_the_automatic_retries(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=Failures(GONE, 1).registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    row = rig.act("manage", node)
    assert (row["provision_state"], row["wake_at"]) == ("manageable", None)


def test_abort_is_not_retried(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__automatic_retries=3)
    node = rig.node("manageable", fake_async_steps=["*"], fake_step_seconds=3600)
    rig.call("do_node_clean", node, clean_steps=listed("deploy.erase_devices"))
    rig.ask("do_provisioning_action", node, action="abort")
    assert pause(rig, node) is None


def test_missing_interface_ends_the_automatic_retries(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=Failures(GONE, 1).registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    rig.edit(node, raid_interface="not-loaded", wake_at=clock.after(-1))
    wait_for(lambda: rig.get(node)["wake_at"] is None)
    assert len(rig.runs(node)) == 1


class Checks:
    """Drivers whose check of the power settings fails in another way, once told to."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self.begun = 0
        failing = Failures(GONE, 1).registry
        self.registry = cast(Registry, crashes.Drivers(failing, self._around, more=("validate",)))

    def _around(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        if (kind, name) == ("power", "validate"):
            self.begun += 1
            if self.raised is not None:
                raise self.raised
        return call()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let timers look for nodes, and repeat refused retries, without delay."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(timers, "_AGAIN", 0.01)


def test_fault_of_a_driver_ends_the_automatic_retries(
    build: Callable[..., ConductorFixture], quick: None
) -> None:
    checks = Checks()
    rig = build(registry=checks.registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    checks.raised = KeyError("a fault of the driver")
    wake(rig, node)
    wait_for(lambda: rig.get(node)["wake_at"] is None)
    assert len(rig.runs(node)) == 1


def test_driver_that_ends_its_thread_ends_no_timer(
    build: Callable[..., ConductorFixture], quick: None
) -> None:
    checks = Checks()
    rig = build(registry=checks.registry, conductor__automatic_retries=3)
    node = begin(rig)
    assert pause(rig, node) == 60
    checks.raised, checks.begun = SystemExit(), 0
    wake(rig, node)
    wait_for(lambda: checks.begun)
    checks.raised = None
    rig.reaches(node, "manageable")
    assert len(rig.runs(node)) == 2


def test_retry_that_meets_the_limit_is_not_repeated_each_second(
    build: Callable[..., ConductorFixture], quick: None
) -> None:
    checks = Checks()
    rig = build(
        registry=checks.registry,
        conductor__automatic_retries=3,
        conductor__max_concurrent_clean=1,
    )
    node = begin(rig)
    assert pause(rig, node) == 60
    other = rig.node("manageable", fake_async_steps=["*"], fake_step_seconds=0.5)
    rig.ask("do_node_clean", other, clean_steps=listed("bios.factory_reset"))
    checks.begun = 0
    wake(rig, node)
    rig.reaches(other, "manageable")
    assert checks.begun <= 2, "of the other clean, and of the retry"
    assert rig.settled(node)["provision_state"] == "clean failed"


def test_check_of_a_retry_that_hangs_stops_no_timer_and_is_given_up(
    build: Callable[..., ConductorFixture], quick: None
) -> None:
    failing, opened, caught = Failures(GONE, 1).registry, threading.Event(), threading.Event()
    trapped = set[str]()

    def around(kind: str, name: str, call: Any) -> Any:
        if (kind, name) == ("power", "validate") and call.args[0].node.uuid in trapped:
            caught.set()
            opened.wait(60)
        return call()

    registry = cast(Registry, crashes.Drivers(failing, around, more=("validate",)))
    rig = build(registry=registry, conductor__automatic_retries=3, conductor__work_timeout=1)
    node = begin(rig)
    assert pause(rig, node) == 60
    trapped.add(node)
    wake(rig, node)
    assert caught.wait(10)
    other = rig.node("manageable", fake_async_steps=["*"], fake_step_seconds=0.1)
    rig.clean(other, "bios.factory_reset")
    rig.reaches(other, "manageable")
    row = wait_for(lambda: (found := rig.get(node))["wake_at"] is None and found)
    assert "[conductor]work_timeout" in row["last_error"]
    row = rig.settled(node)
    opened.set()
    assert rig.service.runtime.workers.wait_idle(10)
    assert (row["provision_state"], len(rig.runs(node))) == ("clean failed", 1)
    assert rig.get(node) == row


@pytest.mark.parametrize("field", ["owner", "lessee"])
def test_run_of_former_users_is_not_retried(
    build: Callable[..., ConductorFixture], field: str
) -> None:
    """The node may change hands while its run waits, and then the run fails."""
    rig = build(registry=Failures(GONE, 1).registry, conductor__automatic_retries=3)
    node = rig.node("manageable", **{field: "p-old"})
    rig.clean(node, *STEPS)
    assert pause(rig, node) == 60
    rig.edit(node, **{field: "p-new"}, wake_at=clock.after(-1))
    wait_for(lambda: rig.get(node)["wake_at"] is None)
    assert len(rig.runs(node)) == 1
    assert rig.reaches(node, "clean failed")


def test_cleaning_of_a_deletion_that_ends_the_lease_is_retried(
    build: Callable[..., ConductorFixture],
) -> None:
    left = [GONE]

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name.startswith("execute_clean") and left:
            raise left.pop()
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    rig = build(registry=registry, conductor__automatic_retries=3)
    node = rig.node("available", owner="p-owner", instance_info={"project_id": "p-nova"})
    rig.ask("do_node_deploy", node)
    rig.reaches(node, "active")
    rig.ask("do_node_tear_down", node)
    assert pause(rig, node) == 60
    assert rig.get(node)["lessee"] is None
    wake(rig, node)
    rig.reaches(node, "available")
    assert [run["verb"] for run in rig.runs(node)] == ["active", "deleted", "deleted"]
