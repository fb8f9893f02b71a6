"""The record of a node's run: its begin and end, and those of its list of steps."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.conductor.work.journal import Journal
from ironic_lite.conductor.work.notes import Notes
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, Row
from ironic_lite.domain import activities, causes, erasure_records, retries, states, steps
from ironic_lite.domain.activities import StepActivity
from ironic_lite.domain.retries import Action, Decision, FailedRun, Stored
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import Node, StoredStep


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

    def fail(self, run: str, error: errors.Error) -> None:
        """Record that a run has failed without a move of the node."""
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
        retryable = stored and causes.record(error)["retryable"]
        return retries.automatic_pause(self._notes.automatic_retries, most) if retryable else None

    def _end_run(self, run: str, error: errors.Error | None, *, aborted: bool) -> None:
        state = "aborted" if aborted else "failed" if error else "done"
        about: Json = {}
        if error is not None:
            about = {**causes.record(error, self._journal.hide), "step": error.facts.get("step")}
        changes: Row = {"state": state, "ended_at": clock.now()}
        changes |= {"error": about or None, "code": causes.code(about)}
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
