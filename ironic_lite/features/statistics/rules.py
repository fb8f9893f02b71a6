"""Durations and failures of ended steps, grouped by step and kind of machine; no I/O."""

from __future__ import annotations

import datetime
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

from ironic_lite.core.json_types import Json
from ironic_lite.domain.step_times import percentile

_EPOCH = datetime.datetime(1970, 1, 1)
_SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


Ended = tuple[
    str, str, str, str, datetime.datetime, datetime.datetime, str | None, str | None, str | None
]
"""An ended step: interface, step, kind, state, start, end, code of its failure, driver, class."""


STATISTICS_COLUMNS = ("interface", "step", "kind", "driver", "resource_class")
"""The columns by which steps are grouped."""


class _Group:
    """The steps of one group: seconds since 1970 of their ends, durations, indexes of outcomes."""

    __slots__ = ("ends", "outcomes", "seconds")

    def __init__(self) -> None:
        self.ends = array("d")
        self.seconds = array("d")
        self.outcomes = array("L")


class StepFigures:
    """Ended steps in a small form: twenty-four bytes for each."""

    def __init__(self, steps: Iterable[Ended]) -> None:
        self._groups: dict[tuple[str | None, ...], _Group] = {}
        self.count = 0
        numbers: dict[tuple[str, str | None], int] = {}
        for interface, step, kind, state, started, ended, code, driver, resource_class in steps:
            key = (interface, step, kind, driver, resource_class)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group()
            group.ends.append((ended - _EPOCH).total_seconds())
            group.seconds.append((ended - started).total_seconds())
            group.outcomes.append(numbers.setdefault((state, code), len(numbers)))
            self.count += 1
        self._outcomes = list(numbers)

    @property
    def first(self) -> datetime.datetime | None:
        """The earliest end, None without steps."""
        if not self.count:
            return None
        earliest = min(min(group.ends) for group in self._groups.values())
        return _EPOCH + datetime.timedelta(seconds=earliest)

    def grouped(self, *, since: datetime.datetime | None = None, **where: str | None) -> list[Json]:
        """Return one document for each group, by interface, step, kind, driver, resource class.

        :param since: only steps that ended then or later.
        :param where: values by name of a column of `COLUMNS`; None does not filter.
        """
        after = float("-inf") if since is None else (since - _EPOCH).total_seconds()
        wanted = {name: value for name, value in where.items() if value is not None}
        found = []
        for key in sorted(self._groups, key=lambda key: tuple(part or "" for part in key)):
            named = dict(zip(STATISTICS_COLUMNS, key, strict=True))
            if wanted.items() <= named.items():
                document = _document(self._groups[key], after, self._outcomes)
                if document is not None:
                    found.append({**named, **document})
        return found


def _document(
    group: _Group, after: float, outcomes: Sequence[tuple[str, str | None]]
) -> Json | None:
    """Return the counts and durations of a group, None without steps after a moment."""
    states, codes = Counter[str](), Counter[str]()
    done: list[float] = []
    for end, seconds, number in zip(group.ends, group.seconds, group.outcomes, strict=True):
        if end >= after:
            state, code = outcomes[number]
            states[state] += 1
            if state == "done":
                done.append(max(0.0, seconds))
            elif state == "failed":
                codes[code or "unknown"] += 1
    if not states:
        return None
    return {
        "count": states.total(),
        "failed": states["failed"],
        "aborted": states["aborted"],
        "codes": dict(codes.most_common()),
        **_durations(done),
    }


def _durations(seconds: Sequence[float]) -> Json:
    """Return the percentiles of durations, None without any."""
    ordered = sorted(seconds)
    found: Json = {
        name: round(percentile(ordered, share), 3) if ordered else None for name, share in _SHARES
    }
    return {**found, "longest": round(ordered[-1], 3) if ordered else None}
