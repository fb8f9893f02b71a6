"""Cleaning, automated and manual: prepare, list, run, put away (S1, S2).

From ``endpoints/provision`` (verbs clean, provide, cleaned) and ``flows/delete``; on to
``stepper.run``, which comes back here at the end. Whatever is raised ends in ``give_up``.
"""

from __future__ import annotations

from typing import Any

from ironic_lite import errors, plans, steps
from ironic_lite.conductor import agents, findings, maintenance, stepper
from ironic_lite.conductor.flows import automatic, faults, listed, offers
from ironic_lite.conductor.phases import Phase
from ironic_lite.conductor.task import Task
from ironic_lite.states import State
from ironic_lite.steps import WAIT, StepKind

FAULT = "clean failure"


def enabled(task: Task) -> bool:
    """Tell whether automated cleaning applies to this node; the node's own word goes first."""
    own = task.node.automated_clean
    return bool(task.desk.conf.conductor.automated_clean_enable if own is None else own)


def request(
    task: Task, wanted: list[dict[str, Any]] | None = None, *, ramdisk: bool = True
) -> None:
    """Note what was asked for, without trace of a clean before; no list: an automated clean."""
    task.notes.request_clean(wanted, ramdisk=ramdisk)
    task.node.clean_step = {}


def request_by(task: Task, book: automatic.Book | None) -> None:
    """Note an automated clean, by a runbook if there is one."""
    request(task)
    if book is not None:
        task.notes.request_clean(book.steps, ramdisk=book.ramdisk, runbook=book.uuid)


def prepare(task: Task) -> None:
    """Get ready; an agent's steps are only known once its ramdisk speaks.

    A manual clean finds its list in the notes, written when the verb was accepted. An automated one
    is skipped if it is switched off (S2.1).
    """
    if not task.notes.manual_clean:
        if not enabled(task):
            _forget(task)
            _leave(task)
            return
        if maintenance.forbids(task):
            raise errors.NodeInMaintenance(verb="clean", node=task.node.uuid)
        if task.notes.listed_clean is None:  # an instance is gone: nobody has chosen its steps yet
            request_by(task, automatic.book(task))
    task.driver.power.validate(task)
    if task.notes.clean_ramdisk:
        task.driver.network.validate(task)
        task.driver.deploy.check_ramdisk(task)
        if task.driver.deploy.prepare_cleaning(task) is WAIT:
            task.move("wait")  # the first heartbeat leads to begin()
            return
    begin(task)


def begin(task: Task) -> None:
    """Make the whole list; nothing runs unless all of it is right (S1.16)."""
    if task.notes.clean_ramdisk:
        agents.listen(task, StepKind.CLEAN)
    stepper.start(task, PHASE, _listed(task))


def _listed(task: Task) -> list[dict[str, Any]]:
    overrides = task.desk.clean_priorities
    given = task.notes.listed_clean
    if given is not None:
        ramdisk = task.notes.clean_ramdisk
        return listed.complete(task, StepKind.CLEAN, given, overrides=overrides, ramdisk=ramdisk)
    chosen = plans.automated(
        offers.offered(task, StepKind.CLEAN),
        StepKind.CLEAN,
        overrides=overrides,
        disallowed=task.desk.conf.api.disallow_clean_steps,
    )
    return plans.as_stored(chosen, StepKind.CLEAN)


def finish(task: Task) -> None:
    """Every step is done: put the ramdisk away and go where this clean leads (S1.13, S4.5)."""
    findings.refresh(task)
    if task.notes.clean_ramdisk:
        task.driver.deploy.tear_down_cleaning(task)
    _forget(task)
    if not task.driver.deploy.minds_agent:
        task.notes.forget_agent()
    _leave(task)


def _forget(task: Task) -> None:
    task.node.clean_step = None
    task.notes.settle_steps(StepKind.CLEAN, forget_list=True)


def _leave(task: Task) -> None:
    manual = task.goal is State.MANAGEABLE
    task.move("manage" if manual or task.node.retired else "done")


def give_up(task: Task, why: errors.Error) -> None:
    """Fail: last_error, maintenance and fault (S1.4, S2.19, C10).

    The machine stays on, unless the operator has asked for its power-off in the configuration
    (S2.20).
    """
    task.failing = True
    error = _put_away(task, faults.cannot("clean", task, why))
    wanted = task.desk.conf.conductor.poweroff_in_cleanfail
    error = faults.switch_off(task, error, wanted=wanted)
    faults.set_aside(task, FAULT, error)
    task.node.clean_step = {}
    task.notes.settle_steps(StepKind.CLEAN, forget_list=False)
    task.notes.forget_agent()
    task.move("fail", error=error)


def call_off(task: Task) -> None:
    """Abort by request: clean failed, but no maintenance (S5.16, C10)."""
    current = task.node.clean_step or {}
    step, where = None, ""
    if current:
        step, when = steps.title(current), "after" if current.get("abort_after") else "during"
        where = f' {when} the step "{step}"'
    task.node.clean_step = {}
    task.notes.settle_steps(StepKind.CLEAN, forget_list=True, tidied=False)
    task.notes.forget_agent()
    why = errors.Aborted(action="clean", where=where, step=step)
    task.move("abort", error=why, aborted=True)


def tidy(task: Task) -> None:
    """Remove what cleaning set up, after the state has been settled."""
    error = _put_away(task, errors.Aborted(task.node.last_error, action="clean", where=""))
    task.node.last_error = error.message
    task.notes.settle_ramdisk(StepKind.CLEAN)
    task.save()


def _put_away(task: Task, why: errors.Error) -> errors.Error:
    if not task.notes.clean_ramdisk:
        return why
    tear_down = task.driver.deploy.tear_down_cleaning
    return faults.besides(task, why, "tearing down cleaning", tear_down)


PHASE = Phase(
    kind=StepKind.CLEAN,
    column="clean_step",
    failure=errors.CleanStepFailed,
    action="cleaning",
    waiting=State.CLEANWAIT,
    prepare=prepare,
    begin=begin,
    finish=finish,
    give_up=give_up,
    call_off=call_off,
    tidy=tidy,
    restarts=lambda task: task.notes.listed_clean is None,
)
