"""Count the runs and steps that end, for Prometheus, when their end has been committed.

How long they took is known of those that this process saw begin: nothing is read for it. Of the
others the end is counted, a run's under the verb ``unknown``.
"""

from __future__ import annotations

import datetime
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any

from ironic_lite import metrics

Row = Mapping[str, Any]

_MOST = 50_000
"""Runs and steps under way that are remembered; beyond it, the oldest are forgotten."""


class Meter:
    """What is under way in this process; any thread may tell."""

    def __init__(self, board: metrics.Board = metrics.BOARD) -> None:
        self._board = board
        self._begun: OrderedDict[Hashable, tuple[str, datetime.datetime]] = OrderedDict()
        self._guard = threading.Lock()

    def run(self, run_uuid: str, row: Row) -> None:
        """Take what has been written of a run: verb and started_at, or state and ended_at."""
        if "verb" in row:
            self._begin(run_uuid, row["verb"], row["started_at"])
        if row.get("ended_at") is None:
            return
        verb, begun = self._end(run_uuid) or ("unknown", None)
        self._board.count("runs_total", verb, row["state"])
        if begun is not None:
            seconds = max(0.0, (row["ended_at"] - begun).total_seconds())
            self._board.observe("run_seconds", seconds, verb)

    def step(self, run_uuid: str, kind: str, ordinal: int, row: Row) -> None:
        """Take what has been written of a step: started_at, or state and ended_at."""
        key = (run_uuid, kind, ordinal)
        if row.get("started_at") is not None:
            self._begin(key, kind, row["started_at"])
        if row.get("ended_at") is None:
            return
        known = self._end(key)
        self._board.count("steps_total", kind, row["state"])
        if known is not None:
            seconds = max(0.0, (row["ended_at"] - known[1]).total_seconds())
            self._board.observe("step_seconds", seconds, kind)

    def _begin(self, key: Hashable, what: str, at: datetime.datetime) -> None:
        with self._guard:
            self._begun[key] = (what, at)
            if len(self._begun) > _MOST:
                self._begun.popitem(last=False)

    def _end(self, key: Hashable) -> tuple[str, datetime.datetime] | None:
        with self._guard:
            return self._begun.pop(key, None)


METER = Meter()
"""Of this process."""
