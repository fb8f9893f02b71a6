"""Documents of runs and of their steps."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import NamedTuple, cast

from ironic_lite import errors
from ironic_lite.api.http import refusals
from ironic_lite.api.http.request import Piece, Request
from ironic_lite.api.resources import views
from ironic_lite.api.service import Service
from ironic_lite.core import clock, masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import events as stored_events
from ironic_lite.db.queries import nodes, runs, step_durations
from ironic_lite.domain import run_log, step_times
from ironic_lite.domain.run_stops import Stop
from ironic_lite.domain.step_times import Eta, Remaining, Usual
from ironic_lite.records import Event, Run, RunStep

# Usual durations of a run's steps, overdue steps, and the expected end of a run.

MACHINE = ("driver", "resource_class")
"""Columns of a node that decide which durations are usual."""
_OPEN = ("running", "waiting")


class RunTimes:
    """Usual times for one run, from all ended steps: one statement for those that are not known.

    A run that has ended has no predictions.

    :param machine: columns `MACHINE` of the node; None reads them.
    """

    def __init__(
        self, service: Service, run: Run, steps: Sequence[RunStep], machine: JsonView | None
    ) -> None:
        self._run = run
        self._steps = steps
        self._now = clock.now()
        self._usual: list[Usual | None] = [None] * len(steps)
        if not steps:
            return
        if machine is None:
            machine = service.database.read(lambda conn: nodes.get(conn, run["node_uuid"], MACHINE))
        driver, resource_class = ((machine or {}).get(name) for name in MACHINE)
        names = [(step["interface"], step["step"]) for step in steps]
        known = service.usual.of_all(names, driver, resource_class)
        self._usual = [known[name] for name in names]

    @property
    def steps(self) -> list[Json]:
        """The keys of each step: usual_seconds; overdue, null if the run has ended."""
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
        if not step_durations.is_marked_overdue(step):
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


READ = "baremetal:node:runs:get"
READ_OF_FLEET = "baremetal:run:get"
"""The rules for reading the runs of a caller's own project, below the node and in /v1/runs."""
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

    One statement for its steps, one for its batch, and one for the usual durations of the steps if
    those are not known.

    :param row: all columns of the run.
    :param names: the fields to show, None for all.
    :param machine: columns `run_times.MACHINE` of the node; None reads them by one statement.
    :param resource: ``views.RUNS`` for a run of the fleet; ``machine`` then has the name, too.
    """
    of_fleet = resource is views.RUNS
    chosen = tuple(names or (field.name for field in resource.table))
    mine = request.access.reads(READ_OF_FLEET if of_fleet else READ, row)
    row = row if mine else {**row, "error": None, "code": None, "cause": None}
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
    for each in service.extensions:
        for name in each.of_runs.keys() & shown.computed:
            kept[name] = each.of_runs[name](service, request, row)
    return several(request, None if of_fleet else node_uuid, shown, [kept])[0]


def several(
    request: Request, node_uuid: str | None, plan: views.Plan, rows: list[Json]
) -> list[Json]:
    """Return the documents of runs: of a node, or None for the fleet; ``rows`` as the plan."""
    place = "runs" if node_uuid is None else f"nodes/{node_uuid}/runs"
    linker = refusals.Linker(request.base, place)
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


# Step, expected end and stop of each run under way in a list, where a caller names them.


def add_places(service: Service, request: Request, plan: views.Plan, rows: Sequence[Json]) -> None:
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
    known = service.database.read(lambda conn: runs.steps_with_nodes(conn, uuids))
    names = [(step["interface"], step["step"]) for steps, _ in known.values() for step in steps]
    if "eta" in wanted:
        service.usual.of_all(names, None, None)  # all at once, for the look-ups that follow
    for row in under_way:
        steps, machine = known.get(row["uuid"], ([], {}))
        if "place" in wanted:
            row["place"] = _run_place(steps)
        if "stop" in wanted:
            stop = Stop.read(machine.get("run_stop"), row["uuid"])
            if stop is not None and not request.access.reads(READ, machine):
                stop = stop.without_reason
            row["stop"] = stop and stop.document
        if "eta" in wanted and steps:
            row["eta"] = RunTimes(service, cast(Run, row), steps, machine).eta


def _run_place(steps: Sequence[runs.Step]) -> Json | None:
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


# Read the log of a run: its events and its stored lines, joined by time.

MOST_LOG_EVENTS = 1000
"""Events at the beginning, and as many at the end, that a log shows."""
_RECENT = 60.0
_NO_END = (1 << 62) - 1
_ENDED = frozenset({"done", "failed", "aborted"})


class _Found(NamedTuple):
    """Events and stored lines of a run."""

    events: list[Event]
    stored: list[runs.StoredLines]


class LogReader:
    """Reads the log of one run; each call returns what has been added since the one before.

    The lines of a run are written by the holder of the node's lock, one transaction after the
    other, so an id is never visible before a smaller one. Some events come without the lock, such
    as those of sweeps: events of the last `_RECENT` seconds are read again.
    """

    def __init__(self, database: Database, run: Run) -> None:
        self._database = database
        self._run, self._node = run["uuid"], run["node_uuid"]
        self._event = self._row = 0
        self._told: set[int] = set()
        self._writer = run_log.RunLogWriter()

    def piece(self) -> Piece:
        """Return the next part; it is the last one once the run has ended or been removed."""

        def read(conn: Connection) -> tuple[bool, _Found]:
            try:
                last = runs.get(conn, self._run)["state"] in _ENDED
            except errors.NotFound:
                last = True
            return last, self._read(conn)

        last, found = self._database.read(read)
        return Piece(_log_text(self._lines(found)), last)

    def text(self) -> str:
        """Return the next part; two statements."""
        return _log_text(self._lines(self._database.read(self._read)))

    def _read(self, conn: Connection) -> _Found:
        """Read on without a change of this object, because reads are repeated after a fault."""
        return _Found(self._events(conn), runs.log_rows(conn, self._run, after=self._row))

    def _lines(self, found: _Found) -> list[str]:
        """Return the new lines, and go on after them."""
        events = self._new_events(found.events)
        self._row = max((one.id for one in found.stored), default=self._row)
        told = self._writer.lines(events[:MOST_LOG_EVENTS])
        if len(events) > MOST_LOG_EVENTS:
            told.append(run_log.left_out(events[MOST_LOG_EVENTS]["at"], "events"))
            told += self._writer.lines(events[MOST_LOG_EVENTS:])
        return run_log.merge(told, (one.text for one in found.stored))

    def _new_events(self, found: list[Event]) -> list[Event]:
        new = [one for one in found if one["id"] not in self._told]
        before = clock.ago(_RECENT)
        self._event = max((one["id"] for one in found if one["at"] < before), default=self._event)
        self._told = {one["id"] for one in found if one["id"] > self._event}
        return new

    def _events(self, conn: Connection) -> list[Event]:
        """Return the events of the run after the cursor; of many, the first and the newest."""
        found = _events_of(conn, self._node, self._run, after=self._event)
        if len(found) == MOST_LOG_EVENTS:
            found += _events_of(
                conn,
                self._node,
                self._run,
                after=found[-1]["id"],
                newest=True,
                limit=MOST_LOG_EVENTS,
            )
        return found


def _events_of(
    conn: Connection,
    node: str,
    run: str,
    *,
    after: int = 0,
    newest: bool = False,
    limit: int = MOST_LOG_EVENTS,
) -> list[Event]:
    where = {"node_uuid": (node,), "run_uuid": (run,)}
    found = stored_events.feed_page(
        conn, after=after, upto=_NO_END, limit=limit, newest=newest, **where
    )
    return [cast(Event, row) for row in found]


def _log_text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
