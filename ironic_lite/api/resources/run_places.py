"""Step, expected end and stop of each run under way in a list, where a caller names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ironic_lite.api.resources import run_documents, views
from ironic_lite.api.resources.run_times import RunTimes
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import run_steps
from ironic_lite.domain.run_stops import Stop
from ironic_lite.records import Run

_OPEN = ("running", "waiting")


def add(service: Service, request: Request, plan: views.Plan, rows: Sequence[Json]) -> None:
    """Add ``place``, ``eta`` and ``stop`` to the rows of runs under way, as the plan shows them.

    The reason of a stop is shown to the projects of the time of its run. One statement for all
    steps, and one for each 50 names of steps whose durations are not known.

    :param rows: with uuid and state; other runs than those under way stay as they are.
    """
    wanted = {"place", "eta", "stop"} & plan.computed
    under_way = [row for row in rows if row["state"] in _OPEN] if wanted else []
    if not under_way:
        return
    uuids = [row["uuid"] for row in under_way]
    known = service.database.read(lambda conn: run_steps.of_runs(conn, uuids))
    names = [(step["interface"], step["step"]) for steps, _ in known.values() for step in steps]
    if "eta" in wanted:
        service.usual.of_all(names, None, None)  # all at once, for the look-ups that follow
    for row in under_way:
        steps, machine = known.get(row["uuid"], ([], {}))
        if "place" in wanted:
            row["place"] = _place(steps)
        if "stop" in wanted:
            stop = Stop.read(machine.get("run_stop"), row["uuid"])
            if stop is not None and not request.access.reads(run_documents.READ, machine):
                stop = stop.without_reason
            row["stop"] = stop and stop.document
        if "eta" in wanted and steps:
            row["eta"] = RunTimes(service, cast(Run, row), steps, machine).eta


def _place(steps: Sequence[run_steps.Step]) -> Json | None:
    """Return where a run is: its step under way among the steps of the same list."""
    now = next((step for step in steps if step["state"] in _OPEN), None)
    if now is None:
        return None
    return {
        "ordinal": now["ordinal"],
        "of": sum(step["kind"] == now["kind"] for step in steps),
        **{name: now[name] for name in ("interface", "step", "attempt")},
        "since": now["started_at"],
    }
