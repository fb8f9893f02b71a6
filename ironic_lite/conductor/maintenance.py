"""What maintenance forbids: going on with a node, where the operator does not allow that.

``[conductor]allow_provisioning_in_maintenance`` says so. ``flows/resume`` asks before anything goes
on with a waiting node, ``stepper`` between two steps, ``flows/clean`` before an automated clean.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.task import Task

_SENTENCE = (
    "The {action} operation was aborted{where}: the node is in maintenance, and "
    "[conductor]allow_provisioning_in_maintenance is false."
)


def forbids(task: Task) -> bool:
    """Tell whether nothing may be gone on with."""
    allowed: bool = task.desk.conf.conductor.allow_provisioning_in_maintenance
    return task.node.maintenance and not allowed


def ended(action: str, step: str | None = None) -> errors.Aborted:
    """Return why something has ended.

    :param action: what it was, such as ``clean``.
    :param step: the title of the step that was the last.
    """
    where = f' at the step "{step}"' if step else ""
    text = _SENTENCE.format(action=action, where=where)
    return errors.Aborted(text, action=action, where=where, step=step)
