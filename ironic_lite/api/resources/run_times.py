"""Usual durations of a run's steps, overdue steps, and the expected end of a run."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ironic_lite.api.service import Service
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries import nodes, overdue
from ironic_lite.domain import step_times
from ironic_lite.domain.step_times import Eta, Remaining, Usual
from ironic_lite.records import Run, RunStep

MACHINE = ("driver", "resource_class")
"""Columns of a node that decide which durations are usual."""
_OPEN = ("running", "waiting")


class RunTimes:
    """Predictions for one run, from earlier steps: one statement for those that are not known.

    A run that has ended has no predictions, and costs no statement.

    :param machine: columns `MACHINE` of the node; None reads them.
    """

    def __init__(
        self, service: Service, run: Run, steps: Sequence[RunStep], machine: JsonView | None
    ) -> None:
        self._run = run
        self._steps = steps
        self._now = clock.now()
        self._usual: list[Usual | None] = [None] * len(steps)
        if run["state"] not in _OPEN or not steps:
            return
        if machine is None:
            machine = service.database.read(lambda conn: nodes.get(conn, run["node_uuid"], MACHINE))
        driver, resource_class = ((machine or {}).get(name) for name in MACHINE)
        names = [(step["interface"], step["step"]) for step in steps]
        known = service.usual.of_all(names, driver, resource_class)
        self._usual = [known[name] for name in names]

    @property
    def steps(self) -> list[Json]:
        """The keys of each step: usual_seconds and overdue; null if the run has ended."""
        return [
            {
                "usual_seconds": usual.document if usual is not None else None,
                "overdue": self._overdue(step, usual),
            }
            for step, usual in zip(self._steps, self._usual, strict=True)
        ]

    @property
    def overdue(self) -> Json | None:
        """The overdue step of the run: step, since, usual_p90; None without one."""
        for step, times in zip(self._steps, self.steps, strict=True):
            if times["overdue"] is not None:
                title = f"{step['interface']}.{step['step']}"
                return {"step": title, **times["overdue"]}
        return None

    @property
    def eta(self) -> Json | None:
        """The key of the run; None if it has ended, or a remaining step has too few samples."""
        if self._run["state"] not in _OPEN:
            return None
        found = step_times.eta(self._remaining(), self._now)
        return _eta_document(found) if found is not None else None

    def _remaining(self) -> list[Remaining]:
        return [
            Remaining(usual, self._elapsed(step) if step["state"] in _OPEN else 0.0)
            for step, usual in zip(self._steps, self._usual, strict=True)
            if step["state"] in (*_OPEN, "pending")
        ]

    def _elapsed(self, step: RunStep) -> float:
        started: datetime.datetime = step["started_at"] or self._now
        return max(0.0, (self._now - started).total_seconds())

    def _overdue(self, step: RunStep, usual: Usual | None) -> Json | None:
        if self._run["state"] not in _OPEN or step["state"] not in _OPEN:
            return None
        found = step_times.overdue_of(usual, step["started_at"], self._now)
        if found is not None:
            return {"since": found.since, "usual_p90": found.usual_p90}
        if not overdue.is_marked(step):
            return None
        # By a deadline, or by samples that have changed.
        return {"since": step["overdue_at"], "usual_p90": usual.p90 if usual else None}


def _eta_document(found: Eta) -> Json:
    return {
        "ends_at": found.ends_at,
        "late_at": found.late_at,
        "samples": found.samples,
        "of": ", ".join(found.of),
    }
