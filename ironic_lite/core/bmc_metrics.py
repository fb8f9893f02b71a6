"""Counts of this process's calls to BMCs, with retries, failures and latencies.

Counts only grow while the process lives. Latencies go into buckets with fixed bounds, as in the
data model of Prometheus. Drivers count at the single function through which all their calls pass.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Iterator

from ironic_lite.core import clock
from ironic_lite.core.json_types import Json

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the latency buckets, in seconds; one more bucket has no bound."""

OK, ERROR, SILENCE = "ok", "error", "silence"
"""Results of a call: success, an error that the BMC reported, no usable answer."""


@dataclasses.dataclass(slots=True)
class Call:
    """One call under way; the caller sets its result."""

    result: str = SILENCE


class Counters:
    """Counts of calls to BMCs; any thread may count."""

    def __init__(self) -> None:
        self._since = clock.now()
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._retries: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def call(self, kind: str, operation: str) -> Iterator[Call]:
        """Count the call made in this block, and its duration.

        :param kind: of the BMC, such as ``redfish``.
        :param operation: one of few, such as ``GET``: each is counted by itself.
        """
        made, begun = Call(), time.monotonic()
        try:
            yield made
        finally:
            self.note(kind, operation, made.result, time.monotonic() - begun)

    def note(self, kind: str, operation: str, result: str, seconds: float) -> None:
        """Count one call that ended with ``result`` after so many seconds."""
        place = bisect.bisect_left(BUCKETS, seconds)
        with self._guard:
            self._calls[kind, operation, result] += 1
            self._buckets.setdefault(kind, [0] * (len(BUCKETS) + 1))[place] += 1
            self._seconds[kind] += seconds  # type: ignore[assignment]  # a sum, not a count

    def retried(self, kind: str) -> None:
        """Count a call that will be repeated after a fault."""
        with self._guard:
            self._retries[kind] += 1

    def snapshot(self) -> Json:
        """Return all counts as JSON, under the names of their metrics.

        :returns: ``since`` (ISO 8601, UTC, when counting began), ``bmc_calls_total`` (kind,
            operation, result, value), ``bmc_retries_total`` (kind, value), ``bmc_call_seconds``
            (kind, count, sum, and ``buckets``: calls that took at most so many seconds).
        """
        with self._guard:
            calls, retries = sorted(self._calls.items()), sorted(self._retries.items())
            buckets = {kind: list(counts) for kind, counts in sorted(self._buckets.items())}
            seconds = dict(self._seconds)
        return {
            "since": self._since.isoformat() + "+00:00",
            "bmc_calls_total": [
                {"kind": kind, "operation": operation, "result": result, "value": value}
                for (kind, operation, result), value in calls
            ],
            "bmc_retries_total": [{"kind": kind, "value": value} for kind, value in retries],
            "bmc_call_seconds": [
                {
                    "kind": kind,
                    "count": sum(counts),
                    "sum": round(seconds[kind], 3),
                    "buckets": _cumulative(counts),
                }
                for kind, counts in buckets.items()
            ],
        }


def _cumulative(counts: list[int]) -> list[Json]:
    bounds = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
    sums = [sum(counts[: place + 1]) for place in range(len(counts))]
    return [{"le": bound, "value": value} for bound, value in zip(bounds, sums, strict=True)]


BMCS = Counters()
"""The counts of this process."""
