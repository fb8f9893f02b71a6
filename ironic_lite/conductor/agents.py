"""What a ramdisk's agent tells of itself: taken down for its run, and for whoever asks later.

The deploy interface asks the agent, flows ask here when it may have begun to speak, and ``stepper``
when another agent than before has refused a step.
"""

from __future__ import annotations

import logging
from typing import Any

from ironic_lite import clock, plans, steps
from ironic_lite.conductor.task import Task
from ironic_lite.steps import StepKind

LOG = logging.getLogger(__name__)

Listed = dict[str, list[dict[str, Any]]]


def listen(task: Task, kind: StepKind) -> None:
    """Have the agent list its steps and name its hardware managers, if one runs (S1.35, S2.29).

    The steps of this kind are noted until the ramdisk goes. Clean steps are also copied to where
    they stay (S1.25, C29). All is saved with the caller's next save.

    :raises errors.HardwareError: the agent gives no answer, or one that cannot be used.
    """
    report = task.driver.deploy.agent_steps(task, kind)
    if report is None:
        return
    found = {
        each: _runnable(task, steps.from_agent(listed)) for each, listed in report.steps.items()
    }
    now = clock.now()
    task.notes.take_agent_steps(kind, found.get(kind, {}), at=now.isoformat())
    task.notes.manager_version = dict(report.version)
    if StepKind.CLEAN in found:
        task.copy_agent_steps(found[StepKind.CLEAN], at=now)


def _runnable(task: Task, listed: Listed) -> Listed:
    """Leave out steps that nobody could run: whoever names them means the service's own."""
    for one in (one for some in listed.values() for one in some if one["step"] in plans.RESERVED):
        LOG.warning(
            "Node %s: %s of its agent is left out: this is a step of the service itself",
            task.node.uuid,
            steps.title(one),
        )
    kept = {
        interface: [one for one in some if one["step"] not in plans.RESERVED]
        for interface, some in listed.items()
    }
    return {interface: some for interface, some in kept.items() if some}
