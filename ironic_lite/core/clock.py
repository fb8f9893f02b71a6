"""Time as naive UTC, as every column and comparison uses it.

The wall clock may be set forward or back, by NTP or by hand. Durations inside one process are
measured by the monotonic clock. Durations since a stamp in the database, such as a node's wait, are
computed by `ago` and `lived`. Both leave out changes of the wall clock while this process ran, so a
changed clock does not end a wait.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

_NOTICED = datetime.timedelta(seconds=1)
"""Seconds; a smaller difference is the time between two readings, not a set clock."""
_NOTICED_SECONDS = _NOTICED.total_seconds()

_FAR = 60.0  # seconds; clocks of machines differ by less
_MOST_AHEAD = 10_000  # stamps of other clocks
_REMEMBERED = 100  # settings; a clock that is set again and again must not fill the memory


class Span(NamedTuple):
    """A time between two settings of the wall clock.

    It has its first moment on the steady clock, and the wall time when the steady clock began.
    """

    begin: float
    zero: datetime.datetime

    def wall(self, steady: float) -> datetime.datetime:
        """Return the wall time at a moment of the steady clock."""
        return self.zero + datetime.timedelta(seconds=steady)

    def steady(self, wall: datetime.datetime) -> float:
        """Return the moment of the steady clock with this wall time."""
        return (wall - self.zero).total_seconds()


class Clock:
    """A wall clock that notices when it was set.

    :param wall: returns naive UTC.
    :param steady: returns seconds from an arbitrary start, which cannot be set.
    """

    def __init__(self, wall: Callable[[], datetime.datetime], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._spans: tuple[Span, ...] = ()
        self._future: dict[datetime.datetime, float] = {}
        """When stamps were first seen that the clock had not shown by then."""
        self._reading = threading.Lock()

    def now(self) -> datetime.datetime:
        """Return the present moment; each call notices a set clock."""
        return self._read_clocks()[0]

    def _read_clocks(self) -> tuple[datetime.datetime, float]:
        """Return the readings of both clocks."""
        with self._reading:
            now, steady = self._wall(), self._steady()
            zero = now - datetime.timedelta(seconds=steady)
            if not self._spans or abs(zero - self._spans[-1].zero) >= _NOTICED:
                self._spans = (*self._spans, Span(steady, zero))[-_REMEMBERED:]
            return now, steady

    def ago(self, seconds: float) -> datetime.datetime:
        """Return the latest stamp that, with all before it, is at least ``seconds`` old."""
        _, steady = self._read_clocks()
        then = steady - seconds
        later = [one for one in self._spans if one.begin > then]
        earlier = self._spans[: len(self._spans) - len(later)] or self._spans[:1]
        # The clock may have shown a stamp twice; the later span counts.
        begins = (one.wall(one.begin) - datetime.timedelta.resolution for one in later)
        return min((earlier[-1].wall(then), *begins))

    def lived(self, stamp: datetime.datetime) -> float:
        """Return the seconds since a stamp, at least 0, without changes of the clock.

        A time that the clock has shown twice counts from the second time, which is the shorter age.
        A stamp that the clock has not shown yet is of a clock that was ahead, so it counts from the
        first call with it. Otherwise a wait would last until this clock has caught up.
        """
        _, steady = self._read_clocks()
        spans, found = self._spans, float("-inf")
        for number, one in enumerate(spans):
            last = number + 1 == len(spans)
            begin = one.begin if number else float("-inf")
            end = steady if last else spans[number + 1].begin
            if begin <= (at := one.steady(stamp)) <= end:
                found = max(found, at)
            elif not last and at > end and spans[number + 1].steady(stamp) < end:
                found = max(found, end)  # a stamp of another machine's clock
        if found == float("-inf"):
            found = self._first_seen(stamp, steady)
        elif stamp in self._future:
            found = min(found, self._future[stamp])
        return max(0.0, steady - found)

    def ahead_since(self) -> datetime.datetime:
        """Return the moment after which stamps may be of a clock that was ahead.

        It is the earliest stamp that was far in the future when `lived` saw it first; the present
        without one. The clock may have shown it meanwhile.
        """
        now = self.now()
        with self._reading:
            seen = list(self._future.items())
        latest = self._spans[-1]
        far = (each for each, first in seen if latest.steady(each) - first >= _FAR)
        return min((now, *far))

    def _first_seen(self, stamp: datetime.datetime, steady: float) -> float:
        with self._reading:
            if stamp not in self._future and len(self._future) >= _MOST_AHEAD:
                del self._future[next(iter(self._future))]
            return self._future.setdefault(stamp, steady)


class Ahead:
    """Seconds since a moment, by the clock that went further.

    A paused virtual machine continues with all its clocks unchanged. When the wall clock is
    corrected after that, this clock jumps with it. It never runs back.

    :param wall: returns seconds, and may be set.
    :param steady: returns seconds from an arbitrary start, which cannot be set.
    """

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._wall, self._steady = wall, steady
        self._ahead = wall() - steady()
        self._leapt = 0.0
        self._reading = threading.Lock()

    def read(self) -> float:
        """Return the seconds."""
        with self._reading:
            wall, steady = self._wall(), self._steady()
            ahead = wall - steady
            leap = ahead - self._ahead
            if leap >= _NOTICED_SECONDS:
                self._leapt += leap
            self._ahead = ahead
            return steady + self._leapt


_EPOCH = datetime.datetime(1970, 1, 1)


def _utc_now() -> datetime.datetime:
    # Removing the time zone of datetime.now(UTC) takes three times as long.
    return _EPOCH + datetime.timedelta(seconds=time.time())


def steady() -> float:
    """Return seconds from an arbitrary start, by a clock that cannot be set.

    Unlike time.monotonic it continues while the machine sleeps, as the wall clock does.
    """
    return time.clock_gettime(_STEADY)


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_CLOCK = Clock(_utc_now, steady)
_AHEAD = Ahead(time.time, steady)


def ahead() -> float:
    """Return seconds from an arbitrary start, by a clock that never lags: see `Ahead`."""
    return _AHEAD.read()


def now() -> datetime.datetime:
    """Return the present moment as naive UTC with microseconds."""
    return _CLOCK.now()


def after(seconds: float) -> datetime.datetime:
    """Return the moment ``seconds`` from now; negative: in the past, by wall clock."""
    return now() + datetime.timedelta(seconds=seconds)


def ago(seconds: float) -> datetime.datetime:
    """Return the latest stamp that is at least ``seconds`` old.

    Setting the clock forward does not make stamps older. A stamp that the clock has shown twice,
    after it was set back, may count as younger.
    """
    return _CLOCK.ago(seconds)


def lived(stamp: datetime.datetime) -> float:
    """Return the seconds since a stamp as `ago` counts them.

    A future stamp counts from the first call with it.
    """
    return _CLOCK.lived(stamp)


def ahead_since() -> datetime.datetime:
    """Return the moment after which `lived` is asked for the age of stamps, not `ago`.

    Stamps after it may be of a clock that was ahead of this one.
    """
    return _CLOCK.ahead_since()


def stamp() -> float:
    """Return the present moment in seconds since 1970."""
    return now().replace(tzinfo=datetime.UTC).timestamp()


def lived_since(stamp: float) -> float:
    """Return `lived` of a stamp in seconds since 1970, as in drivers' JSON notes."""
    moment = datetime.datetime.fromtimestamp(stamp, datetime.UTC).replace(tzinfo=None)
    return lived(moment)


def over(until: float, limit: float) -> bool:
    """Return whether ``limit`` seconds until ``until`` are over, as `lived` counts.

    :param until: in seconds since 1970.
    """
    return lived_since(until - limit) > limit
