"""Steps and versions that a ramdisk's agent reports, and their storage.

The deploy interface asks the agent. Flows call this module when an agent may have started, and
``stepper`` calls it when an agent other than before has refused a step.
"""

from __future__ import annotations

import datetime
import logging

from ironic_lite.conductor.work import bounds
from ironic_lite.conductor.work.task import Task
from ironic_lite.core import clock
from ironic_lite.db.queries import agent_steps as stored
from ironic_lite.domain import step_planning, steps
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import StepsByInterface

LOG = logging.getLogger(__name__)


def record_agent_steps(task: Task, kind: StepKind) -> None:
    """Store the steps and hardware manager versions of the agent, if one runs.

    The steps of this kind are kept until the ramdisk goes (S1.35, S2.29). Clean steps are also
    copied to a permanent place (S1.25, C29). The caller's next save writes them.

    :raises errors.HardwareError: the agent does not reply, or its reply is invalid.
    """
    report = task.driver.deploy.agent_steps(task, kind)
    if report is None:
        return
    found = {
        each: _runnable_steps(task, steps.from_agent(listed))
        for each, listed in report.steps.items()
    }
    bounds.check(agent_steps=found, hardware_manager_version=report.version)
    now = clock.now()
    task.notes.take_agent_steps(kind, found.get(kind, {}), at=now.isoformat())
    task.notes.manager_version = dict(report.version)
    if StepKind.CLEAN in found:
        _copy_steps(task, found[StepKind.CLEAN], at=now)


def _copy_steps(task: Task, listed: StepsByInterface, *, at: datetime.datetime) -> None:
    """Replace the permanent copy of the agent's clean steps with the next save.

    Requirement S1.25.
    """
    task.add_write(lambda conn: stored.put(conn, task.node.uuid, listed, at=at))


def copied(task: Task) -> StepsByInterface | None:
    """Return the permanent copy of clean steps by interface; None without a copy."""
    return task.runtime.database.read(lambda conn: stored.get(conn, task.node.uuid))


def copied_at(task: Task) -> tuple[StepsByInterface, str] | None:
    """Return the permanent copy of clean steps, and its time in ISO 8601; None without a copy."""
    found = task.runtime.database.read(lambda conn: stored.get_dated(conn, task.node.uuid))
    return None if found is None else (found[0], found[1].isoformat())


def _runnable_steps(task: Task, listed: StepsByInterface) -> StepsByInterface:
    """Leave out steps with the name of one of the service's own steps."""
    for one in (
        one for some in listed.values() for one in some if one["step"] in step_planning.RESERVED
    ):
        LOG.warning(
            "Node %s: %s of its agent is left out: the service has a step of this name",
            task.node.uuid,
            steps.title(one),
        )
    kept = {
        interface: [one for one in some if one["step"] not in step_planning.RESERVED]
        for interface, some in listed.items()
    }
    return {interface: some for interface, some in kept.items() if some}
