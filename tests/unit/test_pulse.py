"""Whoever gives signs of life lives, whatever any clock on a wall says."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.conductor.work import leases
from ironic_lite.core import clock
from ironic_lite.db.queries import nodes
from ironic_lite.membership import liveness, members

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
    monkeypatch.setattr(liveness.FailureDetector.__init__, "__defaults__", (made,))
    return made


def test_heartbeat_that_changes_resets_the_silence(steady: Steady) -> None:
    seen = liveness.FailureDetector(15)
    for beat in range(100):
        steady.now += BEAT
        assert seen.silence("one", beat) == 0
    for times in range(1, 7):
        steady.now += BEAT
        assert seen.silence("one", 99) == times * BEAT


def test_a_pause_of_the_watcher_is_not_the_silence_of_others(steady: Steady) -> None:
    seen = liveness.FailureDetector(15)
    seen.silence("one", "a")
    steady.now += 3600
    assert seen.silence("one", "a") == 15
    steady.now += 10
    assert seen.silence("one", "b") == 0


def test_an_age_is_believed_where_nobody_has_looked(steady: Steady) -> None:
    seen = liveness.FailureDetector(60)
    assert seen.silence("one", "a", age=300) == 300
    steady.now += 10
    assert seen.silence("one", "b", age=3600) == 10, "it has given a sign since the last look"
    steady.now += 10
    assert seen.silence("one", "b", age=0) == 20
    steady.now += 61
    assert seen.silence("one", "b", age=5) == 5


def test_time_without_a_look_does_not_count(steady: Steady) -> None:
    seen = liveness.FailureDetector(60)
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
    known = leases.Leases(TIMEOUT)
    for beat in range(50):
        steady.now += 3
        renewed = NOON + datetime.timedelta(seconds=wrong + beat * 3 // BEAT * BEAT)
        assert not known.over("token", renewed)
        wrong += 3600 * (beat == 25)  # it is set in the middle, too


@pytest.mark.parametrize("stamp", [NOON, datetime.datetime(2126, 1, 1)])
def test_a_lease_that_nobody_renews_ends_after_the_time_out(
    steady: Steady, stamp: datetime.datetime
) -> None:
    known, waited = leases.Leases(TIMEOUT), 0.0
    while not known.over("token", stamp):
        steady.now += 3
        waited += 3
    assert waited == TIMEOUT


def test_the_living_may_renew_after_the_database_was_away_for_long(steady: Steady) -> None:
    known = leases.Leases(TIMEOUT)
    known.over("token", NOON)
    steady.now += BEAT
    known.over("token", NOON)
    steady.now += 3600  # nobody could look, nor renew
    assert not known.over("token", NOON)
    steady.now += BEAT
    assert not known.over("token", NOON + datetime.timedelta(hours=1))


def test_member_that_could_not_renew_suspects_no_other(steady: Steady) -> None:
    """A full disk keeps everybody from writing and nobody from looking."""
    known, waited = leases.Leases(TIMEOUT, BEAT, steady), 0.0
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
    known, waited = leases.Leases(TIMEOUT, BEAT, steady), 0.0
    while not known.over("token", NOON):
        known.renewed()
        steady.now += 3
        waited += 3
    assert waited == TIMEOUT


def test_a_lease_that_was_given_up_is_over_at_once() -> None:
    assert leases.Leases(TIMEOUT).over("token", nodes.ENDED)


# -- conductors ------------------------------------------------------------------------------


def row(at: datetime.datetime | None, **more: Any) -> dict[str, Any]:
    about = {"conductor_group": "rack", "hardware_types": {"redfish"}, "online": True}
    return {"hostname": "one", "updated_at": at, **about, **more}


def test_a_conductor_is_first_judged_by_its_age(steady: Steady) -> None:
    now = clock.now()
    assert members.Membership(TIMEOUT).lives(row(now))
    assert not members.Membership(TIMEOUT).lives(row(now - datetime.timedelta(seconds=61)))
    assert not members.Membership(TIMEOUT).lives(row(now, online=False))
    assert not members.Membership(TIMEOUT).lives(row(None))


@pytest.mark.parametrize("hours", [1, -1])
def test_a_living_conductor_stays_on_the_roster_when_any_clock_is_set(
    steady: Steady, hours: int
) -> None:
    known, at = members.Membership(TIMEOUT), clock.now()
    for _ in range(10):
        assert known.living([row(at)])
        steady.now += BEAT
        at += datetime.timedelta(hours=hours)


def test_a_dead_one_leaves_it_although_its_clock_was_ahead(steady: Steady) -> None:
    known, at = members.Membership(TIMEOUT), clock.after(3600)
    for _ in range(6):
        assert known.lives(row(at))
        steady.now += BEAT
    assert not known.lives(row(at))
    assert known.lives(row(clock.after(-3600))), "it is back, with a correct clock"


def test_an_outage_of_the_database_makes_nobody_dead(steady: Steady) -> None:
    known, at = members.Membership(TIMEOUT), clock.now()
    assert known.lives(row(at))
    for _ in range(10):
        steady.now += BEAT
        known.blind()
    assert known.lives(row(at))
