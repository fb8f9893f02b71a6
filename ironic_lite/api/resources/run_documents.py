"""Documents of runs and of their steps."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ironic_lite.api.resources import views
from ironic_lite.api.resources.run_times import RunTimes
from ironic_lite.api.service import Service
from ironic_lite.api.wire import links
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries import runs
from ironic_lite.records import Run, RunStep

READ = "baremetal:node:runs:get"
READ_OF_FLEET = "baremetal:run:get"
"""The rules for reading the runs of a caller's own project, below the node and in /v1/runs."""
_OPEN = ("running", "waiting")
_HIDDEN = ("id", "run_uuid", "overdue_at")  # columns not shown


def visible(request: Request, row: Run, rule: str = READ) -> bool:
    """Return whether the caller may see a run of a node that it may see.

    A run under way refuses verbs, so it is for all who may see the node. One that has ended is for
    the projects of its time. A request that has waited for its end sees that, too.

    :param rule: for the caller's own runs.
    """
    seen = request.call.notes.setdefault(_SEEN, [])
    if row["state"] in _OPEN:
        seen.append(row["uuid"])
    return row["uuid"] in seen or request.access.reads(rule, row)


_SEEN = "runs_seen"


def show(
    service: Service,
    request: Request,
    node_uuid: str,
    row: Run,
    names: Sequence[str] | None = None,
    *,
    machine: JsonView | None = None,
    resource: views.Resource = views.NODES_RUNS,
) -> Json:
    """Return the document of one run; a run of another project without its steps and its error.

    One statement for its steps, and one for their usual durations if those are not known.

    :param row: all columns of the run.
    :param names: the fields to show, None for all.
    :param machine: columns `run_times.MACHINE` of the node; None reads them by one statement.
    :param resource: ``views.RUNS`` for a run of the fleet; ``machine`` then has the name, too.
    """
    of_fleet = resource is views.RUNS
    chosen = tuple(names or (field.name for field in resource.table))
    mine = request.access.reads(READ_OF_FLEET if of_fleet else READ, row)
    row = row if mine else {**row, "error": None, "code": None}
    shown = views.plan(resource, chosen, request.version, full=False)
    full: Json = {**row, "node_name": (machine or {}).get("name")}
    kept = {column: full[column] for column in shown.columns}
    if not mine and "steps" in shown.computed:
        kept["steps"] = []
    elif mine and {"steps", "eta"} & shown.computed:
        found = service.database.read(lambda conn: runs.steps(conn, row["uuid"]))
        times = RunTimes(service, row, found, machine)
        known = {
            "steps": [_step(step) | more for step, more in zip(found, times.steps, strict=True)],
            "eta": times.eta,
        }
        kept |= {name: value for name, value in known.items() if name in shown.computed}
    return several(request, None if of_fleet else node_uuid, shown, [kept])[0]


def several(
    request: Request, node_uuid: str | None, plan: views.Plan, rows: list[Json]
) -> list[Json]:
    """Return the documents of runs: of a node, or None for the fleet; ``rows`` as the plan."""
    place = "runs" if node_uuid is None else f"nodes/{node_uuid}/runs"
    linker = links.Linker(request.base, place)
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
