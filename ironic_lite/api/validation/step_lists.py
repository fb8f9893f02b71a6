"""Check lists of steps of requests, deploy templates and runbooks.

Errors name the JSON path, such as ``deploy_steps/0/priority``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ironic_lite import errors
from ironic_lite.api.validation import rules, shapes
from ironic_lite.domain import list_faults, steps
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import StoredStep


def of_request(kind: StepKind, given: Any, *, disallowed: Collection[str] = ()) -> list[StoredStep]:
    """Check the steps of a request and return them unchanged.

    :raises errors.InvalidParameter: the first of `refusals`.
    """
    for refusal in refusals(kind, given, disallowed=disallowed):
        raise refusal
    listed: list[StoredStep] = given
    return listed


def well_formed(kind: StepKind, given: Any) -> bool:
    """Return whether the steps of a request have the right form, whatever their values."""
    root = f"{kind}_steps"
    return not any(shapes.refusals_of_list(root, given, root, ""))


def refusals(
    kind: StepKind, given: Any, *, disallowed: Collection[str] = ()
) -> Iterator[errors.InvalidParameter]:
    """Yield the refusals of the steps of a request.

    They are: not a list of steps, an empty list of clean or service steps, and steps that are
    not allowed. The other checks are left out if the form is wrong.

    :param kind: clean, service or deploy.
    :param disallowed: ``interface.step`` of the steps that the configuration forbids.

    Source: S1.14, S1.15.
    """
    root = f"{kind}_steps"
    lead = f"Invalid {root}"
    if not given and kind is not StepKind.DEPLOY:
        reason = "must be a list of at least one step"
        yield errors.InvalidParameter(f"{lead}: {reason}", path=root, reason=reason)
    malformed = False
    for refusal in shapes.refusals_of_list(root, given, root, lead):
        malformed = True
        yield refusal
    if malformed:
        return
    for position, step in enumerate(given):
        path = f"{root}/{position}"
        yield from _reserved_refusals(kind, step, path, lead)
        for place, child in enumerate(step.get("limit_child_node_execution", ())):
            try:
                rules.uuid(child, f"{path}/limit_child_node_execution/{place}")
            except errors.InvalidParameter as why:
                yield why
    yield from _disallowed_refusals(given, disallowed, root, lead)


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
        for refusal in _reserved_refusals(kind, step, f"{root}/{position}", lead):
            raise refusal


def refuse_disallowed(
    given: Collection[StoredStep], disallowed: Collection[str], root: str, lead: str
) -> None:
    """Refuse steps that the operator's configuration forbids.

    :param lead: the start of error messages.
    :raises errors.InvalidParameter: a step is in ``disallowed``.
    """
    for refusal in _disallowed_refusals(given, disallowed, root, lead):
        raise refusal


def _disallowed_refusals(
    given: Collection[StoredStep], disallowed: Collection[str], root: str, lead: str
) -> Iterator[errors.InvalidParameter]:
    for position, step in enumerate(given):
        title = steps.title(step)
        if title in disallowed:
            reason = f"step {title} is not allowed by the operator's configuration"
            yield _steps_refused(f"{root}/{position}/step", reason, lead)


def _reserved_refusals(
    kind: StepKind, step: StoredStep, path: str, lead: str
) -> Iterator[errors.InvalidParameter]:
    """Check the arguments of steps without a driver, which need no conductor for the check."""
    reserved = step["step"] in list_faults.RESERVED
    faults = list_faults.of_reserved(step, kind, path) if reserved else []
    if faults:
        reason = "; ".join(fault.text for fault in faults)
        yield _steps_refused(f"{path}/args", reason, lead)


def _steps_refused(path: str, reason: str, lead: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(f"{lead}: {path}: {reason}", path=path, reason=reason)
