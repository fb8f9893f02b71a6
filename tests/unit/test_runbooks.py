"""Which nodes a runbook is for, before and since it has traits, and the order of its steps."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.domain import runbooks

BOOK = {"uuid": "u", "name": "CUSTOM_A", "traits": ["CUSTOM_B", "CUSTOM_C"]}


@pytest.mark.parametrize(
    ("traits", "version", "said"),
    [
        (["CUSTOM_A"], 111, None),
        (["CUSTOM_B"], 111, "none of the traits CUSTOM_A"),
        (["CUSTOM_C", "X"], 112, None),
        (["CUSTOM_A"], 112, "none of the traits CUSTOM_B, CUSTOM_C"),
        ([], 112, "none of the traits"),
    ],
    ids=["name", "no name", "trait", "name no more", "none"],
)
def test_node_and_runbook_have_a_trait_in_common(
    traits: list[str], version: int, said: str | None
) -> None:
    if said is None:
        runbooks.check(BOOK, "n", traits, version)
        return
    with pytest.raises(errors.InvalidParameter, match=said):
        runbooks.check(BOOK, "n", traits, version)


def test_a_runbook_without_traits_is_for_nobody() -> None:
    with pytest.raises(errors.InvalidParameter, match="has no traits"):
        runbooks.check({**BOOK, "traits": None}, "n", ["CUSTOM_A"], 112)


def test_steps_go_by_their_order_and_equals_as_listed() -> None:
    listed = [{"step": name, "order": order} for name, order in (("c", 2), ("a", 0), ("d", 2))]
    assert [step["step"] for step in runbooks.steps({"steps": listed})] == ["a", "c", "d"]
