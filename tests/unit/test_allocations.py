"""The order in which an allocation tries nodes, and the words about none, as tables."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import allocations
from ironic_lite.domain.allocations import NodeOffer, Tally

UUID = "11111111-2222-4333-8444-555555555555"
NODE = "22222222-2222-4333-8444-555555555555"
WANTED: dict[str, Any] = {
    "uuid": UUID,
    "name": None,
    "resource_class": "big",
    "traits": [],
    "candidate_nodes": [],
    "owner": None,
}


def offer(uuid: str, traits: int = 0, name: str | None = None) -> NodeOffer:
    return NodeOffer(uuid, name, 1, False, traits)


def order(offers: list[NodeOffer], name: str | None = None, seed: int = 1) -> list[str]:
    return [one.uuid for one in allocations.order(offers, name, random.Random(seed))]


def test_a_node_of_the_same_name_comes_first_then_the_plainest() -> None:
    offers = [offer("special", 3), offer("plain"), offer("named", 9, "web-1"), offer("some", 1)]
    assert order(offers, "web-1") == ["named", "plain", "some", "special"]
    assert order(offers) == ["plain", "some", "special", "named"]


def test_equals_are_shuffled_and_nobody_is_lost() -> None:
    offers = [offer(str(n)) for n in range(10)]
    tried = {tuple(order(offers, seed=seed)) for seed in range(20)}
    assert len(tried) == 20
    assert {one[0] for one in tried} > {"0"}
    assert all(sorted(one) == [str(n) for n in range(10)] for one in tried)


@pytest.mark.parametrize(
    ("wanted", "left", "said"),
    [
        ({}, Tally(0, 0, 0, 0), "no node has the resource class big"),
        (
            {"candidate_nodes": [NODE]},
            Tally(7, 0, 0, 0),
            "of the 7 nodes that have the resource class big, none is a candidate",
        ),
        ({"owner": "me"}, Tally(7, 0, 0, 0), "none is owned by or leased to me"),
        ({}, Tally(7, 7, 0, 0), "no available nodes match the resource class big: of 7, each is"),
        (
            {"traits": ["CUSTOM_A", "CUSTOM_B"]},
            Tally(7, 7, 3, 0),
            "none of the 3 available nodes with the resource class big has all the traits "
            "CUSTOM_A, CUSTOM_B",
        ),
    ],
    ids=["class", "candidates", "owner", "free", "traits"],
)
def test_error_names_the_condition_that_left_no_node(wanted: Any, left: Tally, said: str) -> None:
    text = allocations.why_none({**WANTED, **wanted}, left)
    assert text.startswith(f"Failed to process allocation {UUID}: ")
    assert said in text


def test_a_node_gets_and_loses_what_an_allocation_brings() -> None:
    node = {"instance_info": {"image_source": "x", "traits": ["OLD"]}}
    taken = allocations.taken(node, {**WANTED, "traits": ["CUSTOM_A"]})
    assert taken == {
        "instance_uuid": UUID,
        "allocation_uuid": UUID,
        "instance_info": {"image_source": "x", "traits": ["CUSTOM_A"]},
    }
    assert allocations.taken({"instance_info": None}, WANTED)["instance_info"] == {"traits": []}
    assert allocations.freed(taken) == {
        "instance_uuid": None,
        "allocation_uuid": None,
        "instance_info": {"image_source": "x"},
    }


@pytest.mark.parametrize(
    ("state", "target", "maintenance", "removable"),
    [
        ("available", None, False, True),
        ("active", None, False, False),
        ("active", None, True, True),
        ("wait call-back", "active", False, False),
        ("wait call-back", "active", True, True),
        ("deploy failed", "active", False, True),
        ("error", None, False, True),
        ("manageable", None, False, True),
    ],
    ids=str,
)
def test_an_allocation_goes_only_when_its_node_does_not_need_it(
    state: str, target: str | None, maintenance: bool, removable: bool
) -> None:
    node = {
        "uuid": NODE,
        "provision_state": state,
        "target_provision_state": target,
        "maintenance": maintenance,
    }
    if removable:
        allocations.check_removable(node)
    else:
        with pytest.raises(errors.Conflict, match=state):
            allocations.check_removable(node)


FILLED: dict[str, Any] = {
    "uuid": NODE,
    "provision_state": "active",
    "resource_class": "big",
    "instance_uuid": None,
    "allocation_uuid": None,
    "traits": ["CUSTOM_A", "CUSTOM_B"],
}


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ({}, {}),
        ({"instance_uuid": UUID}, {}),
        ({}, {"traits": ["CUSTOM_A"]}),
        ({}, {"candidate_nodes": [NODE]}),
    ],
    ids=["plain", "of that instance", "traits", "candidate"],
)
def test_a_node_in_use_may_get_its_allocation_later(node: Any, wanted: Any) -> None:
    allocations.check_backfill({**FILLED, **node}, {**WANTED, **wanted})


@pytest.mark.parametrize(
    ("node", "wanted", "error", "said"),
    [
        ({"provision_state": "available"}, {}, errors.InvalidParameter, "must be active"),
        ({"resource_class": "small"}, {}, errors.InvalidParameter, "resource class is small"),
        ({}, {"traits": ["CUSTOM_C"]}, errors.InvalidParameter, "CUSTOM_C"),
        ({}, {"candidate_nodes": [UUID]}, errors.InvalidParameter, "candidate"),
        ({"instance_uuid": NODE}, {}, errors.Conflict, NODE),
        ({"instance_uuid": UUID, "allocation_uuid": UUID}, {}, errors.Conflict, UUID),
    ],
    ids=["state", "class", "traits", "candidates", "other instance", "allocated"],
)
def test_a_node_that_does_not_match_gets_none(
    node: Any, wanted: Any, error: type[errors.Error], said: str
) -> None:
    with pytest.raises(error, match=said):
        allocations.check_backfill({**FILLED, **node}, {**WANTED, **wanted})
