"""Which deploy templates a deployment takes up: those named by a trait its instance asks for (C13).

They are read once, when the verb is accepted, and noted on the node with all their steps; whenever
the list is composed, the notes are read. So what the caller heard to be valid is what runs: a
template that is edited or removed meanwhile changes no deployment that has begun, neither while it
waits for its agent, nor when another conductor goes on after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ironic_lite import errors, steps
from ironic_lite.conductor.flows import listed
from ironic_lite.conductor.task import Task
from ironic_lite.db import deploy_templates, traits
from ironic_lite.db.session import Connection
from ironic_lite.steps import StepKind

Json = dict[str, Any]

_PATH = "instance_info/traits"
_SHOWN = 80


def matching(task: Task) -> list[Json]:
    """Return the templates for ``instance_info.traits``, by name, with ``name`` and ``steps``.

    Without traits there is none, at no cost; else two statements.

    :raises errors.InvalidParameter: the traits are no list of strings, the node lacks one of them,
        or a step is forbidden: by the configuration, or because the machine must stay on.
    """
    wanted = _wanted(task.node.instance_info.get("traits"))
    if not wanted:
        return []
    found = task.desk.database.read(lambda conn: _read(conn, task.node.uuid, wanted))
    _refuse(task, found)
    return found


def _wanted(given: Any) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise _wrong(_PATH, "must be a list of strings")
    for place, name in enumerate(given):
        if not isinstance(name, str):
            raise _wrong(f"{_PATH}/{place}", "must be a string")
    return given


def _read(conn: Connection, node_uuid: str, wanted: Sequence[str]) -> list[Json]:
    known = frozenset(traits.get(conn, node_uuid))
    for place, name in enumerate(wanted):
        if name not in known:
            reason = f"node {node_uuid} does not have the trait {name[:_SHOWN]!r}"
            raise _wrong(f"{_PATH}/{place}", reason)
    return deploy_templates.named(conn, wanted)


def _refuse(task: Task, found: Sequence[Json]) -> None:
    """Refuse what the steps themselves do not show: the configuration and the node forbid it."""
    disallowed = task.desk.conf.api.disallow_deploy_steps
    faults: list[str] = []
    for template in found:
        titles = [steps.title(step) for step in template["steps"]]
        forbidden = [
            f"step {title} is not allowed by the operator's configuration"
            for title in titles
            if title in disallowed
        ]
        forbidden += listed.power_faults(task.node, StepKind.DEPLOY, template["steps"])
        faults += [f"deploy template {template['name']}: {fault}" for fault in forbidden]
    if faults:
        raise errors.InvalidParameter("; ".join(faults), path=_PATH, reason=faults)


def _wrong(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)
