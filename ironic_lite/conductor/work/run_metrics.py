"""Metrics of ended runs and steps, counted when the end is committed.

Durations are only known for runs and steps that this process saw begin, because nothing is read for
them. Of other runs only the end is counted, under the verb ``unknown``. Prometheus reads the
metrics.
"""

from __future__ import annotations

import dataclasses
import datetime
import threading
from collections import OrderedDict

from ironic_lite.core import metrics
from ironic_lite.core.json_types import RowView

_MOST = 20_000
"""Limit of remembered runs; beyond the limit the oldest are forgotten."""


@dataclasses.dataclass(slots=True)
class _Run:
    """A run under way; ``steps`` are those that have begun, by kind and ordinal."""

    verb: str = "unknown"
    begun: datetime.datetime | None = None
    steps: dict[tuple[str, int], datetime.datetime] = dataclasses.field(default_factory=dict)


class RunMetrics:
    """The runs under way in this process. Thread-safe."""

    def __init__(self, board: metrics.Board = metrics.BOARD) -> None:
        self._board = board
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._guard = threading.Lock()

    def run(self, run_uuid: str, row: RowView) -> None:
        """Take a written change of a run: verb and started_at, or state and ended_at.

        Report steps first: open steps of a run end with the run.
        """
        with self._guard:
            if "verb" in row:
                known = self._known_run(run_uuid)
                known.verb, known.begun = row["verb"], row["started_at"]
            if row.get("ended_at") is None:
                return
            ended = self._runs.pop(run_uuid, None) or _Run()
        self._board.count("runs_total", ended.verb, row["state"])
        self._observe_time("run_seconds", ended.begun, row["ended_at"], ended.verb)
        for (kind, _), begun in ended.steps.items():
            self._board.count("steps_total", kind, row["state"])
            self._observe_time("step_seconds", begun, row["ended_at"], kind)

    def step(self, run_uuid: str, kind: str, ordinal: int, row: RowView) -> None:
        """Take a written change of a step: started_at, or state and ended_at."""
        with self._guard:
            if row.get("started_at") is not None:
                self._known_run(run_uuid).steps[kind, ordinal] = row["started_at"]
            if row.get("ended_at") is None:
                return
            known = self._runs.get(run_uuid)
            begun = known.steps.pop((kind, ordinal), None) if known is not None else None
        self._board.count("steps_total", kind, row["state"])
        self._observe_time("step_seconds", begun, row["ended_at"], kind)

    def _known_run(self, run_uuid: str) -> _Run:
        known = self._runs.setdefault(run_uuid, _Run())
        if len(self._runs) > _MOST:
            self._runs.popitem(last=False)
        return known

    def _observe_time(
        self, name: str, begun: datetime.datetime | None, ended: datetime.datetime, label: str
    ) -> None:
        if begun is not None:
            self._board.observe(name, max(0.0, (ended - begun).total_seconds()), label)


METER = RunMetrics()
"""The metrics of this process."""
