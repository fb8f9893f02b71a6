"""The record of a node's run: its begin and end, and those of its list of steps."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.conductor.work.journal import Journal
from ironic_lite.conductor.work.notes import Notes
from ironic_lite.core import clock
from ironic_lite.domain import activities, states, steps
from ironic_lite.domain.activities import StepActivity
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import Node, StoredStep


class RunRecord:
    """The run of one node; the journal writes it with the next save."""

    def __init__(self, node: Node, journal: Journal, host: str) -> None:
        self._node = node
        self._notes = Notes(node)
        self._journal = journal
        self._host = host
        self._flow, self._found_step = self._under_way()

    def open(self, verb: str, before: State, after: State) -> None:
        """Open a run, which takes the place of a waiting one."""
        if self._node.run_uuid is not None:
            text = f"The verb {verb} took the place of this run while the node was in {before}."
            error = errors.Aborted(text, action=str(before), where="", step=self._found_step)
            self._end_run(self._node.run_uuid, error, aborted=True)
        if states.kind(after) is Kind.BUSY:
            self._node.last_error = None
        self._node.run_uuid = self._journal.start_run(verb)

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

    def begin_flow(self, activity: StepActivity, listed: Sequence[StoredStep]) -> None:
        """Record that these steps will run; `moved` records their end."""
        anew, self._flow = self._flow is not None, self._flow_of(activity)
        data = {"steps": [steps.title(step) for step in listed], "anew": anew}
        run = self._node.run_uuid
        self._journal.event("flow_started", run=run, event=self._flow, data=data)

    def _end_run(self, run: str, error: errors.Error | None, *, aborted: bool) -> None:
        state = "aborted" if aborted else "failed" if error else "done"
        about = None
        if error is not None:
            about = {"code": error.code, "text": error.message, "retryable": error.retryable}
            about["step"] = error.facts.get("step")
        self._journal.run(run, state=state, ended_at=clock.now(), error=about)
        self._node.run_uuid = None
        if self._flow is not None:
            data = {"outcome": state, "step": about and about["step"]}
            self._journal.event("flow_ended", run=run, event=self._flow, data=data)
            self._flow = None

    def _under_way(self) -> tuple[str | None, str | None]:
        """Return the flow that this task found begun, and its current step."""
        activity = activities.stepping(self._node.provision_state)
        index = None if activity is None else self._notes.index(activity.kind)
        if activity is None or index is None:
            return None, None
        listed = self._notes.listed(activity.kind)
        return self._flow_of(activity), steps.title(listed[index]) if index < len(listed) else None

    def _flow_of(self, activity: StepActivity) -> str:
        manual = activity.manual_flow if self._notes.manual(activity.kind) else None
        return manual or activity.flow
