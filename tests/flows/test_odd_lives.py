"""What random lives (``test_any_life``) have found, told one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conductor_fixture import ConductorFixture, listed


@pytest.mark.parametrize("state", ["error", "clean failed", "deploy failed"])
def test_a_power_change_leaves_the_reason_of_a_failure(rig: ConductorFixture, state: str) -> None:
    node = rig.node(state, last_error="The disk burns.")
    row = rig.call("change_node_power_state", node, target="power on")
    assert (row["power_state"], row["last_error"]) == ("power on", "The disk burns.")


def test_a_power_change_of_a_sound_node_forgets_what_was(rig: ConductorFixture) -> None:
    node = rig.node("manageable", last_error="The disk burnt.")
    assert rig.call("change_node_power_state", node, target="power on")["last_error"] is None


WAIT: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "deploy": (
        *("available", "do_node_deploy"),
        [{"interface": "power", "step": "wait", "args": {}, "priority": 50}],
    ),
    "service": ("active", "do_node_service", listed("power.wait")),
}


@pytest.mark.parametrize("kind", WAIT)
def test_a_failed_deletion_shows_no_step_of_what_it_ended(rig: ConductorFixture, kind: str) -> None:
    before, method, steps = WAIT[kind]
    node = rig.node(before, fake_fail_verbs={"delete": "no"})
    row = rig.call(method, node, **{f"{kind}_steps": steps})
    assert row[f"{kind}_step"]["step"] == "wait"
    for state in (
        rig.call("do_node_tear_down", node),
        rig.call("do_node_deploy", node, rebuild=True),
    ):
        assert not state[f"{kind}_step"]
        assert f"{kind}_step_index" not in state["driver_internal_info"]
        assert not state["driver_internal_info"].get(f"{kind}_steps")
    assert rig.path(node)[-3:] == ["error", "deploying", "active"]
