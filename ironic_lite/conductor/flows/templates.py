"""The deploy templates of a deployment: those named by a trait of its instance.

Requirement C13. The templates are read once, when the verb is accepted, and stored on the node with
all their steps. Every later composition of the list reads the stored ones. So the deployment runs
what was validated: a template that is edited or deleted meanwhile changes no deployment that has
begun, not even after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.conductor.steps import requested
from ironic_lite.conductor.work.task import Task
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import deploy_templates, traits
from ironic_lite.domain import steps
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import StoredTemplate

_PATH = "instance_info/traits"
_SHOWN = 80


def matching(task: Task) -> list[StoredTemplate]:
    """Return the templates for ``instance_info.traits``, with ``name`` and ``steps``.

    They are sorted by name. Without traits there are no templates and no statements; otherwise two
    statements.

    :raises errors.InvalidParameter: the traits are no list of strings, the node lacks one of them,
        or a step is forbidden: by the configuration, or because the machine must stay on.
    """
    wanted = _wanted_traits(task.node.instance_info.get("traits"))
    if not wanted:
        return []
    found = task.runtime.database.read(lambda conn: _read_templates(conn, task.node.uuid, wanted))
    _refuse_steps(task, found)
    return found


def _wanted_traits(given: object) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise _wrong_steps(_PATH, "must be a list of strings")
    for place, name in enumerate(given):
        if not isinstance(name, str):
            raise _wrong_steps(f"{_PATH}/{place}", "must be a string")
    return given


def _read_templates(
    conn: Connection, node_uuid: str, wanted: Sequence[str]
) -> list[StoredTemplate]:
    known = frozenset(traits.get(conn, node_uuid))
    for place, name in enumerate(wanted):
        if name not in known:
            reason = f"node {node_uuid} does not have the trait {name[:_SHOWN]!r}"
            raise _wrong_steps(f"{_PATH}/{place}", reason)
    return deploy_templates.named(conn, wanted)


def _refuse_steps(task: Task, found: Sequence[StoredTemplate]) -> None:
    """Refuse steps that the configuration or the node forbids."""
    disallowed = task.runtime.conf.api.disallow_deploy_steps
    faults: list[str] = []
    for template in found:
        titles = [steps.title(step) for step in template["steps"]]
        forbidden = [
            f"step {title} is not allowed by the operator's configuration"
            for title in titles
            if title in disallowed
        ]
        forbidden += requested.power_texts(task.node, StepKind.DEPLOY, template["steps"])
        faults += [f"deploy template {template['name']}: {fault}" for fault in forbidden]
    if faults:
        raise errors.InvalidParameter("; ".join(faults), path=_PATH, reason=faults)


def _wrong_steps(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)
