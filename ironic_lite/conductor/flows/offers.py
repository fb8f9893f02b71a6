"""Which steps a node offers: its interfaces asked one by one."""

from __future__ import annotations

from ironic_lite import plans, steps
from ironic_lite.conductor.task import Task
from ironic_lite.steps import Step, StepKind


def offered(task: Task, kind: StepKind) -> list[Step]:
    """Return all steps of a kind, of every interface that may own some.

    :raises errors.StepsUnavailable: an interface only knows after an agent has run (S1.26).
    """
    found: list[Step] = []
    for name in plans.RANKS[kind]:
        interface = task.driver.interface(name)
        listed = getattr(interface, f"get_{kind}_steps")(task)
        found += [steps.from_dict(one) for one in listed]
    return found
