"""Every process finds the same owner of a node, and few nodes move when conductors come and go."""

from __future__ import annotations

import collections
import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite.membership import ring
from ironic_lite.membership.ring import Member

FAKE = frozenset({"fake-hardware"})
NODES = [str(uuid.UUID(int=n * 7919)) for n in range(3000)]
HOSTS = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8, unique=True)


def fleet(*hosts: str, group: str = "", drivers: frozenset[str] = FAKE) -> list[Member]:
    return [Member(host, group, drivers) for host in hosts]


def owners(members: list[Member]) -> dict[str, str | None]:
    return {node: ring.owner(members, "", "fake-hardware", node) for node in NODES}


@given(hosts=HOSTS, node=st.uuids().map(str), seed=st.integers())
def test_the_owner_is_a_member_whatever_their_order(hosts: list[str], node: str, seed: int) -> None:
    members = fleet(*hosts)
    found = ring.owner(members, "", "fake-hardware", node)
    assert found in hosts
    random.Random(seed).shuffle(members)
    assert ring.owner(members, "", "fake-hardware", node) == found


@given(hosts=HOSTS, node=st.uuids().map(str), data=st.data())
def test_leaving_member_moves_only_its_own_nodes(
    hosts: list[str], node: str, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(hosts))
    before = ring.owner(fleet(*hosts), "", "fake-hardware", node)
    after = ring.owner(fleet(*(h for h in hosts if h != gone)), "", "fake-hardware", node)
    if before != gone:
        assert after == before
    else:
        assert after != gone


@given(hosts=HOSTS, new=st.text(min_size=1, max_size=8), node=st.uuids().map(str))
def test_joining_member_receives_all_moved_nodes(hosts: list[str], new: str, node: str) -> None:
    before = ring.owner(fleet(*hosts), "", "fake-hardware", node)
    after = ring.owner(fleet(*{*hosts, new}), "", "fake-hardware", node)
    assert after in {before, new}


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_every_member_gets_about_its_share(count: int) -> None:
    members = fleet(*(f"conductor-{n}" for n in range(count)))
    shares = collections.Counter(owners(members).values())
    fair = len(NODES) / count
    assert len(shares) == count
    assert all(0.8 * fair < share < 1.2 * fair for share in shares.values())


def test_a_fourth_conductor_takes_about_a_quarter_from_all() -> None:
    before = owners(fleet("a", "b", "c"))
    after = owners(fleet("a", "b", "c", "d"))
    moved = collections.Counter(before[node] for node in NODES if before[node] != after[node])
    assert 0.2 < moved.total() / len(NODES) < 0.3
    assert set(moved) == {"a", "b", "c"}


def test_a_group_is_one_whatever_its_case() -> None:
    members = [
        Member("h1", "rack-one", FAKE),
        Member("h2", "RACK-two", FAKE),
        Member("h3", "", FAKE),
    ]
    assert ring.owner(members, "Rack-ONE", "fake-hardware", NODES[0]) == "h1"
    assert ring.owner(members, "rack-TWO", "fake-hardware", NODES[0]) == "h2"
    assert ring.owner(members, "", "fake-hardware", NODES[0]) == "h3"


def test_owner_of_a_node_has_its_driver() -> None:
    members = [Member("h1", "", FAKE), Member("h2", "", frozenset({"redfish"}))]
    assert {ring.owner(members, "", "redfish", node) for node in NODES[:50]} == {"h2"}


@pytest.mark.parametrize(("group", "driver"), [("rack", "fake-hardware"), ("", "ipmi")])
def test_a_node_nobody_can_drive_has_no_owner(group: str, driver: str) -> None:
    assert ring.owner(fleet("h1", "h2"), group, driver, NODES[0]) is None
    assert ring.owner([], "", "fake-hardware", NODES[0]) is None


def test_candidates_are_all_who_could() -> None:
    members = [*fleet("h1", "h2"), *fleet("h3", group="rack"), *fleet("h4", drivers=frozenset())]
    assert [one.host for one in ring.candidates(members, "", "fake-hardware")] == ["h1", "h2"]


def test_owners_are_the_same_in_every_version_because_versions_run_side_by_side() -> None:
    members = fleet("conductor-1", "conductor-2", "conductor-3")
    known = {
        "11111111-2222-3333-4444-555555555555": "conductor-3",
        "00000000-0000-0000-0000-000000000000": "conductor-3",
        "1be26c0b-03f2-4d2e-ae87-c02d7f33c123": "conductor-2",
    }
    found = {node: ring.owner(members, "", "fake-hardware", node) for node in known}
    assert found == known
