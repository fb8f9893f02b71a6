"""Refusals of verbs by a conductor: state, holds, drivers' checks, and limits of activities.

A start raises the first refusal under the node's lock. A plan collects all of them without it.
"""

from __future__ import annotations

from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.conductor.engine import lists
from ironic_lite.conductor.engine.phases import Flow, Phase
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.flows import error_text
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds as hold_rows
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import holds, verb_refusals, verbs
from ironic_lite.domain.activities import limited
from ironic_lite.domain.states import State
from ironic_lite.domain.verb_refusals import Refusals, VerbRequest
from ironic_lite.domain.verbs import Verb


def raise_first(refusals: Refusals) -> None:
    """Raise the first refusal, if there is one; later checks are not made."""
    for refusal in refusals:
        raise refusal


def of_verb(task: Task, target: str) -> Refusals:
    """Yield the refusals of a verb by its node."""
    verb = verbs.BY_TARGET[target]
    if not verbs.possible(verb, task.state):
        yield errors.InvalidState(verb=target, node=task.node.uuid, state=str(task.state))
    yield from of_holds(task, verb.event, target)
    request = VerbRequest(verb, {}, task.node.as_dict(), 0, task.runtime.conf)
    for check in verb_refusals.OF_ROW:
        yield from check(request)


def of_holds(task: Task, operation: str, said: str) -> Refusals:
    """Yield the refusal by a hold in force.

    A hold that is set before the lock of the node is taken is effective. A node that had no hold
    then costs no statement.

    :param operation: the event of a verb, or an operation of ``domain.holds``.
    :param said: the name of the operation for the message.
    """
    unheld = task.held is not None and not task.held.has_hold
    if unheld or not holds.refusable(operation):
        return
    uuid, project = task.node.uuid, task.context.project
    found = task.runtime.database.read(lambda conn: hold_rows.in_force(conn, uuid, project))
    why = holds.refusal(uuid, found, operation, said)
    if why is not None:
        yield why


def of_drivers(task: Task, flow: Flow, *, ramdisk: bool = True) -> Refusals:
    """Yield the refusals of drivers that cannot do an activity; the machine is not asked.

    :param ramdisk: whether the activity boots the ramdisk.
    """
    driver = task.driver
    checks: dict[str, Callable[[Task], None]] = {"power": driver.power.validate}
    if ramdisk:
        checks |= {"network": driver.network.validate, "boot": driver.deploy.check_ramdisk}
    for kind, check in checks.items():
        try:
            check(task)
        except errors.InvalidRequest as why:
            busy = f"{flow.activity.busy} of node {task.node.uuid}"
            lead = f"Failed to validate {kind} driver interface for {busy}"
            yield error_text.led_by(lead, why).because(why)


def of_limit(task: Task, flow: Flow, count: Callable[[tuple[State, ...]], int]) -> Refusals:
    """Yield the refusal (503) of an activity that would exceed its limit of the whole cluster.

    :param count: returns the number of nodes in these states.
    """
    activity = flow.activity
    if activity.limit is not None:
        most = task.runtime.conf.conductor[activity.limit]
        if count(limited(activity.limit)) >= most:
            yield errors.TooManyActions(limit=most, action=str(activity.busy))


def keep_limit(task: Task, flow: Flow) -> None:
    """Refuse the next move if it would exceed the activity's limit of the whole cluster.

    The count is part of the move's transaction, so concurrent callers and conductors cannot exceed
    the limit.
    """

    def count(conn: Connection) -> None:
        raise_first(of_limit(task, flow, lambda states: sweeps.count_alone(conn, states)))

    if flow.activity.limit is not None:
        task.add_write(count, first=True)


def start_listed(
    task: Task, phase: Phase, verb: Verb, body: JsonView, *, goal: State | None = None
) -> None:
    """Start the steps that a request names.

    :param body: with the list, and ``disable_ramdisk`` if no ramdisk may boot.
    """
    wanted = body[f"{phase.kind}_steps"]
    allowed = not body.get("disable_ramdisk", False)
    boots = allowed and lists.needs_ramdisk(task, phase.kind, wanted)
    raise_first(of_drivers(task, phase, ramdisk=boots))
    raise_first(lists.child_refusals(task, phase.kind, wanted))
    keep_limit(task, phase)
    task.notes.request_steps(phase.kind, wanted, ramdisk=boots)
    phase.show(task, {})
    task.move(verb.event, verb=verb.target, goal=goal)
    task.hand_over(phase.prepare)
