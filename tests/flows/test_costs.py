"""What a flow costs the database: statements counted, so that none creeps in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conductor_fixture import ConductorFixture, listed
from tests.support.statements import Statements, count_statements

FIRST, EACH = 12, 3


@pytest.fixture(autouse=True)
def no_timers(rig: ConductorFixture) -> None:
    """Stop the timers, whose own statements would be counted at times."""
    rig.service.timers.stop()


def cleaned(rig: ConductorFixture, steps: int) -> Statements:
    """Return the conductor's statements of a manual clean with steps that do nothing."""
    node = rig.node()
    with count_statements(rig.database) as sent:
        rig.ask("do_node_clean", node, clean_steps=listed(*["management.reset_bmc"] * steps))
        assert rig.service.runtime.workers.wait_idle(10)
    assert rig.get(node)["provision_state"] == "manageable"
    return sent


def test_a_manual_clean_with_one_step(rig: ConductorFixture) -> None:
    sent = cleaned(rig, 1)
    assert len(sent) <= FIRST, str(sent)


@pytest.mark.parametrize("steps", [2, 10])
def test_each_further_step(rig: ConductorFixture, steps: int) -> None:
    one, more = cleaned(rig, 1), cleaned(rig, steps)
    assert len(more) - len(one) <= EACH * (steps - 1), str(more)


@pytest.mark.parametrize(
    ("state", "method", "arguments", "most"),
    [
        ("enroll", "do_provisioning_action", {"action": "manage"}, 11),
        ("manageable", "do_provisioning_action", {"action": "provide"}, 20),
        ("available", "do_node_deploy", {}, 18),
        ("active", "do_node_tear_down", {}, 25),
        ("available", "destroy_node", {}, 6),
    ],
)
def test_a_verb_without_arguments(
    rig: ConductorFixture, state: str, method: str, arguments: dict[str, Any], most: int
) -> None:
    node = rig.node(state)
    with count_statements(rig.database) as sent:
        rig.ask(method, node, **arguments)
        assert rig.service.runtime.workers.wait_idle(10)
    assert len(sent) <= most, str(sent)
