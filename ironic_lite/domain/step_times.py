"""Usual durations of steps, the end of a run that they predict, and overdue steps; no I/O.

All of it is computed from the durations of earlier steps, on request.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypedDict

FEWEST = 5
"""Samples below which nothing is said about a step."""
OVERDUE_FACTOR = 3.0
"""A step is overdue after so many times its usual 90th percentile."""
BY_REQUEST = frozenset({"hold", "wait"})
"""Steps whose durations depend on operators and arguments, so none is usual."""
OVERDUE_SECONDS = 900.0
"""No step is overdue sooner."""
UNKNOWN_SECONDS = 60.0
"""A step that exceeds its 90th percentile by more has no expected end."""


class Sample(NamedTuple):
    """The duration of a step that has ended well, and the kind of its machine."""

    seconds: float
    driver: str | None
    resource_class: str | None


class Duration(TypedDict):
    """The usual duration of steps in seconds, as clients see it."""

    p50: float
    p90: float
    samples: int


class Usual(NamedTuple):
    """The usual duration of a step in seconds: median, 90th percentile, number of samples.

    ``of`` names what the samples have in common, the step at least.
    """

    p50: float
    p90: float
    samples: int
    of: tuple[str, ...]

    @property
    def document(self) -> Duration:
        """The form in documents."""
        return {"p50": self.p50, "p90": self.p90, "samples": self.samples}


class Remaining(NamedTuple):
    """A step that has not ended: its usual duration, and for how long it has been under way."""

    usual: Usual | None
    elapsed: float = 0.0


class Eta(NamedTuple):
    """The expected end of a run, and the time after which it is late.

    ``samples`` is the smallest number of samples of a remaining step, ``of`` what the samples of
    all remaining steps have in common.
    """

    ends_at: datetime.datetime
    late_at: datetime.datetime
    samples: int
    of: tuple[str, ...]


class OverdueStep(NamedTuple):
    """A step that takes too long: the time since which it does, and its usual 90th percentile."""

    since: datetime.datetime
    usual_p90: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of the values do not exceed.

    :param ordered: values in rising order, at least one.
    :param share: above 0, at most 1.
    """
    return ordered[math.ceil(len(ordered) * share) - 1]


_NARROWEST = (
    ("step", "driver", "resource_class"),
    ("step", "driver"),
    ("step",),
)


def usual(
    samples: Iterable[Sample], driver: str | None, resource_class: str | None
) -> Usual | None:
    """Return the usual duration of a step on a machine of this driver and resource class.

    It is that of the machines most like it that have enough samples: those of the same driver and
    resource class, of the same driver, or all.

    :returns: None without enough samples.
    """
    left = list(samples)
    kinds = (
        [one for one in left if (one.driver, one.resource_class) == (driver, resource_class)],
        [one for one in left if one.driver == driver],
        left,
    )
    for of, kind in zip(_NARROWEST, kinds, strict=True):
        if len(kind) >= FEWEST:
            ordered = sorted(max(0.0, one.seconds) for one in kind)
            p50, p90 = (round(percentile(ordered, share), 3) for share in (0.5, 0.9))
            return Usual(p50, p90, len(ordered), of)
    return None


def eta(remaining: Sequence[Remaining], now: datetime.datetime) -> Eta | None:
    """Return the expected end of a run.

    A step under way that has already taken longer than its median is expected to end at once.

    :param remaining: the steps that have not ended.
    :returns: None without steps, if a step has no usual duration, or if a step under way has taken
        a minute longer than its 90th percentile: an end that moves with the clock helps nobody.
    """
    known = [one.usual for one in remaining if one.usual is not None]
    if not known or len(known) < len(remaining):
        return None
    pairs = list(zip(known, remaining, strict=True))
    if any(step.elapsed > usual.p90 + UNKNOWN_SECONDS for usual, step in pairs):
        return None
    median = sum(max(0.0, usual.p50 - step.elapsed) for usual, step in pairs)
    late = sum(max(0.0, usual.p90 - step.elapsed) for usual, step in pairs)
    return Eta(
        _later(now, median),
        _later(now, late),
        min(usual.samples for usual in known),
        min((usual.of for usual in known), key=len),
    )


def overdue_of(
    usual: Usual | None, started_at: datetime.datetime | None, now: datetime.datetime
) -> OverdueStep | None:
    """Return since when a step under way is overdue, or None.

    :param started_at: the start of the current attempt; None: the step has not begun.
    """
    limit = None if usual is None else max(OVERDUE_FACTOR * usual.p90, OVERDUE_SECONDS)
    if usual is None or limit is None or started_at is None:
        return None
    since = _later(started_at, limit)
    return OverdueStep(since, usual.p90) if since < now else None


def _later(moment: datetime.datetime, seconds: float) -> datetime.datetime:
    try:
        return moment + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return datetime.datetime.max
