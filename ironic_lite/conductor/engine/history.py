"""History of a task, written with its next save: events, runs with their steps, and logs of runs.

Rows are collected here and written in the transaction that changes the node. So history can neither
miss a change nor report one that did not happen (invariants 1 and 3).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import threading
import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.engine.notes import Notes
from ironic_lite.core import clock, log_lines, masking, metrics
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.core.masking import TextMask
from ironic_lite.core.slots import Newest
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, runs
from ironic_lite.domain import (
    activities,
    causes,
    erasure_records,
    failures,
    history,
    retries,
    run_log,
    states,
    steps,
)
from ironic_lite.domain.activities import StepActivity
from ironic_lite.domain.retries import Action, Decision, FailedRun, Stored
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import Node, StoredStep

# Lines of one piece of work for the log of its run, written with the next save.
#
# Lines gather in memory, so they cost no transaction. A crash loses those since the last save,
# which the log of the conductor has.

LOG_LIMIT = 256 * 1024
"""Bytes of lines of one run."""
_UNWRITTEN_HEAD, _UNWRITTEN_TAIL = 32 * 1024, 96 * 1024
"""Bytes of unwritten lines, from their beginning and from their end."""
_KEPT_HEAD, _KEPT_TAIL = 64 * 1024, 128 * 1024
"""Bytes of written lines that stay when a run has more than `LIMIT`."""
_MASKED_CHARACTERS = 2 * run_log.LONGEST
"""Characters of a line that are masked; fewer are shown, so no secret is cut in two."""
_BESIDE_TEXT = 40
"""Bytes of a line beside its text."""
_REMEMBERED_SIZES = 10_000


class _Line(NamedTuple):
    at: datetime.datetime
    source: str
    text: str
    minor: bool

    @property
    def size(self) -> int:
        """Return at least the bytes that the line will have."""
        length = len(self.text) if self.text.isascii() else len(self.text.encode())
        return length + _BESIDE_TEXT


class _Row(NamedTuple):
    run: str
    at: datetime.datetime
    text: str


class RunLog:
    """The unwritten lines of one piece of work; the middle is left out if there are too many."""

    def __init__(self) -> None:
        self.run: str | None = None
        """The UUID of the run that has begun or ended last in this work."""
        self._head: list[_Line] = []
        self._tail: collections.deque[_Line] = collections.deque()
        self._sizes = [0, 0]
        self._dropped = 0
        self._ready: _Row | None = None
        self._written: tuple[str, int] | None = None

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        """Take a line: see `core.log_lines.RunLineSink.add`."""
        new = _Line(clock.now(), source, log_lines.escaped(text[:_MASKED_CHARACTERS]), minor)
        if not self._tail and self._sizes[0] + new.size <= _UNWRITTEN_HEAD:
            self._head.append(new)
            self._sizes[0] += new.size
            return
        self._tail.append(new)
        self._sizes[1] += new.size
        while self._sizes[1] > _UNWRITTEN_TAIL:
            self._sizes[1] -= self._tail.popleft().size
            self._dropped += 1

    def drop_minor(self) -> None:
        """Forget all lines if they are minor ones: a poll that has found nothing new."""
        if all(one.minor for one in (*self._head, *self._tail)):
            self.settle()

    def prepare(self, node: Node) -> None:
        """Make the text of the lines, which takes longer than a transaction should."""
        run = node.run_uuid or self.run
        self._ready = None
        if run is not None and self._head:
            self._ready = _Row(run, self._head[-1].at, self._text(node))

    def write(self, conn: Connection) -> None:
        """Write the prepared lines by one statement, if any; call `settle` after the commit."""
        if self._ready is not None:
            run, at, text = self._ready
            runs.append_lines(conn, run, at=at, text=text)
            self._written = run, LOG_SIZES.limit(conn, run, len(text.encode()))

    def settle(self) -> None:
        """Forget the lines, because they are written."""
        if self._written is not None:
            LOG_SIZES.know(*self._written)
        self._head, self._dropped, self._written, self._ready = [], 0, None, None
        self._tail.clear()
        self._sizes = [0, 0]

    def _text(self, node: Node) -> str:
        """Return the lines without the secrets of the node."""
        hide = masking.mask_of_node(node)
        about = f"Node {node.uuid}: "
        lines = [*self._head, *self._tail]
        shown = [
            run_log.line(one.at, one.source, hide(one.text.removeprefix(about))) for one in lines
        ]
        if self._dropped:
            place = len(self._head)
            shown.insert(place, run_log.left_out(lines[place].at, f"{self._dropped} lines"))
        return "\n".join(shown)


class LogSizes:
    """The bytes of the logs of recent runs, so that writers need not ask. Thread-safe."""

    def __init__(self) -> None:
        self._known: Newest[str, int] = Newest(_REMEMBERED_SIZES)
        self._guard = threading.Lock()

    def know(self, run: str, size: int) -> None:
        """Remember the size of a run's log."""
        with self._guard:
            self._known[run] = size

    def known(self, run: str) -> int | None:
        """Return the size of a run's log, None if it is not remembered."""
        with self._guard:
            return self._known.get(run)

    def forget(self, run: str) -> None:
        """Forget the log of a run that has ended."""
        with self._guard:
            self._known.pop(run, None)

    def limit(self, conn: Connection, run: str, added: int) -> int:
        """Remove the middle of a log that has become too large; return its size.

        The first write of a process to a run that it has not opened asks the database for the
        size. Only a log that is too large is read.

        :param added: bytes of the row that has been written in this transaction.
        """
        known = self.known(run)
        size = runs.log_size(conn, run) if known is None else known + added
        return size if size <= LOG_LIMIT else _shorten_log(conn, run)


def _shorten_log(conn: Connection, run: str) -> int:
    """Replace the middle of a log that is too large by one line; return the size of the log.

    The line of an earlier time is in the middle again, so a log has one such line.
    """
    rows = [(one, len(one.text.encode())) for one in runs.log_rows(conn, run)]
    size = sum(length for _, length in rows)
    if size <= LOG_LIMIT:
        return size
    first, head = 0, 0
    while head + rows[first][1] <= _KEPT_HEAD and run_log.gap(rows[first][0].text) is None:
        head += rows[first][1]
        first += 1
    last, tail = len(rows), 0
    while last - 1 > first and tail + rows[last - 1][1] <= _KEPT_TAIL:
        tail += rows[last - 1][1]
        last -= 1
    gone = [one for one, _ in rows[first:last]]
    before = sum(run_log.gap(one.text) or 0 for one in gone)
    what = f"{(size - head - tail) // 1024 + before} KiB of lines"
    runs.replace_log_rows(conn, [one.id for one in gone], run_log.left_out(gone[0].at, what))
    return head + tail


LOG_SIZES = LogSizes()
"""The sizes of this process."""


# Metrics of ended runs and steps, counted when the end is committed.
#
# Durations are only known for runs and steps that this process saw begin, because nothing is read
# for them. Of other runs only the end is counted, under the verb ``unknown``. Prometheus reads the
# metrics.

_REMEMBERED_RUNS = 20_000
"""Limit of remembered runs; beyond the limit the oldest are forgotten."""


@dataclasses.dataclass(slots=True)
class _RunUnderWay:
    """A run under way; ``steps`` are those that have begun, by kind and ordinal."""

    verb: str = "unknown"
    begun: datetime.datetime | None = None
    steps: dict[tuple[str, int], datetime.datetime] = dataclasses.field(default_factory=dict)


class RunMetrics:
    """The runs under way in this process. Thread-safe."""

    def __init__(self, board: metrics.Board = metrics.BOARD) -> None:
        self._board = board
        self._runs: Newest[str, _RunUnderWay] = Newest(_REMEMBERED_RUNS)
        self._guard = threading.Lock()

    def run(self, run_uuid: str, row: RowView) -> float | None:
        """Take a written change of a run: verb and started_at, or state and ended_at.

        Report steps first: open steps of a run end with the run.

        :return: the seconds of a run that has ended, None if its begin was not seen.
        """
        with self._guard:
            if "verb" in row:
                known = self._known_run(run_uuid)
                known.verb, known.begun = row["verb"], row["started_at"]
            if row.get("ended_at") is None:
                return None
            ended = self._runs.pop(run_uuid, None) or _RunUnderWay()
        self._board.count("runs_total", ended.verb, row["state"])
        seconds = self._observe_time("run_seconds", ended.begun, row["ended_at"], ended.verb)
        for (kind, _), begun in ended.steps.items():
            self._board.count("steps_total", kind, row["state"])
            self._observe_time("step_seconds", begun, row["ended_at"], kind)
        return seconds

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

    def _known_run(self, run_uuid: str) -> _RunUnderWay:
        return self._runs.setdefault(run_uuid, _RunUnderWay())

    def _observe_time(
        self, name: str, begun: datetime.datetime | None, ended: datetime.datetime, label: str
    ) -> float | None:
        if begun is None:
            return None
        seconds = max(0.0, (ended - begun).total_seconds())
        self._board.observe(name, seconds, label)
        return seconds


METER = RunMetrics()
"""The metrics of this process."""


class Journal:
    """The unwritten history of one task on one node."""

    def __init__(self, context: Context, host: str, node: Node, log: RunLog | None = None) -> None:
        self.log = log or RunLog()
        """The lines for the log of the node's run."""
        self._node = node
        self._stood: Row | None = None
        self._who: Row = {
            "node_uuid": node.uuid,
            "conductor": host,
            **context.recorded(),
        }
        self._project = context.project
        self.opened: str | None = None
        """The UUID of the last run that was opened."""
        self.took: float | None = None
        """The seconds of the run that the last save has ended, if its begin was seen."""
        self._clear()
        log_lines.hide_also(self._hidden)

    def remember_state(self) -> None:
        """Take the node's current state for events added before the next save."""
        self._stood = history.standing(self._node)

    def settle(self) -> None:
        """Count and forget the committed rows."""
        for row in self._new_steps:
            if row["done_in"] is None:  # a kept step was counted by the run that did it
                METER.step(row["run_uuid"], row["kind"], row["ordinal"], row)
        for run_uuid, known in self._steps.items():
            for (kind, at), new in known.items():
                METER.step(run_uuid, kind, at, new)
        self.log.settle()
        for run_uuid, changes in (*self._opened_run(), *self._runs.items()):
            self.took = METER.run(run_uuid, changes)
            if changes.get("ended_at") is not None:
                LOG_SIZES.forget(run_uuid)
        self._clear()

    def _opened_run(self) -> list[tuple[str, Row]]:
        return [] if self._new_run is None else [(self._new_run["uuid"], self._new_run)]

    def _clear(self) -> None:
        self._stood = None
        self._once = False
        # The unwritten events.
        self.events: list[Row] = []
        self._new_run: Row | None = None
        self._runs: dict[str, Row] = {}
        self._dropped: list[Row] = []
        self._new_steps: list[Row] = []
        self._steps: dict[str, dict[tuple[str, int], Row]] = {}

    def snapshot(self) -> tuple[list[Row], list[Row], dict[str, dict[tuple[str, int], Row]]]:
        """Return the unwritten events and changes of steps, for `restore`."""
        known = {
            run: {at: dict(row) for at, row in rows.items()} for run, rows in self._steps.items()
        }
        return list(self.events), [dict(row) for row in self._new_steps], known

    def restore(
        self, before: tuple[list[Row], list[Row], dict[str, dict[tuple[str, int], Row]]]
    ) -> None:
        """Forget the events and changes of steps since a snapshot."""
        self.events, self._new_steps, self._steps = before

    @property
    def pending(self) -> bool:
        """True if any row waits to be written."""
        gathered = (self.events, self._runs, self._dropped, self._new_steps, self._steps)
        return self._new_run is not None or any(gathered)

    def event(self, kind: str, *, run: str | None = None, **facts: object) -> None:
        """Add an event; ``facts`` are columns of the table (event, before, after, data).

        An event that becomes an entry of the node's history also stores the node's state in its
        data.
        """
        row: Row = {"event": None, "before": None, "after": None, "data": None, **facts}
        if history.told(kind, row["event"]):
            stands = self._stood or history.standing(self._node)
            row["data"] = {**stands, "project": self._project, **(row["data"] or {})}
        about = {**self._who, **self._owners, "at": clock.now(), "kind": kind, "run_uuid": run}
        self.events.append({**about, **row})

    @property
    def _owners(self) -> Row:
        """Owner and lessee of the node, for rows that show them later to no other project."""
        return {"owner": self._node.owner, "lessee": self._node.lessee}

    @property
    def hide(self) -> TextMask:
        """The mask of texts about the node, with its present secrets."""
        return masking.mask_of_node(self._node, prose=True)

    def gathering(self, *, below: bool = False) -> contextlib.AbstractContextManager[None]:
        """Gather the lines of this thread, whose log hides the node's secrets; see `log_lines`."""
        return log_lines.gathering_run_lines(self.log, below=below, hide=self._hidden)

    def _hidden(self, text: str) -> str:
        return self.hide(text)  # with the secrets that the node has by then

    def once(self) -> None:
        """Refuse the next save if this request has already changed the node.

        Used for requests that open no run; opening a run checks this anyway.
        """
        self._once = True

    def refuse_again(self, conn: Connection) -> None:
        """Refuse a repeated request now, for work that is done before it is recorded.

        :raises errors.Conflict: the request has already changed this node.
        """
        events.refuse_again(conn, self._who["node_uuid"], self._who["request_id"])

    # -- the run -----------------------------------------------------------------------------

    def start_run(self, verb: str, **more: object) -> str:
        """Open a run and return its UUID; ``more`` are columns such as ``retry_of``."""
        run_uuid = self.opened = self.log.run = str(uuid.uuid4())
        LOG_SIZES.know(run_uuid, 0)
        self._new_run = {
            **self._who,
            **self._owners,
            "uuid": run_uuid,
            "verb": verb,
            "state": "running",
            "started_at": clock.now(),
            "ended_at": None,
            "error": None,
            "retry_of": None,
            "listed": None,
            **more,
        }
        return run_uuid

    def run(self, run_uuid: str, **changes: object) -> None:
        """Change a run: state, ended_at, error, code, conductor, listed."""
        self.log.run = run_uuid
        if self._new_run is not None and self._new_run["uuid"] == run_uuid:
            self._new_run.update(changes)
        else:
            self._runs.setdefault(run_uuid, {}).update(changes)

    # -- its steps ---------------------------------------------------------------------------

    def plan(self, run_uuid: str, kind: str, listed: list[StoredStep], *, first: int = 0) -> None:
        """Add the steps of a new list, all pending; ``first`` is the first ordinal."""
        self._new_steps += [
            {
                "run_uuid": run_uuid,
                "ordinal": ordinal,
                "kind": kind,
                "interface": step["interface"],
                "step": step["step"],
                "args": step.get("args"),
                "priority": float(step.get("priority") or 0),
                "abortable": bool(step.get("abortable", False)),
                "state": "pending",
                "attempt": 0,
                "started_at": None,
                "ended_at": None,
                "error": None,
                "done_in": None,
                "waiver": None,
            }
            for ordinal, step in enumerate(listed, first)
        ]

    def unplan(self, run_uuid: str, kind: str, *, first: int) -> None:
        """Remove the pending steps from ordinal ``first`` on; other steps replace them."""
        self._dropped.append({"run_uuid": run_uuid, "kind": kind, "first": first})

    def step(self, run_uuid: str, kind: str, ordinal: int, **changes: object) -> None:
        """Change one step: state, attempt, started_at, ended_at, error.

        Of a step that was added since the last save also done_in and waiver.
        """
        for row in self._new_steps:
            if (row["run_uuid"], row["kind"], row["ordinal"]) == (run_uuid, kind, ordinal):
                row.update(changes)
                return
        known = self._steps.setdefault(run_uuid, {})
        known.setdefault((kind, ordinal), {}).update(changes)

    # -- writing -----------------------------------------------------------------------------

    def write(self, conn: Connection) -> None:
        """Write the collected rows except the events, one statement per kind.

        Call `write_events` before the commit and `settle` after it.

        :raises errors.Conflict: the request that begins a run has one already, or repeats an action
            that is done once.
        """
        if self._once:
            self.refuse_again(conn)
        self._add_causes(conn)
        if self._new_run is not None:
            runs.insert(conn, self._new_run)
        for run_uuid, changes in self._runs.items():
            runs.update(conn, run_uuid, changes)
        for gone in self._dropped:
            runs.drop_pending(conn, **gone)
        if self._new_steps:
            runs.insert_steps(conn, self._new_steps)
        for run_uuid, known in self._steps.items():
            rows = [{"kind": kind, "ordinal": at, **new} for (kind, at), new in known.items()]
            runs.update_steps(conn, run_uuid, rows)
        self._end_steps(conn)
        self.log.write(conn)

    def _add_causes(self, conn: Connection) -> None:
        """Add the cause to failed runs and to the events of their moves."""
        for run_uuid, changes in (*self._opened_run(), *self._runs.items()):
            if not changes.get("error"):
                continue
            verb = changes.get("verb") or runs.verb(conn, run_uuid)
            about = {name: getattr(self._node, name) for name in causes.NODE_COLUMNS}
            changes["cause"] = causes.of_error(verb, changes["error"], about)
            for event in self.events:
                if event["run_uuid"] == run_uuid and event["kind"] == "provision":
                    event["data"] = {**(event["data"] or {}), "cause": changes["cause"]}

    def write_events(self, conn: Connection, *, lost_parent: Iterable[str] = ()) -> None:
        """Write the collected events, as the last statement of the transaction.

        So the time between the number of an event and its commit is short, and followers wait
        briefly for it (`feed.horizon`).

        :param lost_parent: the children of this node, which was deleted; each gets an event.
        """
        left = history.changes({"parent_node": self._node.uuid}, {"parent_node": None})
        data = {"fields": ["parent_node"], "changes": left}
        about = {"kind": "node_updated", "at": clock.now(), "data": data}
        more = [{**self._who, **about, "node_uuid": child} for child in lost_parent]
        events.add(conn, [*map(self.masked, self.events), *more])

    def masked(self, event: Row) -> Row:
        """Return an event without the node's secrets in its error."""
        if not (event["data"] or {}).get("error"):
            return event
        return {**event, "data": history.hidden(event["data"], self.hide)}

    def _end_steps(self, conn: Connection) -> None:
        """End the steps that a failed run leaves running or pending."""
        for run_uuid, changes in self._runs.items():
            if changes.get("state") in ("failed", "aborted"):
                why = {"state": changes["state"], "error": changes.get("error")}
                runs.end_steps(conn, run_uuid, at=changes["ended_at"], **why)


# The record of a node's run: its begin and end, and those of its list of steps.


class RunRecord:
    """The run of one node; the journal writes it with the next save."""

    def __init__(self, node: Node, journal: Journal, host: str) -> None:
        self._node = node
        self._notes = Notes(node)
        self._journal = journal
        self._host = host
        self._listed: Stored | None = None
        self._retries = self._notes.retries
        self._continued: tuple[FailedRun, Sequence[Decision] | None] | None = None
        self._flow, self._found_step = self._under_way()

    def open(self, verb: str, before: State, after: State) -> None:
        """Open a run, which takes the place of a waiting one."""
        if self._node.run_uuid is not None:
            text = f"The verb {verb} took the place of this run while the node was in {before}."
            error = errors.Aborted(text, action=str(before), where="", step=self._found_step)
            self._end_run(self._node.run_uuid, error, aborted=True)
        if states.kind(after) is Kind.BUSY:
            self._node.last_error = None
        self._listed = None
        if self._continued is None:
            self._notes.automatic_retries = 0
            self._retries = False
            self._node.run_uuid = self._journal.start_run(verb)
        else:
            self._node.run_uuid = self._open_retry(verb, *self._continued)
            self._continued = None

    def retry_of(self, failed: FailedRun, decisions: Sequence[Decision] | None) -> None:
        """Have the next run continue a failed one: with its list, and these decisions about it.

        :param decisions: None if the next run makes a list of its own.
        """
        self._continued = (failed, decisions)

    def _open_retry(
        self, verb: str, failed: FailedRun, decisions: Sequence[Decision] | None
    ) -> str:
        stored = failed.continued(decisions or ())
        self._retries = True
        run = self._journal.start_run(verb, retry_of=failed.uuid, listed=stored.as_json())
        if decisions is None:
            return run
        self._journal.plan(run, stored.kind, list(stored.steps))
        for ordinal, one in enumerate(decisions):
            self._journal.step(run, stored.kind, ordinal, **one.record)
            if one.action is Action.WAIVE:
                facts = {"step": steps.title(stored.steps[ordinal]), "ordinal": ordinal}
                data = {**facts, **one.facts["waiver"]}
                fallen = erasure_records.after_waiver(self._node.data_state, stored.steps[ordinal])
                if fallen is not None:
                    self._node.data_state = str(fallen)
                    self._node.data_state_at, self._node.data_state_by = clock.now(), run
                    change = {"before": "clean", "after": str(fallen)}
                    self._journal.event("data_state", run=run, **change)
                self._journal.event("step_waived", run=run, event=stored.kind, data=data)
        return run

    def moved(
        self,
        event: str,
        before: State,
        after: State,
        error: errors.Error | None,
        *,
        aborted: bool,
    ) -> None:
        """Record a move of the node; a move to a state of rest ends the run."""
        run, kind = self._node.run_uuid, states.kind(after)
        if run is None:
            pass
        elif kind is Kind.BUSY:
            if states.kind(before) in (Kind.WAIT, Kind.HELD):
                self._journal.run(run, state="running", conductor=self._host)
        elif kind in (Kind.WAIT, Kind.HELD):
            self._journal.run(run, state="waiting")
        else:
            self._end_run(run, error, aborted=aborted)
        data = {"error": error.message} if error else None
        self._journal.event(
            "provision", run=run, event=event, before=str(before), after=str(after), data=data
        )

    def end(self, run: str, error: errors.Error | None = None) -> None:
        """Record that a run has succeeded or failed without a move of the node."""
        self._end_run(run, error, aborted=False)

    def begin_flow(self, activity: StepActivity, listed: Sequence[StoredStep]) -> None:
        """Record that these steps will run; `moved` records their end."""
        anew, self._flow = self._flow is not None, self._flow_of(activity)
        data = {"steps": [steps.title(step) for step in listed], "anew": anew}
        run = self._node.run_uuid
        self._journal.event("flow_started", run=run, event=self._flow, data=data)
        self.take_list(activity, listed)

    def take_list(self, activity: StepActivity, listed: Sequence[StoredStep]) -> None:
        """Take the list of the run, which is stored if the run fails."""
        if activity.failed is None:
            return
        self._listed = Stored(
            str(activity.kind),
            list(listed),
            first=self._notes.first_ordinal,
            ramdisk=self._notes.boots_ramdisk(activity.kind),
            requested=self._notes.requested_steps(activity.kind) is not None,
            runbook=self._notes.runbook,
            complete=self._notes.list_complete,
            inputs=self._notes.list_inputs,
            doubt=self._notes.in_doubt,
        )

    def retry_pause(self, error: errors.Error, most: int) -> float | None:
        """Return the seconds after which the service retries the failed run; None for never.

        :param most: ``[conductor]automatic_retries``.
        """
        stored = self._listed is not None or self._retries
        retryable = stored and failures.record(error)["retryable"]
        return retries.automatic_pause(self._notes.automatic_retries, most) if retryable else None

    def _end_run(self, run: str, error: errors.Error | None, *, aborted: bool) -> None:
        state = "aborted" if aborted else "failed" if error else "done"
        about: Json = {}
        if error is not None:
            about = {**failures.record(error, self._journal.hide), "step": error.facts.get("step")}
        changes: Row = {"state": state, "ended_at": clock.now()}
        changes |= {"error": about or None, "code": failures.code(about)}
        if error is not None and self._listed is not None:
            changes["listed"] = self._listed.as_json()
        self._journal.run(run, **changes)
        self._node.run_uuid = None
        if self._flow is not None:
            data = {"outcome": state, "step": about.get("step")}
            self._journal.event("flow_ended", run=run, event=self._flow, data=data)
            self._flow = None

    def _under_way(self) -> tuple[str | None, str | None]:
        """Return the flow that this task found begun, and its current step."""
        activity = activities.stepping(self._node.provision_state)
        index = None if activity is None else self._notes.index(activity.kind)
        if activity is None or (index is None and not self._notes.paused):
            return None, None
        listed = self._notes.listed(activity.kind)
        self.take_list(activity, listed)
        if index is None:
            return self._flow_of(activity), None
        return self._flow_of(activity), steps.title(listed[index]) if index < len(listed) else None

    def _flow_of(self, activity: StepActivity) -> str:
        manual = activity.manual_flow if self._notes.manual(activity.kind) else None
        return manual or activity.flow
