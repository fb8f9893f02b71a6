"""Steps that take too long: reported as overdue, or ended at their deadline.

A step is overdue by its usual duration (`domain.step_times`). That is only reported, by one event
for each attempt. ``[conductor]step_deadline`` sets deadlines. A waiting step past its deadline
fails. A step that a thread of a conductor runs cannot be ended there, and is reported as overdue.
"""

from __future__ import annotations

import datetime
import logging
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.flows import failure
from ironic_lite.conductor.flows.activities import waiting_steps
from ironic_lite.conductor.tasks import Tasks
from ironic_lite.conductor.watch.ownership import Ownership
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, config, context
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, overdue
from ironic_lite.db.queries.overdue import LongStep
from ironic_lite.db.queries.usual import UsualTimes
from ironic_lite.domain import step_times

LOG = logging.getLogger(__name__)


class _Finding(NamedTuple):
    """An overdue step: since when, its usual 90th percentile, its deadline in seconds."""

    step: LongStep
    since: datetime.datetime
    usual_p90: float | None
    deadline: int | None


class OverdueSteps:
    """Checks the steps under way on this conductor's nodes."""

    def __init__(self, tasks: Tasks, fleet: Ownership) -> None:
        self._tasks = tasks
        self._fleet = fleet
        self._usual = UsualTimes(tasks.runtime.database)
        self.deadlines = {
            title: int(seconds)
            for title, seconds in config.priorities(
                tasks.runtime.conf.conductor.step_deadline
            ).items()
        }
        self.count = 0
        """Runs with an overdue step at the last sweep."""

    def sweep(self) -> None:
        """Check all steps once; one statement if no step has been under way for long."""
        runtime = self._tasks.runtime
        shortest = min(step_times.OVERDUE_SECONDS, *self.deadlines.values(), float("inf"))
        ends = runtime.conf.conductor.periodic_max_workers
        found = set()
        for step in overdue.long_steps(runtime.database, clock.ago(shortest)):
            if not self._fleet.mine(step):
                continue
            if step["state"] == "waiting" and self._passed_deadline(step):
                ends -= 1
                if ends >= 0:  # others have their turn in the next sweep
                    self._end_step(step)
                continue
            finding = self._judge(step)
            if finding is not None:
                found.add(step["run_uuid"])
                if not overdue.is_marked(step):
                    self._report(finding)
        self.count = len(found)

    def _passed_deadline(self, step: LongStep) -> int | None:
        """Return the deadline of a step if it is over, in seconds; None if not.

        As for time-outs, an operator watches a node in maintenance without a fault.
        """
        deadline = self.deadlines.get(_title(step))
        if step["step"] in step_times.BY_REQUEST or (step["maintenance"] and step["fault"] is None):
            return None
        if deadline is None or clock.lived(step["started_at"]) < deadline:
            return None
        return deadline

    # -- overdue steps -----------------------------------------------------------------------

    def _judge(self, step: LongStep) -> _Finding | None:
        usual = self._usual.of(
            step["interface"], step["step"], step["driver"], step["resource_class"]
        )
        started = step["started_at"]
        now = started + datetime.timedelta(seconds=clock.lived(started))
        late = step_times.overdue_of(usual, started, now)
        deadline = self._passed_deadline(step)
        if late is not None:
            return _Finding(step, late.since, late.usual_p90, deadline)
        if deadline is not None:
            since = started + datetime.timedelta(seconds=deadline)
            return _Finding(step, since, usual.p90 if usual else None, deadline)
        return None

    def _report(self, finding: _Finding) -> None:
        """Write one event for this attempt at a step."""
        runtime, step = self._tasks.runtime, finding.step
        who = context.internal("overdue steps")
        row: Json = {
            "at": clock.now(),
            "node_uuid": step["uuid"],
            "run_uuid": step["run_uuid"],
            "kind": "overdue",
            "event": step["kind"],
            "conductor": runtime.host,
            **who.recorded(),
            "data": _event_data(finding),
        }

        def write(conn: Connection) -> bool:
            marked = overdue.mark(conn, step["id"], attempt=step["attempt"], at=row["at"])
            if marked:
                events.add(conn, [row])
            return marked

        if runtime.database.write(write):
            LOG.warning(
                "Node %s: the step %s is overdue since %s UTC",
                *(step["uuid"], _title(step), f"{finding.since:%Y-%m-%d %H:%M:%S}"),
            )

    # -- deadlines ---------------------------------------------------------------------------

    def _end_step(self, step: LongStep) -> None:
        who = context.internal("deadlines")
        try:
            with self._tasks.lock(
                who, step["uuid"], worker=True, patient=False, reserved=False, whole=False
            ) as task:
                if self._still_waits(task, step):
                    task.hand_over(_fail_step, step, self.deadlines[_title(step)])
        except errors.Error as why:
            LOG.info("Node %s: its deadline will be checked again later: %s", step["uuid"], why)

    def _still_waits(self, task: Task, step: LongStep) -> bool:
        """Return whether the same attempt at the step still waits, under the lock."""
        now = self._tasks.runtime.database.read(lambda conn: overdue.get(conn, step["id"]))
        return (
            waiting_steps(task.state) is not None
            and now is not None
            and (now["attempt"], now["state"]) == (step["attempt"], "waiting")
            and now["run_uuid"] == task.node.run_uuid
            and self._passed_deadline(now) is not None
        )


def _fail_step(task: Task, step: LongStep, deadline: int) -> None:
    seconds = int(clock.lived(step["started_at"]))
    why = errors.DeadlinePassed(
        step=_title(step), node=task.node.uuid, seconds=seconds, deadline=deadline
    )
    failure.give_up(task, why)


def _title(step: LongStep) -> str:
    return f"{step['interface']}.{step['step']}"


def _event_data(finding: _Finding) -> Json:
    step = finding.step
    return {
        "step": _title(step),
        "ordinal": step["ordinal"],
        "attempt": step["attempt"],
        "since": f"{finding.since.isoformat()}+00:00",
        "usual_p90": finding.usual_p90,
        "deadline": finding.deadline,
    }
