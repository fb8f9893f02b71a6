"""Counts of this process's calls to BMCs, with retries, failures and latencies.

Drivers count at the single function through which all their calls pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from ironic_lite.core import clock, metrics, run_lines
from ironic_lite.core.json_types import Json

OK, ERROR, SILENCE = "ok", "error", "silence"
"""Results of a call: success, an error that the BMC reported, no usable answer."""


@dataclasses.dataclass(slots=True)
class Call:
    """One call under way; the caller sets its result and the answer in a few words."""

    result: str = SILENCE
    answer: str = "no answer"


class Counters:
    """Counts of calls to BMCs, on a board of their own; any thread may count."""

    def __init__(self) -> None:
        self._since = clock.now()
        self._board = metrics.Board()

    @contextlib.contextmanager
    def call(
        self, kind: str, operation: str, what: str | None = None, *, reads: bool = False
    ) -> Iterator[Call]:
        """Count the call made in this block, and its duration; add it to the run's log.

        :param kind: of the BMC, such as ``redfish``.
        :param operation: one of few, such as ``GET``: each is counted by itself.
        :param what: the operation with its object, such as ``GET /redfish/v1``, without secrets.
        :param reads: the call changes nothing.
        """
        made, watch = Call(), metrics.Watch()
        try:
            yield made
        finally:
            seconds = watch.seconds
            self.note(kind, operation, made.result, seconds)
            text = f"{what or operation} {made.answer} {seconds:.3f} s"
            run_lines.note("bmc", text, minor=reads and made.result == OK)

    def note(self, kind: str, operation: str, result: str, seconds: float) -> None:
        """Count one call that ended with ``result`` after so many seconds."""
        self._board.count("bmc_calls_total", kind, operation, result)
        self._board.observe("bmc_call_seconds", seconds, kind)

    def retried(self, kind: str) -> None:
        """Count a call that will be repeated after a fault."""
        self._board.count("bmc_retries_total", kind)

    def snapshot(self) -> Json:
        """Return all counts as JSON, under the names of their metrics.

        :returns: ``since`` (ISO 8601, UTC, when counting began), ``bmc_calls_total`` (kind,
            operation, result, value), ``bmc_retries_total`` (kind, value), ``bmc_call_seconds``
            (kind, count, sum, and ``buckets``: calls that took at most so many seconds).
        """
        return {
            "since": self._since.isoformat() + "+00:00",
            "bmc_calls_total": [],
            "bmc_retries_total": [],
            "bmc_call_seconds": [],
            **self._board.snapshot(),
        }


BMCS = Counters()
"""The counts of this process."""
