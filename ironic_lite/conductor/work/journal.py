"""History of a task, written with its next save.

The tables are ``runs``, ``run_steps`` and ``events``. Rows are collected here and written in the
transaction that changes the node. So history can neither miss a change nor report one that did not
happen (invariants 1 and 3).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable

from ironic_lite.conductor.work import run_log
from ironic_lite.conductor.work.run_metrics import METER
from ironic_lite.core import clock, run_lines, text_masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Row
from ironic_lite.core.text_masking import TextMask
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, holds, runs
from ironic_lite.domain import history
from ironic_lite.records import Node, StoredStep


class Journal:
    """The unwritten history of one task on one node."""

    def __init__(
        self, context: Context, host: str, node: Node, log: run_log.RunLog | None = None
    ) -> None:
        self.log = log or run_log.RunLog()
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
        self._forget_steps()
        run_lines.hide_also(self._hidden)

    def look(self) -> None:
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
            METER.run(run_uuid, changes)
            if changes.get("ended_at") is not None:
                run_log.SIZES.forget(run_uuid)
        self._forget_steps()

    def _opened_run(self) -> list[tuple[str, Row]]:
        return [] if self._new_run is None else [(self._new_run["uuid"], self._new_run)]

    def _forget_steps(self) -> None:
        self._stood = None
        self._once = False
        self._held: list[tuple[str, str]] = []
        self._events: list[Row] = []
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
        return list(self._events), [dict(row) for row in self._new_steps], known

    def restore(
        self, before: tuple[list[Row], list[Row], dict[str, dict[tuple[str, int], Row]]]
    ) -> None:
        """Forget the events and changes of steps since a snapshot."""
        self._events, self._new_steps, self._steps = before

    @property
    def events(self) -> list[Row]:
        """The unwritten events."""
        return self._events

    @property
    def pending(self) -> bool:
        """True if any row waits to be written, or a hold to be looked for."""
        gathered = (self._events, self._runs, self._dropped, self._new_steps, self._steps)
        return self._new_run is not None or any(gathered) or bool(self._held)

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
        self._events.append({**about, **row})

    @property
    def _owners(self) -> Row:
        """Owner and lessee of the node, for rows that show them later to no other project."""
        return {"owner": self._node.owner, "lessee": self._node.lessee}

    @property
    def hide(self) -> TextMask:
        """The mask of texts about the node, with its present secrets."""
        return text_masking.of_node(self._node, prose=True)

    def gathering(self, *, below: bool = False) -> contextlib.AbstractContextManager[None]:
        """Gather the lines of this thread, whose log hides the node's secrets; see `run_lines`."""
        return run_lines.gathering(self.log, below=below, hide=self._hidden)

    def _hidden(self, text: str) -> str:
        return self.hide(text)  # with the secrets that the node has by then

    def once(self) -> None:
        """Refuse the next save if this request has already changed the node.

        Used for requests that open no run; opening a run checks this anyway.
        """
        self._once = True

    def refuse_held(self, operation: str, said: str) -> None:
        """Refuse the next save if a hold in force blocks an operation; as ``holds.refuse``.

        Further operations are checked, too. Not for `Transaction.destroy`, which deletes the holds
        before the history is written: use ``add_write``.
        """
        self._held.append((operation, said))

    def refuse_again(self, conn: Connection) -> None:
        """Refuse a repeated request now, for work that is done before it is recorded.

        :raises errors.Conflict: the request has already changed this node.
        """
        events.refuse_again(conn, self._who["node_uuid"], self._who["request_id"])

    # -- the run -----------------------------------------------------------------------------

    def start_run(self, verb: str, **more: object) -> str:
        """Open a run and return its UUID; ``more`` are columns such as ``retry_of``."""
        run_uuid = self.opened = self.log.run = str(uuid.uuid4())
        run_log.SIZES.know(run_uuid, 0)
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
        :raises errors.NodeHeld: a hold in force blocks an operation of `refuse_held`.
        """
        if self._once:
            self.refuse_again(conn)
        if self._new_run is not None:
            self._insert_run(conn, self._new_run)
        else:
            self._refuse_held(conn)
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

    def _insert_run(self, conn: Connection, run: Row) -> None:
        """Add a run and check the request and the holds of its node by one statement.

        Only if that adds nothing, further statements ask for the reason.
        """
        if runs.insert_first(conn, run, unheld=bool(self._held)):
            return
        runs.refuse_again(conn, run["node_uuid"], run["request_id"])
        self._refuse_held(conn)
        runs.insert(conn, run)

    def _refuse_held(self, conn: Connection) -> None:
        for operation, said in self._held:
            holds.refuse(conn, self._who["node_uuid"], operation, said, self._project)

    def write_events(self, conn: Connection, *, lost_parent: Iterable[str] = ()) -> None:
        """Write the collected events, as the last statement of the transaction.

        So the time between the number of an event and its commit is short, and followers wait
        briefly for it (`feed.horizon`).

        :param lost_parent: the children of this node, which was deleted; each gets an event.
        """
        about = {"kind": "node_updated", "at": clock.now(), "data": {"fields": ["parent_node"]}}
        more = [{**self._who, **about, "node_uuid": child} for child in lost_parent]
        events.add(conn, [*map(self.masked, self._events), *more])

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
