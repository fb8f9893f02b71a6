"""A conductor starts again without an interface that nodes have: they are told, and not lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import orphans, power_sync, timeouts
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import conductor_fixture
from tests.support.conductor_fixture import ConductorFixture

GONE = "retro"
WAY = "To use retro, add it to [DEFAULT]enabled_deploy_interfaces and restart the conductor."

Build = Callable[..., ConductorFixture]


def lease(rig: ConductorFixture, node: str, *, seconds: float) -> None:
    """Let a node seem to be held by an earlier life of this conductor."""

    def write(conn: Any) -> bool:
        expires = clock.after(seconds)
        return nodes.lock(conn, uuid=node, host="here", token="t" * 36, expires=expires, steal=None)

    assert rig.database.write(write)


@pytest.mark.parametrize("kind", base.KINDS)
def test_at_rest_it_keeps_the_name_and_verbs_are_refused(rig: ConductorFixture, kind: str) -> None:
    node = rig.node("manageable", **{f"{kind}_interface": GONE})
    before = rig.get(node)
    for ask in (
        lambda: rig.ask("do_provisioning_action", node, action="provide"),
        lambda: rig.ask("change_node_power_state", node, target="power on"),
        lambda: rig.endpoints.validate_driver_interfaces(rig.who, node_uuid=node),
        lambda: rig.ask("destroy_node", node),
    ):
        with pytest.raises(errors.InterfaceNotFound) as refusal:
            ask()
        assert f"[DEFAULT]enabled_{kind}_interfaces" in refusal.value.message
    assert rig.get(node) == {**before, "generation": rig.get(node)["generation"]}
    assert rig.get(node)["reservation"] is None


def test_named_anew_it_works_again(rig: ConductorFixture) -> None:
    node = rig.node("manageable", deploy_interface=GONE)
    rig.edit(node, deploy_interface="fake")
    assert rig.act("provide", node)["provision_state"] == "available"


BUSY = {
    "cleaning": "clean failed",
    "deploying": "deploy failed",
    "deleting": "error",
    "inspecting": "inspect failed",
    "rescuing": "rescue failed",
    "unrescuing": "unrescue failed",
    "servicing": "service failed",
    "verifying": "enroll",
    "adopting": "adopt failed",
}


@pytest.mark.parametrize(("state", "end"), BUSY.items(), ids=BUSY)
def test_in_the_middle_of_something_it_fails_and_says_why(
    build: Build, sqlite_database: Database, state: str, end: str
) -> None:
    before = build()
    everything = {f"{kind}_interface": GONE for kind in base.KINDS}
    node = before.node(state, target_provision_state="available", **everything)
    lease(before, node, seconds=60)
    after = build(sqlite_database)
    ended = after.reaches(node, end)
    assert GONE in ended["last_error"]
    assert "Valid interfaces are" in ended["last_error"]
    assert ended["reservation"] is None


def test_a_lock_of_an_earlier_life_does_not_outlive_its_interface(
    build: Build, sqlite_database: Database
) -> None:
    before = build()
    node = before.node("manageable", deploy_interface=GONE, target_power_state="power on")
    lease(before, node, seconds=60)
    after = build(sqlite_database)
    found = conductor_fixture.wait_for(lambda: (row := after.settled(node))["last_error"] and row)
    assert found["target_power_state"] is None
    after.edit(node, deploy_interface="fake")


def test_a_hardware_type_that_is_gone_ends_as_its_interfaces_do(
    build: Build, sqlite_database: Database
) -> None:
    before = build()
    node = before.node("cleaning", target_provision_state="available", driver="steam-engine")
    lease(before, node, seconds=60)
    ended = build(sqlite_database).reaches(node, "clean failed")
    assert "steam-engine" in ended["last_error"]


def test_a_timer_that_rings_ends_the_wait(rig: ConductorFixture) -> None:
    node = rig.node(
        "clean wait", target_provision_state="available", deploy_interface=GONE, wake_at=clock.now()
    )
    rig.service.timers.set(node, clock.now())
    ended = rig.reaches(node, "clean failed")
    assert WAY in ended["last_error"]
    assert (
        "Also, tearing down cleaning failed: This conductor lacks its deploy interface."
        in (ended["last_error"])
    )
    assert (ended["maintenance"], ended["fault"]) == (True, "clean failure")


def test_a_wait_that_takes_too_long_ends(build: Build) -> None:
    rig = build(conductor__clean_callback_timeout=1)
    node = rig.node(
        "clean wait",
        target_provision_state="available",
        deploy_interface=GONE,
        provision_updated_at=clock.after(-60),
    )
    timeouts.Timeouts(rig.tasks, rig.service.ownership).sweep()
    assert "Timeout reached" in rig.reaches(node, "clean failed")["last_error"]


def test_no_sweep_stumbles_over_it(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    rig = build(conductor__force_power_state_during_sync=False)
    gone = rig.node("available", power_interface=GONE, power_state="power off")
    there = rig.node("available", power_state="power on", driver_info={})
    power = power_sync.PowerSync(rig.tasks, rig.service.ownership)
    power.sweep()
    assert power.settle(30)  # on a slow machine, what was slow is compared apart
    orphans.Orphans(rig.tasks, rig.service.ownership).sweep()
    assert rig.get(there)["power_state"] == "power off"
    assert rig.get(gone)["maintenance"] is False
    assert not [record for record in caplog.records if record.exc_info]


def test_incomplete_driver_refuses_only_calls_of_missing_interfaces() -> None:
    settings = dataclasses.replace(
        Settings.read(conductor_fixture.configure()), hardware_types=["fake-hardware"]
    )
    found = Registry.load(settings)
    whole = found.driver_for("fake-hardware", {})
    left = found.remains("fake-hardware", {"deploy": GONE})
    for kind in set(base.KINDS) - {"deploy"}:
        assert left.interface(kind) is whole.interface(kind)
    with pytest.raises(errors.InterfaceNotFound, match="lacks its deploy interface"):
        left.deploy.clean_up(None)  # type: ignore[arg-type]  # it refuses before it looks
