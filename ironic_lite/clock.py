"""What time it is: naive UTC, as every column and comparison here uses.

The clock on the wall may be set, by NTP or by hand, an hour forward or back. What is measured
inside one process is measured by the monotonic clock. What is measured from a stamp in the database
- for how long a node has waited - is asked of `ago` and `lived`, which leave out what the clock was
set by while this process ran: so a clock that is set ends no wait.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

_NOTICED = datetime.timedelta(seconds=1)
"""Less is no setting of the clock, but the time between two readings."""

_REMEMBERED = 100  # settings; a clock that is set ever again must not fill the memory


class Span(NamedTuple):
    """A time between two settings: its first moment on the steady clock, and what the wall said
    when the steady clock began.
    """

    begin: float
    zero: datetime.datetime

    def wall(self, steady: float) -> datetime.datetime:
        """Return what the wall says at a moment of the steady clock."""
        return self.zero + datetime.timedelta(seconds=steady)

    def steady(self, wall: datetime.datetime) -> float:
        """Return the moment of the steady clock at which the wall says so."""
        return (wall - self.zero).total_seconds()


class Clock:
    """A wall clock that knows when it was set.

    :param wall: returns naive UTC.
    :param steady: returns seconds from anywhere, which nobody can set.
    """

    def __init__(self, wall: Callable[[], datetime.datetime], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._spans: tuple[Span, ...] = ()
        self._reading = threading.Lock()

    def now(self) -> datetime.datetime:
        """Return the present moment; whoever asks lets a setting be noticed."""
        return self._look()[0]

    def _look(self) -> tuple[datetime.datetime, float]:
        """Return what both clocks say."""
        with self._reading:
            now, steady = self._wall(), self._steady()
            zero = now - datetime.timedelta(seconds=steady)
            if not self._spans or abs(zero - self._spans[-1].zero) >= _NOTICED:
                self._spans = (*self._spans, Span(steady, zero))[-_REMEMBERED:]
            return now, steady

    def ago(self, seconds: float) -> datetime.datetime:
        """Return the latest stamp of which it is sure that it, and all before it, are at least
        ``seconds`` old.
        """
        _, steady = self._look()
        then = steady - seconds
        later = [one for one in self._spans if one.begin > then]
        earlier = self._spans[: len(self._spans) - len(later)] or self._spans[:1]
        # What a later span begins with may have been shown before; it is taken for the later one.
        begins = (one.wall(one.begin) - datetime.timedelta.resolution for one in later)
        return min((earlier[-1].wall(then), *begins))

    def lived(self, stamp: datetime.datetime) -> float:
        """Return the seconds since a stamp, at least 0, without what the clock was set by.

        What the clock has shown twice counts from the second time: it has been no shorter.
        """
        _, steady = self._look()
        spans, found = self._spans, float("-inf")
        for number, one in enumerate(spans):
            last = number + 1 == len(spans)
            begin = one.begin if number else float("-inf")
            end = float("inf") if last else spans[number + 1].begin
            if begin <= (at := one.steady(stamp)) <= end:
                found = max(found, at)
            elif not last and at > end and spans[number + 1].steady(stamp) < end:
                found = max(found, end)  # the clock never showed it; another machine's did
        return max(0.0, steady - found)


def _utc() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def steady() -> float:
    """Return seconds from anywhere, by a clock that nobody can set.

    Unlike time.monotonic it goes on while the machine sleeps, as the clock on the wall does.
    """
    return time.clock_gettime(_STEADY)


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_CLOCK = Clock(_utc, steady)


def now() -> datetime.datetime:
    """Return the present moment as naive UTC with microseconds."""
    return _CLOCK.now()


def after(seconds: float) -> datetime.datetime:
    """Return the moment ``seconds`` from now (negative: ago, by the clock on the wall)."""
    return now() + datetime.timedelta(seconds=seconds)


def ago(seconds: float) -> datetime.datetime:
    """Return the latest stamp that is at least ``seconds`` old; a clock that was set forward makes
    none older. What the clock has shown twice, having been set back, may count as younger.
    """
    return _CLOCK.ago(seconds)


def lived(stamp: datetime.datetime) -> float:
    """Return the seconds since a stamp as `ago` counts them, 0 for one to come."""
    return _CLOCK.lived(stamp)


def stamp() -> float:
    """Return the present moment in seconds since 1970."""
    return now().replace(tzinfo=datetime.UTC).timestamp()


def lived_since(stamp: float) -> float:
    """As `lived`, of a stamp in seconds since 1970: notes of drivers are JSON."""
    moment = datetime.datetime.fromtimestamp(stamp, datetime.UTC).replace(tzinfo=None)
    return lived(moment)


def over(until: float, limit: float) -> bool:
    """Tell whether ``limit`` seconds that were to end at ``until`` are over, as `lived` counts.

    :param until: in seconds since 1970.
    """
    return lived_since(until - limit) > limit
