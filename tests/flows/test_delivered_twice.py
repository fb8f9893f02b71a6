"""A broker may deliver a message a second time: the verb in it is carried out once."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.context import Context
from tests.flows.rig import Rig

CLEAN: dict[str, Any] = {"clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
VERBS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("manageable", "do_node_clean", CLEAN, "manageable"),
    ("active", "do_node_deploy", {"rebuild": True}, "active"),
    ("manageable", "inspect_hardware", {}, "manageable"),
)
"""State before, method, arguments, state after: those in which the verb could start once more."""


@pytest.mark.parametrize(("state", "method", "args", "after"), VERBS, ids=str)
def test_a_message_that_comes_again_is_refused_when_its_run_is_over(
    rig: Rig, state: str, method: str, args: dict[str, Any], after: str
) -> None:
    node, who = rig.node(state), Context("req-1", user="tester")
    act = getattr(rig.endpoints, method)
    act(who, node_uuid=node, **args)
    done = rig.settled(node)
    assert done["provision_state"] == after
    (run,) = rig.runs(node)
    with pytest.raises(errors.Conflict) as caught:
        act(who, node_uuid=node, **args)
    assert run["uuid"] in caught.value.message
    assert "req-1" in caught.value.message
    row = rig.settled(node)
    assert (row["provision_state"], row["last_error"]) == (after, None)
    assert row["lock_token"] is None
    assert row["generation"] == done["generation"]
    assert len(rig.runs(node)) == 1


def test_another_request_is_another_message(rig: Rig) -> None:
    node = rig.node("manageable")
    for request in ("req-1", "req-2"):
        rig.endpoints.do_node_clean(Context(request), node_uuid=node, **CLEAN)
        rig.settled(node)
    assert len(rig.runs(node)) == 2


def test_one_request_may_have_a_run_on_each_of_several_nodes(rig: Rig) -> None:
    who = Context("req-1")
    for node in (rig.node("manageable"), rig.node("manageable")):
        rig.endpoints.do_node_clean(who, node_uuid=node, **CLEAN)
        rig.settled(node)
        assert len(rig.runs(node)) == 1
