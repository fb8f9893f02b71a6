"""Maintenance forbids continuing with a node, unless the operator allows it.

The option is ``[conductor]allow_provisioning_in_maintenance``. ``flows/resume`` asks before
continuing with a waiting node, ``stepper`` between two steps, ``flows/clean`` before an automated
clean.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.conductor.work.task import Task

_SENTENCE = (
    "The {action} operation was aborted{where}: the node is in maintenance, and "
    "[conductor]allow_provisioning_in_maintenance is false."
)


def forbids(task: Task) -> bool:
    """Return whether maintenance forbids continuing."""
    allowed: bool = task.runtime.conf.conductor.allow_provisioning_in_maintenance
    return task.node.maintenance and not allowed


def ended(action: str, step: str | None = None) -> errors.Aborted:
    """Return the error of work ended by maintenance.

    :param action: the work, such as ``clean``.
    :param step: the title of the last step.
    """
    where = f' at the step "{step}"' if step else ""
    text = _SENTENCE.format(action=action, where=where)
    return errors.Aborted(text, action=action, where=where, step=step)
