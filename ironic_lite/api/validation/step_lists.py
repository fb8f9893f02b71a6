"""Check lists of steps: those of a request, and those of a deploy template.

A fault is named by its JSON path, such as ``deploy_steps/0/priority``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ironic_lite import errors, plans, steps
from ironic_lite.api.validation import rules, shapes
from ironic_lite.steps import StepKind

Json = dict[str, Any]


def of_request(kind: StepKind, given: Any, *, disallowed: Collection[str] = ()) -> list[Json]:
    """Return the steps of a request, checked (S1.14, S1.15); nothing is added or left out.

    :param kind: clean, service or deploy.
    :param disallowed: ``interface.step`` of those nobody may ask for.
    :raises errors.InvalidParameter: not a list of steps (of clean and service steps at least one is
        needed), or a step that is not allowed.
    """
    root = f"{kind}_steps"
    lead = f"Invalid {root}"
    if not given and kind is not StepKind.DEPLOY:
        reason = "is required, as a list of at least one step"
        raise errors.InvalidParameter(f"{lead}: {reason}", path=root, reason=reason)
    shapes.check(root, given, root, lead)
    for position, step in enumerate(given):
        _check_reserved(kind, step, f"{root}/{position}", lead)
        for place, child in enumerate(step.get("limit_child_node_execution", ())):
            rules.uuid(child, f"{root}/{position}/limit_child_node_execution/{place}")
    refuse_disallowed(given, disallowed, root, lead)
    listed: list[Json] = given
    return listed


def of_template(given: Any, root: str, lead: str) -> list[Json]:
    """Return the steps of a deploy template, checked, priorities as integers.

    :param root: the path at which the list stands.
    :param lead: how the sentence of a refusal starts.
    :raises errors.InvalidParameter: not a list of deploy steps, none at all, or one of them twice.
    """
    shapes.check("steps", given, root, lead)
    _check_each_once(StepKind.DEPLOY, given, root, lead)
    return [{**step, "priority": int(step["priority"])} for step in given]


def of_runbook(given: Any, root: str, lead: str) -> list[Json]:
    """Return the steps of a runbook, checked, each with ``args`` and with ``order`` as an integer.

    :raises errors.InvalidParameter: as `of_template`.
    """
    shapes.check("runbook_steps", given, root, lead)
    _check_each_once(StepKind.CLEAN, given, root, lead)
    return [{**step, "args": step.get("args", {}), "order": int(step["order"])} for step in given]


def _check_each_once(kind: StepKind, given: list[Json], root: str, lead: str) -> None:
    seen: set[str] = set()
    for position, step in enumerate(given):
        title = steps.title(step)
        if title in seen:
            raise _refused(f"{root}/{position}", f"step {title} is given more than once", lead)
        seen.add(title)
        _check_reserved(kind, step, f"{root}/{position}", lead)


def refuse_disallowed(
    given: Collection[Json], disallowed: Collection[str], root: str, lead: str
) -> None:
    """Refuse steps that the operator's configuration forbids.

    :param lead: how the sentence of a refusal starts.
    :raises errors.InvalidParameter: one of them is among the ``disallowed``.
    """
    for position, step in enumerate(given):
        title = steps.title(step)
        if title in disallowed:
            reason = f"step {title} is not allowed by the operator's configuration"
            raise _refused(f"{root}/{position}/step", reason, lead)


def _check_reserved(kind: StepKind, step: Json, path: str, lead: str) -> None:
    """Arguments of steps that belong to no driver are known here: nothing need start to see it."""
    faults = plans.reserved_faults(step, kind) if step["step"] in plans.RESERVED else []
    if faults:
        raise _refused(f"{path}/args", "; ".join(faults), lead)


def _refused(path: str, reason: str, lead: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(f"{lead}: {path}: {reason}", path=path, reason=reason)
