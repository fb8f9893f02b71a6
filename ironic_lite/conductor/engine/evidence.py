"""The state of a node's data, written by the transaction that ends an erasing step.

Features may add what belongs to it, such as a record: see `runtime.Runtime.erased`.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import clock
from ironic_lite.db.queries import reports, runs
from ironic_lite.domain import erasure_records, erasure_results, step_lists
from ironic_lite.domain.erasure_records import DataState
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import StoredStep

_RECORDED = "erasure_recorded"
"""The driver note with the id of a step whose record was made before the step's end."""


def begins(task: Task, kind: StepKind) -> None:
    """Note, for the next save, that a step begins; a deployment may write to the disks."""
    if kind is StepKind.DEPLOY:
        change(task, DataState.DIRTY)


class Begun(NamedTuple):
    """The beginning of a step on a child: when, and what the child had as data_state before."""

    at: datetime.datetime
    before: str | None
    since: datetime.datetime | None
    by: str | None


def begins_on_child(child: Task, parent: Task, kind: StepKind, step: StoredStep) -> Begun:
    """Note, for the child's next save, that a step of its parent begins on it.

    Until an erasing step ends, a clean child is unknown, because a conductor that dies in the step
    leaves no record of the child.

    :return: for `ended_on_child`.
    """
    node, run = child.node, parent.node.run_uuid
    begun = Begun(clock.now(), node.data_state, node.data_state_at, node.data_state_by)
    if kind is StepKind.DEPLOY:
        change(child, DataState.DIRTY, run=run)
    elif _erases_data(kind, step) and begun.before == DataState.CLEAN:
        change(child, DataState.UNKNOWN, run=run)
    return begun


def _erases_data(kind: StepKind, step: StoredStep) -> bool:
    return kind is StepKind.CLEAN and erasure_records.erases_data(step)


def change(task: Task, after: DataState | None, *, run: str | None = None) -> None:
    """Change data_state with the next save; None changes nothing.

    :param run: the run that changes it; None for the node's own run.
    """
    before = task.node.data_state or str(DataState.UNKNOWN)
    if after is None or (after == before and after is not DataState.CLEAN):
        return
    run = run or task.node.run_uuid
    task.node.data_state = str(after)
    task.node.data_state_at = clock.now()
    task.node.data_state_by = run
    if before != after:
        task.journal.event("data_state", run=run, before=before, after=str(after))


def ended(
    task: Task,
    kind: StepKind,
    step: StoredStep,
    ordinal: int,
    failure: errors.Error | None = None,
) -> None:
    """Judge an erasing step for the save that ends the step.

    :param failure: the error of a failed step.
    """
    if kind is not StepKind.CLEAN or not erasure_records.erases(step):
        return
    if task.recall(_RECORDED) == task.step_id:
        task.keep(_RECORDED, None)
    else:
        end = Ended(task.node.uuid, task.node.run_uuid, kind, step, ordinal, failure)
        _judge(task, end, task.node.data_state)
    task.recorded_step = task.step_id


def ended_on_child(
    child: Task,
    parent: Task,
    kind: StepKind,
    step: StoredStep,
    *,
    begun: Begun,
    failure: errors.Error | None = None,
) -> None:
    """Judge an erasing step of a child, for the child's next save.

    The record is one of the child, and names the run and the step of its parent.

    :param begun: of `begins_on_child`.
    :param failure: the error of a failed step.
    """
    index = parent.notes.index(kind)
    if index is not None and kind is StepKind.CLEAN and erasure_records.erases(step):
        ordinal = parent.notes.first_ordinal + index
        run = parent.node.run_uuid
        end = Ended(parent.node.uuid, run, kind, step, ordinal, failure, begun.at)
        after = _judge(child, end, begun.before)
        if after is None and begun.before == DataState.CLEAN != child.node.data_state:
            change(child, DataState.CLEAN, run=run)
            child.node.data_state_at, child.node.data_state_by = begun.since, begun.by


def _judge(task: Task, end: Ended, before: str | None) -> DataState | None:
    """Judge the report; return the data_state that follows from it, None if the state stays."""
    step, report, failed = end.step, _report(task), end.failure is not None
    metadata = erasure_records.of_metadata(step)
    if metadata and report is None:
        return None
    reported = erasure_results.parse(report)
    if failed and report is None:
        reported = erasure_results.Reported(fault="no report has come")
    if not reported.disks and reported.fault is None:
        reported = erasure_results.Reported(fault="the ramdisk has found no disk")
    inventory = task.runtime.database.read(lambda conn: reports.inventory(conn, task.node.uuid))
    if reported.disks and inventory is not None:
        missing = erasure_records.missing_disks(inventory, reported.disks)
        reported = dataclasses.replace(reported, disks=(*reported.disks, *missing))
    verdict = erasure_records.judge(
        reported,
        before=before,
        failed=failed,
        wanted=task.runtime.conf.conductor.clean_level,
        metadata=metadata,
    )
    for record in task.runtime.erased:
        record(task, end, reported, verdict, inventory)
    change(task, verdict.after, run=end.run)
    return verdict.after


def _report(task: Task) -> object:
    """Return what the driver has reported about the current step, None for nothing.

    If the beginning of the next step cannot be saved, the report is that of the step before.
    """
    step_id, report = task.erasure or (None, None)
    return report if step_id == task.step_id else None


def cut_short(task: Task, why: errors.Error) -> None:
    """Judge an erasing step that is under way when its clean fails or is aborted.

    A step under way has begun, and its end is neither stored nor waiting for the next save.

    :param why: the failure, such as a time-out, an abort, or an end that could not be saved.
    """
    index, run = task.notes.index(StepKind.CLEAN), task.node.run_uuid
    listed = task.notes.listed(StepKind.CLEAN)
    if run is None or index is None or index >= len(listed) or task.notes.paused:
        return
    step, ordinal = listed[index], task.notes.first_ordinal + index
    if not erasure_records.erases(step) or step_lists.for_children(step):
        return
    if task.recorded_step == task.step_id:
        return
    rows = task.runtime.database.read(lambda conn: runs.steps(conn, run))
    under_way = [one for one in rows if one["state"] in ("running", "waiting")]
    if any((one["kind"], one["ordinal"]) == (StepKind.CLEAN, ordinal) for one in under_way):
        ended(task, StepKind.CLEAN, step, ordinal, why)


def reported_early(task: Task, kind: StepKind, step: StoredStep, ordinal: int) -> None:
    """Judge a step that has ended on the machine and now waits for a reboot."""
    if kind is StepKind.CLEAN and erasure_records.erases(step) and _report(task) is not None:
        ended(task, kind, step, ordinal)
        task.keep(_RECORDED, task.step_id)


class Ended(NamedTuple):
    """The end of an erasing step, in a run of the node or of its parent.

    ``node`` is the node of the run. ``begun`` is None for the time in the run's record.
    """

    node: str
    run: str | None
    kind: StepKind
    step: StoredStep
    ordinal: int
    failure: errors.Error | None
    begun: datetime.datetime | None = None
