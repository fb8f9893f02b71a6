"""Metrics of a process for Prometheus.

`FAMILIES` lists the metrics and their labels; `BOARD` holds the counts of this process, except its
calls to BMCs (`BMCS`). Counts only grow while the process lives. Processes forked by one
parent may keep their boards in shared memory, so that each of them can report the sum: see `Pool`.

Counting costs about a microsecond, without a system call.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import mmap
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ironic_lite.core import clock, log_lines
from ironic_lite.core.json_types import Json

Key = tuple[str, ...]

_BMC = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LONG = (0.1, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 14400.0)


class Family(NamedTuple):
    """One metric.

    ``labels`` are the names that distinguish its series; each must have few values. ``buckets`` are
    upper bounds in seconds, followed by one bucket without bound; a family without buckets is a
    plain count.
    """

    text: str
    labels: Key
    buckets: tuple[float, ...] = ()


FAMILIES: Mapping[str, Family] = {
    "http_requests_total": Family("Answered requests.", ("method", "route", "code")),
    "http_request_seconds": Family(
        "From the arrival of a request's headers to its answer.", ("method", "route"), _QUICK
    ),
    "events_gaps_total": Family(
        "Missing event numbers that followers passed: dead (no transaction can fill them), or "
        "forced (by age alone: a transaction was open for an hour, or the database cannot be "
        "asked).",
        ("result",),
    ),
    "watches_total": Family("Requests that waited, and streams of events.", ("kind",)),
    "plans_total": Family("Plans of verbs, by whether the verb would be accepted.", ("accepted",)),
    "idempotent_total": Family(
        "Requests with the header Idempotency-Key: new, replayed (answered from what was kept), "
        "busy (the first is under way), reused (refused for another request), resumed (taken over "
        "from a process that has not answered).",
        ("result",),
    ),
    "logins_refused_total": Family("Requests refused before authentication.", ("code",)),
    "rpc_calls_total": Family("Calls of conductors.", ("method", "result")),
    "rpc_call_seconds": Family("Calls of conductors, as seen by the caller.", ("method",), _QUICK),
    "rpc_served_total": Family("Calls that a conductor has answered.", ("method", "result")),
    "rpc_served_seconds": Family("Calls that a conductor has answered.", ("method",), _QUICK),
    "erasures_total": Family("Erasure records by result and level.", ("result", "level")),
    "runs_total": Family("Runs that have ended.", ("verb", "result")),
    "run_seconds": Family("Runs that have ended, waits included.", ("verb",), _LONG),
    "steps_total": Family("Steps that have ended.", ("kind", "result")),
    "step_seconds": Family("Steps that have ended, waits included.", ("kind",), _LONG),
    "workers_refused_total": Family("Work refused because all workers were busy.", ()),
    "lease_renewals_total": Family("Renewals of the leases of all held locks.", ("result",)),
    "bmc_calls_total": Family("Calls of BMCs.", ("kind", "operation", "result")),
    "bmc_retries_total": Family("Retried calls of BMCs.", ("kind",)),
    "bmc_call_seconds": Family("Calls of BMCs.", ("kind",), _BMC),
    "webhook_deliveries_total": Family("Tries to deliver events to webhooks.", ("result",)),
}
GAUGES: Mapping[str, Family] = {
    "workers": Family("Threads of the pool, by what they do; at most so many.", ("state",)),
    "locks_held": Family("Nodes that a conductor has locked.", ()),
    "rpc_in_hand": Family("Calls that a conductor is answering.", ()),
    "overdue_runs": Family("Runs with an overdue step, on a conductor's nodes.", ()),
    "webhooks": Family("Webhooks that a conductor serves.", ("state",)),
    "certificate_not_after_seconds": Family(
        "End of a certificate in use, in seconds since 1970; of an API process without conductor.",
        ("option",),
    ),
    "webhook_behind": Family("Distance of a webhook from the newest event number.", ("webhook",)),
}
"""Metrics that are measured when they are read."""

_ORDER = tuple(FAMILIES)

# A record of shared memory is the key, then the values. A board has room for `_RECORDS` records.
_DOUBLE = 8
_KEY_BYTES = 120
VALUES = 17
_RECORD_BYTES = _KEY_BYTES + VALUES * _DOUBLE
_RECORDS = 1024
_BOARD_BYTES = _RECORDS * _RECORD_BYTES
_OTHER = "other"
"""The label of series without a record of their own."""


class Pool:
    """Memory shared by a process and its children; untouched parts cost nothing.

    It needs no lock between processes. Only one process writes to a board, under the lock of its
    threads. A record's key is complete before it counts as in use, and values are aligned doubles
    that only grow. A reader may see one count of a series before its sum, until its next read.

    The multiprocess mode of prometheus_client works alike, with a file for each process and each
    kind of metric that has to be removed. It must be chosen by an environment variable before the
    library is loaded, and so would load the library (7 MiB) in every process.

    :param boards: how many processes will count, each on a board of its own.
    """

    def __init__(self, boards: int) -> None:
        self.boards = boards
        self._memory = mmap.mmap(-1, boards * _BOARD_BYTES)

    def record(self, board: int, number: int) -> tuple[memoryview[int], memoryview[float]]:
        """Return key (bytes) and values (doubles) of one record."""
        start = board * _BOARD_BYTES + number * _RECORD_BYTES
        whole = memoryview(self._memory)[start : start + _RECORD_BYTES]
        return whole[:_KEY_BYTES], whole[_KEY_BYTES:].cast("d")

    def read(self, board: int) -> Iterator[tuple[Key, memoryview[float]]]:
        """Yield the records of a board that are in use: name and labels, values."""
        for number in range(_RECORDS):
            key, values = self.record(board, number)
            if not key[0]:
                return
            yield _unpack_key(bytes(key)), values


class Board:
    """The counts of one process; any thread may count."""

    def __init__(self) -> None:
        self._series: dict[Key, Any] = {}
        self._guard = threading.Lock()
        self._pool: Pool | None = None
        self._place = 0
        self._taken = 0

    def share(self, pool: Pool, place: int) -> None:
        """Count in shared memory from now on, adding to the counts of an earlier process.

        :param place: the number of this process's board in the pool.
        """
        with self._guard:
            self._pool, self._place = pool, place
            self._series = {key: values[: size_of(key[0])] for key, values in pool.read(place)}
            self._taken = len(self._series)

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        """Add to a plain count."""
        with self._guard:
            values = self._series.get((name, *labels))
            if values is None:
                values = self._add_series((name, *labels))
            values[0] += by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Add one duration to a family with buckets."""
        at = bisect.bisect_left(FAMILIES[name].buckets, seconds)
        with self._guard:
            values = self._series.get((name, *labels))
            if values is None:
                values = self._add_series((name, *labels))
            values[at] += 1.0
            values[-1] += seconds

    def _add_series(self, key: Key) -> Any:
        """Return the values of a new series: one for each bucket, and a sum at the end."""
        size = size_of(key[0])
        values = array("d", [0.0]) * size if self._pool is None else self._shared_values(key, size)
        self._series[key] = values
        return values

    def _shared_values(self, key: Key, size: int) -> Any:
        assert self._pool is not None
        # One record of each family is reserved for series that come too late.
        if self._taken >= _RECORDS - len(_ORDER):
            key = (key[0], *(_OTHER for _ in key[1:]))
            if key in self._series:
                return self._series[key]
        name, values = self._pool.record(self._place, self._taken)
        self._taken += 1
        packed = _pack_key(key)
        # The first byte marks a record as in use; it is written last, for readers.
        name[1 : len(packed)] = packed[1:]
        name[0] = packed[0]
        self._series[key] = values[:size]
        return self._series[key]

    def series(self) -> dict[Key, list[float]]:
        """Return the sums over all processes that share memory with this one."""
        if self._pool is None:
            with self._guard:
                return {key: list(values) for key, values in self._series.items()}
        found: dict[Key, list[float]] = {}
        for board in range(self._pool.boards):
            for key, values in self._pool.read(board):
                known = found.setdefault(key, [0.0] * size_of(key[0]))
                for place in range(len(known)):
                    known[place] += values[place]
        return found

    def snapshot(self) -> Json:
        """Return all counts as JSON, by the names of their metrics.

        Each series has its labels, and ``value`` or (with buckets) ``count``, ``sum`` and
        ``buckets``: the numbers of observations up to each bound.
        """
        found: Json = {}
        for key, values in sorted(self.series().items()):
            name, labels = key[0], dict(zip(FAMILIES[key[0]].labels, key[1:], strict=True))
            found.setdefault(name, []).append({**labels, **_values_json(name, values)})
        return found


def size_of(name: str) -> int:
    """Return the number of values of one series of a metric."""
    buckets = FAMILIES[name].buckets
    return len(buckets) + 2 if buckets else 1


def _values_json(name: str, values: Sequence[float]) -> Json:
    buckets = FAMILIES[name].buckets
    if not buckets:
        return {"value": int(values[0])}
    counts, sums = values[:-1], []
    for place in range(len(counts)):
        sums.append(int(sum(counts[: place + 1])))
    bounds = [*(f"{bound:g}" for bound in buckets), "+Inf"]
    return {
        "count": sums[-1],
        "sum": round(values[-1], 6),
        "buckets": [{"le": le, "value": value} for le, value in zip(bounds, sums, strict=True)],
    }


def _pack_key(key: Key) -> bytes:
    """Return a key as bytes: the family's number from 1, and the labels, cut to fit."""
    labels = "\0".join(key[1:]).encode("ascii", "replace")
    return bytes([_ORDER.index(key[0]) + 1]) + labels[: _KEY_BYTES - 1]


def _unpack_key(packed: bytes) -> Key:
    name = _ORDER[packed[0] - 1]
    some = packed[1:].rstrip(b"\0").decode("ascii").split("\0")
    wanted = len(FAMILIES[name].labels)
    return (name, *(some + [""] * wanted)[:wanted])


class Watch:
    """A stopwatch that starts when it is made."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """The elapsed seconds."""
        return time.monotonic() - self._begun


BOARD = Board()
"""The counts of this process."""


# Counts of this process's calls to BMCs, with retries, failures and latencies.
#
# Drivers count at the single function through which all their calls pass.

OK, ERROR, SILENCE = "ok", "error", "silence"
"""Results of a call: success, an error that the BMC reported, no usable answer."""


@dataclasses.dataclass(slots=True)
class BmcCall:
    """One call under way; the caller sets its result and the answer in a few words."""

    result: str = SILENCE
    answer: str = "no answer"


class BmcCounters:
    """Counts of calls to BMCs, on a board of their own; any thread may count."""

    def __init__(self) -> None:
        self._since = clock.now()
        self._board = Board()

    @contextlib.contextmanager
    def call(
        self, kind: str, operation: str, what: str | None = None, *, reads: bool = False
    ) -> Iterator[BmcCall]:
        """Count the call made in this block, and its duration; add it to the run's log.

        :param kind: of the BMC, such as ``redfish``.
        :param operation: one of few, such as ``GET``: each is counted by itself.
        :param what: the operation with its object, such as ``GET /redfish/v1``, without secrets.
        :param reads: the call changes nothing.
        """
        made, watch = BmcCall(), Watch()
        try:
            yield made
        finally:
            seconds = watch.seconds
            self.note(kind, operation, made.result, seconds)
            text = f"{what or operation} {made.answer} {seconds:.3f} s"
            log_lines.note_run_line("bmc", text, minor=reads and made.result == OK)

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


BMCS = BmcCounters()
"""The counts of this process."""
