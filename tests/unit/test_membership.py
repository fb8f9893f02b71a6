"""Who lives and who owns which node."""

from __future__ import annotations

import collections
import datetime
import random
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import membership
from ironic_lite.conductor.engine import locks
from ironic_lite.core import clock
from ironic_lite.db.queries import nodes
from ironic_lite.membership import Member

# Whoever gives signs of life lives, whatever any clock on a wall says.

NOON = datetime.datetime(2026, 1, 1, 12)
TIMEOUT = 60.0
BEAT = 10.0


class Steady:
    """A monotonic clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Steady:
    made = Steady()
    monkeypatch.setattr(membership.FailureDetector.__init__, "__defaults__", (made,))
    return made


def test_heartbeat_that_changes_resets_the_silence(steady: Steady) -> None:
    seen = membership.FailureDetector(15)
    for beat in range(100):
        steady.now += BEAT
        assert seen.silence("one", beat) == 0
    for times in range(1, 7):
        steady.now += BEAT
        assert seen.silence("one", 99) == times * BEAT


def test_a_pause_of_the_watcher_is_not_the_silence_of_others(steady: Steady) -> None:
    seen = membership.FailureDetector(15)
    seen.silence("one", "a")
    steady.now += 3600
    assert seen.silence("one", "a") == 15
    steady.now += 10
    assert seen.silence("one", "b") == 0


def test_an_age_is_believed_where_nobody_has_looked(steady: Steady) -> None:
    seen = membership.FailureDetector(60)
    assert seen.silence("one", "a", age=300) == 300
    steady.now += 10
    assert seen.silence("one", "b", age=3600) == 10, "it has given a sign since the last look"
    steady.now += 10
    assert seen.silence("one", "b", age=0) == 20
    steady.now += 61
    assert seen.silence("one", "b", age=5) == 5


def test_time_without_a_look_does_not_count(steady: Steady) -> None:
    seen = membership.FailureDetector(60)
    seen.silence("one", "a", age=5)
    steady.now += 50
    seen.blind()
    steady.now += 5
    assert seen.silence("one", "a", age=60) == 10
    seen.keep({"another"})
    assert seen.silence("one", "a") == 0


# -- leases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, 3600, -3600])
def test_a_lease_that_is_renewed_lives_whatever_the_clock_of_its_holder_says(
    steady: Steady, wrong: float
) -> None:
    known = locks.Leases(TIMEOUT)
    for beat in range(50):
        steady.now += 3
        renewed = NOON + datetime.timedelta(seconds=wrong + beat * 3 // BEAT * BEAT)
        assert not known.over("token", renewed)
        wrong += 3600 * (beat == 25)  # it is set in the middle, too


@pytest.mark.parametrize("stamp", [NOON, datetime.datetime(2126, 1, 1)])
def test_a_lease_that_nobody_renews_ends_after_the_time_out(
    steady: Steady, stamp: datetime.datetime
) -> None:
    known, waited = locks.Leases(TIMEOUT), 0.0
    while not known.over("token", stamp):
        steady.now += 3
        waited += 3
    assert waited == TIMEOUT


def test_the_living_may_renew_after_the_database_was_away_for_long(steady: Steady) -> None:
    known = locks.Leases(TIMEOUT)
    known.over("token", NOON)
    steady.now += BEAT
    known.over("token", NOON)
    steady.now += 3600  # nobody could look, nor renew
    assert not known.over("token", NOON)
    steady.now += BEAT
    assert not known.over("token", NOON + datetime.timedelta(hours=1))


def test_member_that_could_not_renew_suspects_no_other(steady: Steady) -> None:
    """A full disk keeps everybody from writing and nobody from looking."""
    known, waited = locks.Leases(TIMEOUT, BEAT, steady), 0.0
    known.renewed()
    for _ in range(40):
        steady.now += 3
        assert not known.over("token", NOON)
        assert known.over("given up", nodes.ENDED)
    known.renewed()  # there is room again, and the other is about to do the same
    while not known.over("token", NOON):
        steady.now += 3
        waited += 3
        if waited % BEAT < 3:
            known.renewed()
    assert waited == TIMEOUT


def test_member_that_renews_in_time_detects_the_dead_in_time(steady: Steady) -> None:
    known, waited = locks.Leases(TIMEOUT, BEAT, steady), 0.0
    while not known.over("token", NOON):
        known.renewed()
        steady.now += 3
        waited += 3
    assert waited == TIMEOUT


def test_a_lease_that_was_given_up_is_over_at_once() -> None:
    assert locks.Leases(TIMEOUT).over("token", nodes.ENDED)


# -- conductors ------------------------------------------------------------------------------


def row(at: datetime.datetime | None, **more: Any) -> dict[str, Any]:
    about = {"conductor_group": "rack", "hardware_types": {"redfish"}, "online": True}
    return {"hostname": "one", "updated_at": at, **about, **more}


def test_a_conductor_is_first_judged_by_its_age(steady: Steady) -> None:
    now = clock.now()
    assert membership.Membership(TIMEOUT).lives(row(now))
    assert not membership.Membership(TIMEOUT).lives(row(now - datetime.timedelta(seconds=61)))
    assert not membership.Membership(TIMEOUT).lives(row(now, online=False))
    assert not membership.Membership(TIMEOUT).lives(row(None))


@pytest.mark.parametrize("hours", [1, -1])
def test_a_living_conductor_stays_on_the_roster_when_any_clock_is_set(
    steady: Steady, hours: int
) -> None:
    known, at = membership.Membership(TIMEOUT), clock.now()
    for _ in range(10):
        assert known.living([row(at)])
        steady.now += BEAT
        at += datetime.timedelta(hours=hours)


def test_a_dead_one_leaves_it_although_its_clock_was_ahead(steady: Steady) -> None:
    known, at = membership.Membership(TIMEOUT), clock.after(3600)
    for _ in range(6):
        assert known.lives(row(at))
        steady.now += BEAT
    assert not known.lives(row(at))
    assert known.lives(row(clock.after(-3600))), "it is back, with a correct clock"


def test_an_outage_of_the_database_makes_nobody_dead(steady: Steady) -> None:
    known, at = membership.Membership(TIMEOUT), clock.now()
    assert known.lives(row(at))
    for _ in range(10):
        steady.now += BEAT
        known.blind()
    assert known.lives(row(at))


# Every process finds the same owner of a node, and few nodes move when conductors come and go.

FAKE = frozenset({"fake-hardware"})
NODES = [str(uuid.UUID(int=n * 7919)) for n in range(3000)]
HOSTS = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8, unique=True)


def fleet(*hosts: str, group: str = "", drivers: frozenset[str] = FAKE) -> list[Member]:
    return [Member(host, group, drivers) for host in hosts]


def owners(members: list[Member]) -> dict[str, str | None]:
    return {node: membership.owner(members, "", "fake-hardware", node) for node in NODES}


@given(hosts=HOSTS, node=st.uuids().map(str), seed=st.integers())
def test_the_owner_is_a_member_whatever_their_order(hosts: list[str], node: str, seed: int) -> None:
    members = fleet(*hosts)
    found = membership.owner(members, "", "fake-hardware", node)
    assert found in hosts
    random.Random(seed).shuffle(members)
    assert membership.owner(members, "", "fake-hardware", node) == found


@given(hosts=HOSTS, node=st.uuids().map(str), data=st.data())
def test_leaving_member_moves_only_its_own_nodes(
    hosts: list[str], node: str, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(hosts))
    before = membership.owner(fleet(*hosts), "", "fake-hardware", node)
    after = membership.owner(fleet(*(h for h in hosts if h != gone)), "", "fake-hardware", node)
    if before != gone:
        assert after == before
    else:
        assert after != gone


@given(hosts=HOSTS, new=st.text(min_size=1, max_size=8), node=st.uuids().map(str))
def test_joining_member_receives_all_moved_nodes(hosts: list[str], new: str, node: str) -> None:
    before = membership.owner(fleet(*hosts), "", "fake-hardware", node)
    after = membership.owner(fleet(*{*hosts, new}), "", "fake-hardware", node)
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
    assert membership.owner(members, "Rack-ONE", "fake-hardware", NODES[0]) == "h1"
    assert membership.owner(members, "rack-TWO", "fake-hardware", NODES[0]) == "h2"
    assert membership.owner(members, "", "fake-hardware", NODES[0]) == "h3"


def test_owner_of_a_node_has_its_driver() -> None:
    members = [Member("h1", "", FAKE), Member("h2", "", frozenset({"redfish"}))]
    assert {membership.owner(members, "", "redfish", node) for node in NODES[:50]} == {"h2"}


@pytest.mark.parametrize(("group", "driver"), [("rack", "fake-hardware"), ("", "ipmi")])
def test_a_node_nobody_can_drive_has_no_owner(group: str, driver: str) -> None:
    assert membership.owner(fleet("h1", "h2"), group, driver, NODES[0]) is None
    assert membership.owner([], "", "fake-hardware", NODES[0]) is None


def test_candidates_are_all_who_could() -> None:
    members = [*fleet("h1", "h2"), *fleet("h3", group="rack"), *fleet("h4", drivers=frozenset())]
    assert [one.host for one in membership.candidates(members, "", "fake-hardware")] == ["h1", "h2"]


def test_owners_are_the_same_in_every_version_because_versions_run_side_by_side() -> None:
    members = fleet("conductor-1", "conductor-2", "conductor-3")
    known = {
        "11111111-2222-3333-4444-555555555555": "conductor-3",
        "00000000-0000-0000-0000-000000000000": "conductor-3",
        "1be26c0b-03f2-4d2e-ae87-c02d7f33c123": "conductor-2",
    }
    found = {node: membership.owner(members, "", "fake-hardware", node) for node in known}
    assert found == known
