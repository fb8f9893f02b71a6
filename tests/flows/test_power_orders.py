"""The time of the last power change that an operator ordered, in driver_internal_info."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.core import clock
from tests.support.conductor_fixture import ConductorFixture

NOTE = "last_power_state_change"


def changed_at(row: dict[str, Any]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(row["driver_internal_info"][NOTE])


@pytest.mark.parametrize(
    ("target", "before"),
    [
        ("power on", "power off"),
        ("power off", "power on"),
        ("rebooting", "power on"),
        ("soft power off", "power on"),
        ("soft rebooting", "power on"),
    ],
)
def test_power_change_notes_its_time(rig: ConductorFixture, target: str, before: str) -> None:
    node = rig.node("active", power_state=before)
    begun = clock.now()
    row = rig.call("change_node_power_state", node, target=target)
    assert row["last_error"] is None
    assert begun <= changed_at(row) <= clock.now()


def test_each_power_change_notes_a_later_time(rig: ConductorFixture) -> None:
    node = rig.node("active", power_state="power off")
    first = changed_at(rig.call("change_node_power_state", node, target="power on"))
    assert changed_at(rig.call("change_node_power_state", node, target="power off")) > first


def test_power_change_that_fails_leaves_the_time(rig: ConductorFixture) -> None:
    then = "2026-01-02T03:04:05"
    node = rig.node(
        "active", power_state="power on", fake_fail_power="dark", driver_internal_info={NOTE: then}
    )
    row = rig.call("change_node_power_state", node, target="power off")
    assert "dark" in row["last_error"]
    assert row["driver_internal_info"][NOTE] == then
