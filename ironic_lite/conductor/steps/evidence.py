"""The state of a node's data, and the erasure record of a step.

Both are written by the transaction that ends the step.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock, config, metrics
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import erasures, inventories, runs
from ironic_lite.domain import erasure_records, erasure_results, steps
from ironic_lite.domain.erasure_records import DataState, Facts
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import StoredStep

_RECORDED = "erasure_recorded"
"""The driver note with the id of a step whose record was made before the step's end."""


def begins(task: Task, kind: StepKind) -> None:
    """Note, for the next save, that a deployment may write to the disks."""
    if kind is StepKind.DEPLOY:
        change(task, DataState.DIRTY)


def change(task: Task, after: DataState | None) -> None:
    """Change data_state with the next save; None changes nothing."""
    before = task.node.data_state or str(DataState.UNKNOWN)
    if after is None or (after == before and after is not DataState.CLEAN):
        return
    run = task.node.run_uuid
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
    report, task.erasure = task.erasure, None
    if kind is not StepKind.CLEAN or not erasure_records.erases(step):
        return
    if task.recall(_RECORDED) == task.step_id:
        task.keep(_RECORDED, None)
        return
    metadata = erasure_records.of_metadata(step)
    if metadata and report is None:
        return
    reported = erasure_results.parse(report)
    if not reported.disks and reported.fault is None:
        reported = erasure_results.Reported(fault="the ramdisk has found no disk")
    verdict = erasure_records.judge(
        reported,
        before=task.node.data_state,
        failed=failure is not None,
        wanted=task.runtime.conf.conductor.clean_level,
        metadata=metadata,
    )
    _record(task, _Ended(kind, step, ordinal, failure), reported, verdict)
    change(task, verdict.after)


def reported_early(task: Task, kind: StepKind, step: StoredStep, ordinal: int) -> None:
    """Make the record of a step that has ended on the machine and now waits for a reboot."""
    if task.erasure is not None:
        ended(task, kind, step, ordinal)
        task.keep(_RECORDED, task.step_id)


class _Ended(NamedTuple):
    """The end of an erasing step."""

    kind: StepKind
    step: StoredStep
    ordinal: int
    failure: errors.Error | None


def _record(
    task: Task,
    end: _Ended,
    reported: erasure_results.Reported,
    verdict: erasure_records.Verdict,
) -> None:
    at, ident = clock.now(), str(uuid.uuid4())
    facts, previous = task.runtime.database.read(lambda conn: _facts(conn, task, end))
    data = erasure_records.statement(
        ident, at, reported, facts=facts, verdict=verdict, previous=previous
    )
    key = task.runtime.evidence_key
    row: Json = {
        "uuid": ident,
        "node_uuid": task.node.uuid,
        "node_name": task.node.name,
        "run_uuid": task.node.run_uuid,
        "at": at,
        "result": verdict.result,
        "level": verdict.level,
        "serials": erasure_records.serials(reported.disks),
        "statement": data.decode(),
        "signature": None if key is None else key.sign(data),
        "key": None if key is None else key.name,
        "sha256": erasure_records.digest(data),
    }
    task.add_write(lambda conn: erasures.add(conn, row))
    told = {"erasure": ident, "result": verdict.result, "level": verdict.level}
    task.journal.event("erasure", run=task.node.run_uuid, event=verdict.result, data=told)
    metrics.BOARD.count("erasures_total", verdict.result, verdict.level)


def _facts(conn: Connection, task: Task, end: _Ended) -> tuple[Facts, str | None]:
    """Return the facts of a record, and the digest of the node's record before it."""
    node, key = task.node, task.runtime.evidence_key
    kind, step, ordinal, failure = end
    run = runs.get(conn, node.run_uuid) if node.run_uuid is not None else None
    listed = runs.steps(conn, node.run_uuid) if node.run_uuid is not None else []
    mine = next((one for one in listed if (one["kind"], one["ordinal"]) == (kind, ordinal)), None)
    try:
        found = inventories.get(conn, node.uuid)["inventory"]
    except errors.NotFound:
        found = None
    facts = Facts(
        issuer={
            "host": task.runtime.host,
            "version": config.version(),
            "key": None if key is None else key.name,
        },
        node={"uuid": node.uuid, "name": node.name, **erasure_records.machine(found)},
        run={
            "uuid": node.run_uuid,
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
            "started_at": None if mine is None else erasure_records.moment(mine["started_at"]),
            "ended_at": erasure_records.moment(clock.now()),
        },
        waived=[
            {"step": steps.title({"interface": one["interface"], "step": one["step"]})}
            for one in listed
            if one["waiver"]
        ],
        error=None if failure is None else task.journal.hide(failure.message)[:1024],
    )
    return facts, erasures.last_digest(conn, node.uuid)
