"""Refusals of verbs by a conductor: state, holds, drivers' checks, and limits of activities.

Endpoints raise the first refusal under the node's lock. A plan collects all of them without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ironic_lite import errors
from ironic_lite.conductor.flows import error_text
from ironic_lite.conductor.steps.phases import Flow
from ironic_lite.conductor.work.task import Task
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds as hold_rows
from ironic_lite.db.queries import sweeps
from ironic_lite.domain import holds, verbs
from ironic_lite.domain.activities import limited
from ironic_lite.domain.states import State

Refusals = Iterator[errors.Error]


def raise_first(refusals: Refusals) -> None:
    """Raise the first refusal, if there is one; later checks are not made."""
    for refusal in refusals:
        raise refusal


def of_verb(task: Task, target: str) -> Refusals:
    """Yield the refusals of a verb by its node: state, hold, protected, retired, maintenance."""
    verb = verbs.BY_TARGET[target]
    node = task.node
    if not verbs.possible(verb, task.state):
        yield errors.InvalidState(verb=target, node=node.uuid, state=str(task.state))
    yield from of_holds(task, verb.event, target, with_run=True)
    required = task.runtime.conf.conductor.require_clean_data
    yield from verbs.refusals_of_available(verb, node.as_dict(), required=required)
    if verb.spares_protected and node.protected:
        yield errors.NodeProtected(node=node.uuid)
    if verb.spares_retired and node.retired:
        yield errors.NodeRetired(node=node.uuid)
    cleans = task.runtime.conf.conductor.allow_provisioning_in_maintenance
    if node.maintenance and not verbs.in_maintenance(verb, node.as_dict(), cleans=cleans):
        yield errors.NodeInMaintenance(verb=target, node=node.uuid)


def of_holds(task: Task, operation: str, said: str, *, with_run: bool = False) -> Refusals:
    """Yield the refusal by a hold in force; one statement.

    If the next save takes the lock, it looks for holds itself, once it has the node's row. So a
    hold that is set before the lock is taken is effective.

    :param operation: the event of a verb, or an operation of ``domain.holds``.
    :param said: the name of the operation for the message.
    :param with_run: have a run that the save opens checked by the same statement.
    """
    if not holds.refusable(operation):
        return
    uuid, project = task.node.uuid, task.context.project
    if task.locks_by_save:
        if with_run:
            task.journal.refuse_held(operation, said)
        else:
            task.add_write(lambda conn: hold_rows.refuse(conn, uuid, operation, said, project))
        return
    found = task.runtime.database.read(lambda conn: hold_rows.in_force(conn, uuid, project))
    why = holds.refusal(uuid, found, operation, said)
    if why is not None:
        yield why


def of_abort(task: Task) -> Refusals:
    """Yield the refusal of an abort that would hide a fault."""
    return verbs.refusals_of_abort(task.state, task.node.as_dict())


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


def keep_limit(task: Task, flow: Flow, target: str) -> None:
    """Refuse the next move if it would exceed the activity's limit of the whole cluster.

    The count is part of the move's transaction, so concurrent callers and conductors cannot exceed
    the limit. It comes before the check of `of_holds` in that transaction. A node with a hold is
    still refused by the hold, because a repetition after the limit would not help.

    :param target: of the verb.
    """

    def count(conn: Connection) -> None:
        for refusal in of_limit(task, flow, lambda states: sweeps.count_alone(conn, states)):
            operation, project = verbs.BY_TARGET[target].event, task.context.project
            hold_rows.refuse(conn, task.node.uuid, operation, target, project)
            raise refusal

    if flow.activity.limit is not None:
        task.add_write(count, first=True)
