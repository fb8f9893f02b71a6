"""Which deploy templates a deployment takes up: those named by a trait its instance asks for (C13).

They are read once, when the verb is accepted, and noted on the node with all their steps; whenever
the list is composed, the notes are read. So what the caller heard to be valid is what runs: a
template that is edited or removed meanwhile changes no deployment that has begun, neither while it
waits for its agent, nor when another conductor goes on after a crash.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ironic_lite import errors, steps
from ironic_lite.conductor.task import Task
from ironic_lite.db import deploy_templates, traits
from ironic_lite.db.session import Connection

Json = dict[str, Any]

_PATH = "instance_info/traits"
_SHOWN = 80


def matching(task: Task) -> list[Json]:
    """Return the templates for ``instance_info.traits``, by name, with ``name`` and ``steps``.

    Without traits there is none, at no cost; else two statements.

    :raises errors.InvalidParameter: the traits are no list of strings, the node lacks one of them,
        or the operator's configuration forbids a step.
    """
    wanted = _wanted(task.node.instance_info.get("traits"))
    if not wanted:
        return []
    found = task.desk.database.read(lambda conn: _read(conn, task.node.uuid, wanted))
    _refuse_disallowed(found, task.desk.conf.api.disallow_deploy_steps)
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


def _refuse_disallowed(found: Sequence[Json], disallowed: Collection[str]) -> None:
    """Refuse what a template may have had before the configuration forbade it."""
    for template in found:
        for step in template["steps"]:
            if steps.title(step) in disallowed:
                reason = (
                    f"deploy template {template['name']}: step {steps.title(step)} is not allowed "
                    "by the operator's configuration"
                )
                raise errors.InvalidParameter(reason, path=_PATH, reason=reason)


def _wrong(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)
