"""The verb retry: continue a failed run with its own list, from the step that failed.

``domain/retries`` decides which steps run. The decisions are stored with the new run and in the
notes of the node when the verb is accepted, so a crash at any later point finds them there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.conductor.engine import rights, stepper
from ironic_lite.conductor.engine.phases import Checks, Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import admission, error_text
from ironic_lite.core import clock
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import runs
from ironic_lite.domain import retries, step_lists, steps
from ironic_lite.domain.retries import Action, Decision, FailedRun, Stored
from ironic_lite.domain.steps import EFFECTS_OF_RESERVED, StepKind
from ironic_lite.records import StoredStep

Skip = Collection[int]
"""Ordinals of steps that do not run."""
Rerunnable = Callable[[Task, StepKind, StoredStep], bool]


class StepsLeft(NamedTuple):
    """The run that a retry continues.

    :ivar skip: the ordinals of its steps that would not run.
    """

    failed: FailedRun
    skip: frozenset[int]

    @property
    def steps(self) -> list[StoredStep]:
        """The steps that would run."""
        listed = self.failed.stored.steps
        return [step for at, step in enumerate(listed) if at not in self.skip]


def start(task: Task, phase: Phase, wanted: JsonView, *, automatic: bool = False) -> None:
    """Accept a retry of a node in a fail state, and have a worker continue the failed run.

    :param phase: the activity that has failed.
    :param wanted: the checked object ``retry`` of the request.
    :param automatic: the service retries by itself.
    :raises errors.Error: a refusal; the task is as before, unless the activity's limit refuses.
    """
    verb, failed = _find_failed(task, phase, automatic=automatic)
    decided = _decide(task, phase, failed, wanted, stepper.rerunnable)
    _validate(task, phase, failed.stored)
    error_text.take_back(task)
    _restore_request(task, phase.kind, failed.stored)
    if failed.stored.complete:
        skip = [at for at, one in enumerate(decided) if one.action is not Action.RUN]
        attempts = {at: 1 + one.attempts for at, one in enumerate(decided)}
        task.notes.begin_retry(skip, attempts, list(failed.continued(decided).doubt))
        task.run_record.retry_of(failed, decided)
    else:
        task.run_record.retry_of(failed, None)
    phase.show(task, {})
    admission.keep_limit(task, phase)
    task.notes.automatic_retries = task.notes.automatic_retries + 1 if automatic else 0
    task.move("retry", verb=verb)
    task.hand_over(phase.prepare)


def _find_failed(task: Task, phase: Phase, *, automatic: bool = False) -> tuple[str, FailedRun]:
    """Return the verb and the data of the run to continue.

    :raises errors.NothingToRetry: the node's latest run has no list that can be continued.
    :raises errors.RightsLost: an automatic retry would be on a machine of others.
    """

    def read(conn: Connection) -> tuple[str, FailedRun]:
        run = runs.latest(conn, task.node.uuid)
        if run is not None and automatic:
            rights.check_repetition(run, task.node)
        rows = runs.steps(conn, run["uuid"]) if run is not None else []
        failed = retries.of_run(run, rows, state=str(task.state), kind=str(phase.kind))
        return run["verb"] if run is not None else "", failed

    return task.runtime.database.read(read)


def _decide(
    task: Task, phase: Phase, failed: FailedRun, wanted: JsonView, rerunnable: Rerunnable
) -> list[Decision]:
    error_text.check_own_maintenance(task)
    request = retries.RetryRequest.from_json(wanted, task.journal.hide)
    if not failed.stored.complete:
        retries.refuse_choices(request)
    listed, kind = failed.stored.steps, phase.kind
    effects = retries.RetryEffects(
        lasts=lambda index: lasts(task, kind, listed[index]),
        rerunnable=lambda index: (
            phase.activity.repeats_any_step or rerunnable(task, kind, listed[index])
        ),
        spoils=lambda index: _may_destroy_data(task, kind, listed[index]),
    )
    by = {"requester": task.context.user, "at": clock.now().isoformat()}
    inputs = stepper.inputs_digest(task.node, kind)
    decided = retries.decide(failed, request, effects, by=by, inputs=inputs)
    _check_allowed(task, kind, _left(failed, decided).steps)
    return decided


def _left(failed: FailedRun, decided: list[Decision]) -> StepsLeft:
    skip = (at for at, one in enumerate(decided) if one.action is not Action.RUN)
    return StepsLeft(failed, frozenset(skip))


def _check_allowed(task: Task, kind: StepKind, wanted: list[StoredStep]) -> None:
    """Refuse steps that the configuration has forbidden since the run.

    :raises errors.InvalidParameter: naming the first of these steps.
    """
    forbidden = task.runtime.conf.api[f"disallow_{kind}_steps"]
    for title in map(steps.title, wanted):
        if title in forbidden:
            reason = f"{title} is in [api]disallow_{kind}_steps; waive it, or allow it"
            raise errors.InvalidParameter(path="retry", reason=reason)


def planned(task: Task, phase: Phase, wanted: JsonView) -> StepsLeft:
    """Return what a retry would run, without asking an agent if it knows the step in doubt.

    :raises errors.NothingToRetry, errors.InvalidParameter, errors.StepInDoubt: as the retry.
    """
    _verb, failed = _find_failed(task, phase)
    decided = _decide(task, phase, failed, wanted, _may_rerun)
    return _left(failed, decided)


def _may_rerun(task: Task, kind: StepKind, step: StoredStep) -> bool:
    reserved = step["step"] in step_lists.RESERVED
    if not reserved and task.driver.interface(step["interface"]).by_ramdisk(kind, step):
        return True
    return stepper.rerunnable(task, kind, step)


def lasts(task: Task, kind: StepKind, step: StoredStep) -> bool:
    """Return whether the effect of a step lasts over a restart of the machine."""
    if step["step"] in step_lists.RESERVED:
        return EFFECTS_OF_RESERVED[step["step"]].lasting
    if step_lists.for_children(step):
        return False  # other children may have come since
    return task.driver.interface(step["interface"]).lasts(task, kind, step)


def _may_destroy_data(task: Task, kind: StepKind, step: StoredStep) -> bool:
    """Return whether a step may destroy what other steps have written to disks."""
    if step["step"] in step_lists.RESERVED:
        return False
    if step_lists.for_children(step):
        return False
    destroys = task.driver.interface(step["interface"]).effects(task, kind, step).destroys
    return destroys is None or bool({"data", "volumes"} & set(destroys))


def _validate(task: Task, phase: Phase, stored: Stored) -> None:
    """Refuse a retry that the drivers cannot do."""
    if phase.kind is StepKind.DEPLOY:
        for check in checks_of_deploy(task):
            check()
    else:
        admission.raise_first(admission.of_drivers(task, phase, ramdisk=stored.ramdisk))


def checks_of_deploy(task: Task) -> Checks:
    """Return the checks of drivers before a deployment is retried."""
    driver = task.driver
    return (lambda: driver.power.validate(task), lambda: driver.deploy.validate(task))


def _restore_request(task: Task, kind: StepKind, stored: Stored) -> None:
    """Store again what the failed run was asked for; its end has removed it."""
    if kind is StepKind.DEPLOY:  # the request for a deployment stays until the next one
        task.notes.settle_steps(kind, forget_list=True)
        return
    listed = list(stored.steps) if stored.requested else None
    task.notes.request_steps(kind, listed, ramdisk=stored.ramdisk, runbook=stored.runbook)


def begin(task: Task, phase: Phase, check: Callable[[list[StoredStep], Skip], object]) -> None:
    """Run the steps that the retry left; no step runs unless all are still offered.

    :param check: raises unless the steps are offered, apart from those to skip.
    """
    run_uuid = task.node.run_uuid
    assert run_uuid is not None  # the verb has opened it
    stored = task.runtime.database.read(lambda conn: runs.get(conn, run_uuid))["listed"]
    assert stored is not None  # the verb has stored it
    listed = list(Stored.from_json(stored).steps)
    check(listed, [at for at in range(len(listed)) if task.notes.skipped(at)])
    stepper.restart(task, phase, listed)
