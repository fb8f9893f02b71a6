"""The state of a node's data, and the erasure record of a step.

Both are written by the transaction that ends the step.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import uuid
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, config, metrics
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.text_masking import TextMask
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import erasures, inventories, runs
from ironic_lite.domain import erasure_records, erasure_results, step_planning, steps
from ironic_lite.domain.erasure_records import DataState, Facts
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import RunStep, StoredStep

LOG = logging.getLogger(__name__)

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


def inspected(task: Task) -> None:
    """Note, for the next save, that a clean node has a disk that its proof does not name.

    A declared state needs no record, so it stays.
    """
    found, node, run = task.inventory, task.node.uuid, task.node.data_state_by
    if found is None or task.node.data_state != DataState.CLEAN or run is None:
        return
    proof = task.runtime.database.read(lambda conn: erasures.proof(conn, node, run))
    if proof is not None and erasure_records.unrecorded_disks(found, proof):
        change(task, DataState.UNKNOWN)


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
    """Make the record of an erasing step for the save that ends the step.

    :param failure: the error of a failed step.
    """
    if kind is not StepKind.CLEAN or not erasure_records.erases(step):
        return
    if task.recall(_RECORDED) == task.step_id:
        task.keep(_RECORDED, None)
    else:
        end = _Ended(task.node.uuid, task.node.run_uuid, kind, step, ordinal, failure)
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
    """Make the record of an erasing step of a child, for the child's next save.

    The record is one of the child, and names the run and the step of its parent.

    :param begun: of `begins_on_child`.
    :param failure: the error of a failed step.
    """
    index = parent.notes.index(kind)
    if index is not None and kind is StepKind.CLEAN and erasure_records.erases(step):
        ordinal = parent.notes.first_ordinal + index
        run = parent.node.run_uuid
        end = _Ended(parent.node.uuid, run, kind, step, ordinal, failure, begun.at)
        after = _judge(child, end, begun.before)
        if after is None and begun.before == DataState.CLEAN != child.node.data_state:
            change(child, DataState.CLEAN, run=run)
            child.node.data_state_at, child.node.data_state_by = begun.since, begun.by


def _judge(task: Task, end: _Ended, before: str | None) -> DataState | None:
    """Make a record; return the data_state that follows from it, None if the state stays."""
    step, report, failed = end.step, _report(task), end.failure is not None
    metadata = erasure_records.of_metadata(step)
    if metadata and report is None:
        return None
    reported = erasure_results.parse(report)
    if failed and report is None:
        reported = erasure_results.Reported(fault="no report has come")
    if not reported.disks and reported.fault is None:
        reported = erasure_results.Reported(fault="the ramdisk has found no disk")
    inventory = task.runtime.database.read(lambda conn: _inventory(conn, task.node.uuid))
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
    _record(task, end, reported, verdict, inventory)
    change(task, verdict.after, run=end.run)
    return verdict.after


def _report(task: Task) -> object:
    """Return what the driver has reported about the current step, None for nothing.

    If the beginning of the next step cannot be saved, the report is that of the step before.
    """
    step_id, report = task.erasure or (None, None)
    return report if step_id == task.step_id else None


def cut_short(task: Task, why: errors.Error) -> None:
    """Make the record of an erasing step that is under way when its clean fails or is aborted.

    A step under way has begun, and its end is neither stored nor waiting for the next save.

    :param why: the failure, such as a time-out, an abort, or an end that could not be saved.
    """
    index, run = task.notes.index(StepKind.CLEAN), task.node.run_uuid
    listed = task.notes.listed(StepKind.CLEAN)
    if run is None or index is None or index >= len(listed) or task.notes.paused:
        return
    step, ordinal = listed[index], task.notes.first_ordinal + index
    if not erasure_records.erases(step) or step_planning.for_children(step):
        return
    if task.recorded_step == task.step_id:
        return
    rows = task.runtime.database.read(lambda conn: runs.steps(conn, run))
    if any(
        (one["kind"], one["ordinal"]) == (StepKind.CLEAN, ordinal) and _open(one) for one in rows
    ):
        ended(task, StepKind.CLEAN, step, ordinal, why)


def _open(step: RunStep) -> bool:
    return step["state"] in ("running", "waiting")


def reported_early(task: Task, kind: StepKind, step: StoredStep, ordinal: int) -> None:
    """Make the record of a step that has ended on the machine and now waits for a reboot."""
    if kind is StepKind.CLEAN and erasure_records.erases(step) and _report(task) is not None:
        ended(task, kind, step, ordinal)
        task.keep(_RECORDED, task.step_id)


class _Ended(NamedTuple):
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


def _record(
    task: Task,
    end: _Ended,
    reported: erasure_results.Reported,
    verdict: erasure_records.Verdict,
    inventory: JsonView | None,
) -> None:
    at, ident = clock.now(), str(uuid.uuid4())
    reported = _without_secrets(task, reported)
    # Once, because its file may get another key meanwhile.
    key = task.runtime.evidence_key.current
    name = None if key is None else key.name
    facts, previous = task.runtime.database.read(
        lambda conn: _facts(conn, task, end, at, key=name, inventory=inventory)
    )
    data = erasure_records.statement(
        ident, at, reported, facts=facts, verdict=verdict, previous=previous
    )
    row: Json = {
        "uuid": ident,
        "node_uuid": task.node.uuid,
        "node_name": task.node.name,
        "run_uuid": end.run,
        "at": at,
        "result": verdict.result,
        "level": verdict.level,
        "serials": erasure_records.serials(reported.disks),
        "statement": data.decode(),
        "signature": None if key is None else key.sign(data),
        "key": name,
        "sha256": erasure_records.digest(data),
        "owner": task.node.owner,
        "lessee": task.node.lessee,
    }
    task.add_write(lambda conn: erasures.add(conn, row))
    _tell(task, end, reported, {name: row[name] for name in ("uuid", "result", "level")})


def _tell(task: Task, end: _Ended, reported: erasure_results.Reported, about: Json) -> None:
    """Add the event of a record, and count it; warn of the disks that were not reported."""
    missing = [one["name"] for one in reported.disks if one["result"] == "missing"]
    told: Json = {"erasure": about["uuid"], "result": about["result"], "level": about["level"]}
    if missing:
        told["missing"] = missing
        text = "Node %s: the ramdisk has not reported these disks of its inventory: %s"
        LOG.warning(text, task.node.uuid, ", ".join(missing))
    task.journal.event("erasure", run=end.run, event=about["result"], data=told)
    labels = (about["result"], about["level"])
    task.transaction.after_commit(lambda: metrics.BOARD.count("erasures_total", *labels))


def _without_secrets(task: Task, reported: erasure_results.Reported) -> erasure_results.Reported:
    """Return a report without the node's secrets, because records are never removed."""
    hide, disks = task.journal.hide, []
    for disk in reported.disks:
        masked = disk.copy()
        if "why" in disk:
            masked["why"] = hide(disk["why"])
        if "method" in disk:
            masked["method"] = hide(disk["method"])
        if "tools" in disk:
            masked["tools"] = [
                {**tool, "command": [hide(word) for word in tool["command"]]}
                for tool in disk["tools"]
            ]
        disks.append(masked)
    return dataclasses.replace(reported, disks=tuple(disks))


def _facts(
    conn: Connection,
    task: Task,
    end: _Ended,
    at: datetime.datetime,
    *,
    key: str | None,
    inventory: JsonView | None,
) -> tuple[Facts, str | None]:
    """Return the facts of a record, and the digest of the node's record before it."""
    node, hide = task.node, task.journal.hide
    run_uuid, kind, step, ordinal = end.run, end.kind, end.step, end.ordinal
    run = runs.get(conn, run_uuid) if run_uuid is not None else None
    listed = runs.steps(conn, run_uuid) if run_uuid is not None else []
    mine = next((one for one in listed if (one["kind"], one["ordinal"]) == (kind, ordinal)), None)
    begun = end.begun or (None if mine is None else mine["started_at"])
    facts = Facts(
        issuer={"host": task.runtime.host, "version": config.version(), "key": key},
        node={"uuid": node.uuid, "name": node.name, **erasure_records.machine(inventory)},
        run={
            "uuid": run_uuid,
            "node": end.node,
            **{
                name: None if run is None else run[name]
                for name in ("verb", "requester", "project", "request_id")
            },
        },
        step={
            "interface": step["interface"],
            "step": step["step"],
            "ordinal": ordinal,
            "attempt": 1 if mine is None else mine["attempt"],
            "started_at": erasure_records.moment(begun),
            "ended_at": erasure_records.moment(at),
        },
        waived=_waived(listed, hide),
        error=None if end.failure is None else hide(end.failure.message)[:1024],
    )
    return facts, erasures.last_digest(conn, node.uuid)


def _inventory(conn: Connection, node: str) -> JsonView | None:
    """Return what the last inspection of a node has found, None without one."""
    try:
        found: JsonView = inventories.get(conn, node)["inventory"]
    except errors.NotFound:
        return None
    return found


def _waived(listed: list[RunStep], hide: TextMask) -> list[Json]:
    """Return the steps of a run that were waived, with who waived them, when and why."""
    return [
        {
            "ordinal": one["ordinal"],
            "step": steps.title({"interface": one["interface"], "step": one["step"]}),
            **waiver,
            "reason": hide(waiver["reason"]),
        }
        for one in listed
        if (waiver := one["waiver"])
    ]
