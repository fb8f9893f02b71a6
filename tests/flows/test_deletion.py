"""A node can be forgotten when it is at rest, and never while it serves somebody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ironic_lite import errors
from ironic_lite.db.queries import nodes
from ironic_lite.domain import states
from ironic_lite.domain.states import Kind, State
from tests.support.conductor_fixture import ConductorFixture

AT_REST = frozenset({"enroll", "manageable", "available", "adopt failed"})
UNLOCKED = [state for state in State if states.kind(state) is not Kind.BUSY]
INSTANCE = "5d1c2f8e-8a2e-4f6b-9a55-0c6f6a3a7c01"


def refusal(rig: ConductorFixture, node: str) -> str | None:
    """Ask for the node's deletion; return why it is refused, None if it is gone."""
    try:
        rig.ask("destroy_node", node)
    except errors.Conflict as why:
        assert rig.get(node)["reservation"] is None
        return why.message
    with pytest.raises(errors.NodeNotFound):
        rig.database.read(lambda conn: nodes.get(conn, node))
    return None


@pytest.mark.parametrize("state", UNLOCKED, ids=str)
def test_a_node_is_forgotten_in_the_states_in_which_it_rests(
    rig: ConductorFixture, state: State
) -> None:
    said = refusal(rig, rig.node(state.value))
    if state.value in AT_REST:
        assert said is None
    else:
        named = "only in adopt failed, available, enroll, manageable or maintenance"
        assert f'it is in state "{state}"; {named} can it be deleted' in str(said)


@pytest.mark.parametrize("state", ["active", "error", "clean failed", "deploy failed"])
def test_a_node_in_maintenance_is_forgotten_in_every_state(
    rig: ConductorFixture, state: str
) -> None:
    assert refusal(rig, rig.node(state, maintenance=True, instance_uuid=INSTANCE)) is None


def test_a_node_of_an_instance_is_not_forgotten(rig: ConductorFixture) -> None:
    said = refusal(rig, rig.node("manageable", instance_uuid=INSTANCE))
    assert f"associated with instance {INSTANCE}" in str(said)


def test_an_option_spares_what_schedulers_may_be_about_to_take(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__allow_deleting_available_nodes=False)
    said = refusal(rig, rig.node("available"))
    assert "only in adopt failed, enroll, manageable or maintenance" in str(said)
    assert refusal(rig, rig.node("manageable")) is None
    assert refusal(rig, rig.node("available", maintenance=True)) is None
