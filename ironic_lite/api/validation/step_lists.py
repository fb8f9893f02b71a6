"""Check lists of steps of requests, deploy templates and runbooks.

Errors name the JSON path, such as ``deploy_steps/0/priority``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ironic_lite import errors
from ironic_lite.api.validation import rules, shapes
from ironic_lite.domain import step_planning, steps
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import StoredStep


def of_request(kind: StepKind, given: Any, *, disallowed: Collection[str] = ()) -> list[StoredStep]:
    """Check the steps of a request and return them unchanged.

    :param kind: clean, service or deploy.
    :param disallowed: ``interface.step`` of the steps that the configuration forbids.
    :raises errors.InvalidParameter: not a list of steps, an empty list of clean or service steps,
        or a step that is not allowed.

    Source: S1.14, S1.15.
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
    listed: list[StoredStep] = given
    return listed


def of_template(given: Any, root: str, lead: str) -> list[StoredStep]:
    """Return the checked steps of a deploy template, priorities as integers.

    :param root: the path of the list.
    :param lead: the start of error messages.
    :raises errors.InvalidParameter: not a list of deploy steps, an empty list, or a repeated step.
    """
    shapes.check("steps", given, root, lead)
    _check_each_once(StepKind.DEPLOY, given, root, lead)
    listed: list[StoredStep] = given
    return [{**step, "priority": int(step["priority"] or 0)} for step in listed]


def of_runbook(given: Any, root: str, lead: str) -> list[StoredStep]:
    """Return the checked steps of a runbook, each with ``args`` and an integer ``order``.

    :raises errors.InvalidParameter: as `of_template`.
    """
    shapes.check("runbook_steps", given, root, lead)
    _check_each_once(StepKind.CLEAN, given, root, lead)
    listed: list[StoredStep] = given
    return [{**step, "args": step.get("args", {}), "order": int(step["order"])} for step in listed]


def _check_each_once(kind: StepKind, given: list[StoredStep], root: str, lead: str) -> None:
    seen: set[str] = set()
    for position, step in enumerate(given):
        title = steps.title(step)
        if title in seen:
            raise _steps_refused(
                f"{root}/{position}", f"step {title} is given more than once", lead
            )
        seen.add(title)
        _check_reserved(kind, step, f"{root}/{position}", lead)


def refuse_disallowed(
    given: Collection[StoredStep], disallowed: Collection[str], root: str, lead: str
) -> None:
    """Refuse steps that the operator's configuration forbids.

    :param lead: the start of error messages.
    :raises errors.InvalidParameter: a step is in ``disallowed``.
    """
    for position, step in enumerate(given):
        title = steps.title(step)
        if title in disallowed:
            reason = f"step {title} is not allowed by the operator's configuration"
            raise _steps_refused(f"{root}/{position}/step", reason, lead)


def _check_reserved(kind: StepKind, step: StoredStep, path: str, lead: str) -> None:
    """Check the arguments of steps without a driver, which need no conductor for the check."""
    faults = (
        step_planning.reserved_faults(step, kind) if step["step"] in step_planning.RESERVED else []
    )
    if faults:
        raise _steps_refused(f"{path}/args", "; ".join(faults), lead)


def _steps_refused(path: str, reason: str, lead: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(f"{lead}: {path}: {reason}", path=path, reason=reason)
