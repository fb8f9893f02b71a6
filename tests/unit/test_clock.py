"""A clock that is set ends no wait, and keeps none for longer than it was set by."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite.core import clock

NOON = datetime.datetime(2026, 1, 1, 12)
HOUR = 3600


class World:
    """A true time, and a clock on the wall that may be wrong."""

    def __init__(self) -> None:
        self.time = 0.0
        self.wrong = 0.0
        self.clock = clock.Clock(self.wall, lambda: self.time)

    def wall(self) -> datetime.datetime:
        return NOON + datetime.timedelta(seconds=self.time + self.wrong)

    def after(self, seconds: float) -> World:
        self.time += seconds
        return self

    def set(self, seconds: float) -> World:
        self.wrong += seconds
        self.clock.now()
        return self


@pytest.mark.parametrize("by", [HOUR, -HOUR, 86_400, 0])
def test_a_stamp_from_before_a_setting_is_as_old_as_it_is(by: float) -> None:
    world = World()
    stamp = world.clock.now()
    world.after(2 * HOUR).set(by).after(60)
    assert world.clock.lived(stamp) == 2 * HOUR + 60
    assert world.clock.ago(2 * HOUR + 60) == stamp
    assert world.clock.ago(2 * HOUR + 61) < stamp


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("by", [2 * 8760 * HOUR, HOUR])
def test_stamp_of_a_clock_that_was_ahead_grows_old(by: float, noticed: bool) -> None:
    """It is a year in the future when the clock is right again."""
    world = World()
    world.clock.now()
    world.after(100).wrong += by
    stamp = world.clock.now() if noticed else world.wall()
    world.after(2).set(-by)
    assert world.clock.lived(stamp) == (2 if noticed else 0)
    world.after(3)
    assert world.clock.lived(stamp) == (5 if noticed else 3)
    world.after(by / 2)
    assert world.clock.lived(stamp) >= by / 2


def test_stamp_that_was_ahead_keeps_its_age_when_the_clock_reaches_it() -> None:
    world = World()
    stamp = world.clock.now() + datetime.timedelta(seconds=600)
    assert world.clock.lived(stamp) == 0
    world.after(700)
    assert world.clock.lived(stamp) == 700
    assert world.clock.ahead_since() == stamp
    assert world.clock.ago(600) < stamp


def test_stamp_of_a_clock_a_little_ahead_is_not_looked_for() -> None:
    world = World()
    world.clock.lived(world.clock.now() + datetime.timedelta(seconds=5))
    world.after(700)
    assert world.clock.ahead_since() == world.clock.now()


def test_a_wait_that_has_just_begun_is_not_over_because_the_clock_was_set_forward() -> None:
    world = World()
    stamp = world.after(10).clock.now()
    world.after(1).set(HOUR)
    assert stamp > world.clock.ago(1800)
    assert world.clock.lived(stamp) == 1
    world.after(1800)
    assert stamp <= world.clock.ago(1800)


def test_a_wait_is_over_as_late_as_the_clock_was_set_back_at_the_most() -> None:
    world = World()
    stamp = world.after(HOUR).clock.now()
    world.after(600).set(-HOUR)
    late = 0
    while stamp > world.clock.ago(1800):
        world.after(60)
        late += 60
    assert late <= HOUR + 1800
    assert world.clock.lived(stamp) >= 1800


def test_a_clock_that_was_set_forward_and_back_is_as_it_was() -> None:
    world = World()
    stamp = world.clock.now()
    world.after(100).set(HOUR).after(100).set(-HOUR).after(100)
    assert world.clock.now() == world.wall()
    assert world.clock.lived(stamp) == 300
    assert world.clock.ago(300) == stamp


def test_future_time_has_age_zero_and_small_corrections_do_not_count() -> None:
    world = World()
    assert world.clock.lived(NOON + datetime.timedelta(hours=1)) == 0
    world.after(5).set(0.4).after(5)
    apart = world.wall() - world.clock.ago(10)
    assert 9 < apart.total_seconds() < 11


SETTINGS = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(-4000, 4000).filter(lambda by: abs(by) > 1)),
    max_size=4,
)


@given(settings=SETTINGS, limit=st.integers(0, 10_000))
def test_no_setting_makes_a_wait_shorter(settings: list[tuple[int, int]], limit: int) -> None:
    world = World()
    begun = [(world.time, world.clock.now())]
    for seconds, by in settings:
        world.after(seconds).set(by)
        begun.append((world.time, world.clock.now()))
    before = world.clock.ago(limit)
    for at, stamp in begun:
        lived = world.time - at
        assert world.clock.lived(stamp) <= lived + 1e-3
        assert stamp > before or lived >= limit - 1e-3


def test_notes_in_seconds_are_the_same() -> None:
    begun = clock.stamp()
    assert -1 < clock.lived_since(begun - 5) - 5 < 60  # the wall clock may be set back slightly
    assert clock.over(begun - 1, 10)
    assert not clock.over(begun + 9, 10)
    assert clock.over(0.0, 10)
