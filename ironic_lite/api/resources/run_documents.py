"""Documents of runs and of their steps."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ironic_lite.api.resources import queries, views
from ironic_lite.api.service import Service
from ironic_lite.api.wire import links
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import runs
from ironic_lite.records import Run, RunStep

_HIDDEN = ("id", "run_uuid")  # internal columns of a step


def show(
    service: Service,
    request: Request,
    node_uuid: str,
    row: Run,
    names: Sequence[str] | None = None,
) -> Json:
    """Return the document of one run; one statement for its steps.

    :param row: all columns of the run.
    :param names: the fields to show, None for all.
    """
    chosen = tuple(names or (field.name for field in queries.RUN.table))
    shown = views.plan(views.RUNS, chosen, request.version, full=False)
    full: Json = {**row}
    kept = {column: full[column] for column in shown.columns}
    if "steps" in shown.computed:
        found = service.database.read(lambda conn: runs.steps(conn, row["uuid"]))
        kept["steps"] = [_step(step) for step in found]
    return several(request, node_uuid, shown, [kept])[0]


def several(request: Request, node_uuid: str, plan: views.Plan, rows: list[Json]) -> list[Json]:
    """Return the documents of a node's runs; ``rows`` have the plan's columns."""
    linker = links.Linker(request.base, f"nodes/{node_uuid}/runs")
    return plan.show_all(rows, linker, _compute if "duration_seconds" in plan.computed else None)


def _compute(row: Json) -> None:
    row["duration_seconds"] = _seconds(row["started_at"], row["ended_at"])


def _seconds(start: datetime.datetime | None, end: datetime.datetime | None) -> float | None:
    """Return the duration in seconds, up to now without an end; None without a start."""
    if start is None:
        return None
    return round(max(0.0, ((end or clock.now()) - start).total_seconds()), 3)


def _step(row: RunStep) -> Json:
    """Return the document of a step; secret arguments are masked."""
    shown = {name: value for name, value in row.items() if name not in _HIDDEN}
    shown["args"] = masking.mask(row["args"])
    priority = row["priority"]
    shown["priority"] = int(priority) if float(priority).is_integer() else priority
    shown["duration_seconds"] = _seconds(row["started_at"], row["ended_at"])
    return shown
