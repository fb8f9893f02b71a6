"""Selection, order and arguments of steps: pure functions over lists of steps.

``conductor/flows`` call this module and pass the result to ``conductor/steps/stepper``. Rules:
S1.9, S1.16, S2.5, S2.11, S2.12, S3.7, S3.8 and the conflicts C5 to C9 and C13.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from ironic_lite import errors
from ironic_lite.domain import steps
from ironic_lite.domain.steps import Priority, Step, StepKind
from ironic_lite.errors import unicode_text
from ironic_lite.records import StoredStep, StoredTemplate

Overrides = Mapping[str, Priority]
"""Configured priorities by ``interface.step``."""

# Higher runs first among equal priorities (S2.11 widened by C9).
_COMMON = {
    "vendor": 7,
    "power": 6,
    "management": 5,
    "firmware": 4,
    "deploy": 3,
    "bios": 2,
    "raid": 1,
}
RANKS: Mapping[StepKind, Mapping[str, int]] = {
    StepKind.CLEAN: _COMMON,
    StepKind.DEPLOY: _COMMON,
    StepKind.SERVICE: {"network": 8, **_COMMON},
    StepKind.VERIFY: {
        "power": 13,
        "management": 12,
        "firmware": 11,
        "inspect": 10,
        "deploy": 9,
        "boot": 8,
        "bios": 7,
        "raid": 6,
        "vendor": 5,
        "network": 4,
        "storage": 3,
        "console": 2,
        "rescue": 1,
    },
}

_SECONDS = steps.Arg("how long, a number of seconds; without it until the next heartbeat")
_RESERVED_ARGS: Mapping[str, Mapping[str, steps.Arg]] = {
    "power_on": {},
    "power_off": {},
    "reboot": {},
    "hold": {},
    "wait": {"seconds": _SECONDS},
}
# Run by the engine itself, for any interface in the list.
RESERVED = frozenset(_RESERVED_ARGS)


LIMIT: Final = "limit_child_node_execution"
"""Key of a listed step: the UUIDs of the children that run it."""


def for_children(step: StoredStep) -> bool:
    """Return whether a listed step runs on the children of its node."""
    return bool(step.get("execute_on_child_nodes"))


def order(listed: Iterable[Step], kind: StepKind) -> list[Step]:
    """Return steps by falling priority, ties by interface rank, then by step name.

    Conflict C35.
    """
    ranks = RANKS[kind]
    return sorted(
        listed,
        key=lambda step: (-step.priority, -ranks.get(step.interface, 0), step.name),
    )


def overridden(listed: Iterable[Step], overrides: Overrides) -> list[Step]:
    """Return the steps with the configured priorities, keyed by ``interface.step``.

    Requirement S2.5.
    """
    return [
        dataclasses.replace(step, priority=overrides[step.title])
        if step.title in overrides
        else step
        for step in listed
    ]


def automated(
    offered: Iterable[Step],
    kind: StepKind,
    *,
    overrides: Overrides | None = None,
    disallowed: Collection[str] = (),
) -> list[Step]:
    """Return the steps of an automated run: priority above 0 after overrides.

    Requirements S2.4, S2.10.

    :param disallowed: ``interface.step`` names the operator's configuration forbids.
    """
    named = overridden(offered, overrides or {})
    return order((s for s in named if s.priority > 0 and s.title not in disallowed), kind)


def as_stored(chosen: Iterable[Step], kind: StepKind) -> list[StoredStep]:
    """Return driver steps in the form of driver_internal_info and the engine."""
    return [steps.as_driver_dict(step, kind) for step in chosen]


def ties(listed: Iterable[Step]) -> list[tuple[Step, Step]]:
    """Return pairs of one interface's enabled steps with the same priority.

    Requirement S2.12, conflict C8.
    """
    first: dict[tuple[str, Priority], Step] = {}
    found = []
    for step in listed:
        if step.priority > 0:
            other = first.setdefault((step.interface, step.priority), step)
            if other is not step:
                found.append((other, step))
    return found


def requested(
    wanted: Sequence[StoredStep],
    offered: Iterable[Step],
    kind: StepKind,
    *,
    ramdisk: bool = True,
    besides: Sequence[str] = (),
) -> list[StoredStep]:
    """Check a requested list of steps and return it in stored form.

    The order of the request is kept (S1.9). Each stored step is the request's dictionary plus the
    driver's ``abortable`` and ``priority``, and ``reboot_requested`` if an agent requires a reboot
    after it.

    :param ramdisk: False refuses steps that need the agent (disable_ramdisk).
    :param besides: further faults of the list, found by the caller. Only the caller checks steps
        for children, which belong to their drivers.
    :raises errors.InvalidParameter: with every fault of the whole list in its reason (S1.16).
    """
    known = {step.title: step for step in offered}
    faults = list(besides)
    stored: list[StoredStep] = []
    for asked in wanted:
        title = f"{asked['interface']}.{asked['step']}"
        driver_step = known.get(title)
        if asked["step"] in RESERVED:
            faults += reserved_faults(asked, kind)
        elif not for_children(asked):
            faults += _step_faults(asked, driver_step, kind, ramdisk=ramdisk)
        stored.append(
            {
                **asked,
                "abortable": driver_step.abortable if driver_step else asked["step"] in RESERVED,
                "priority": driver_step.priority if driver_step else 0,
                **_reboot_request(driver_step),
            }
        )
    if faults:
        raise errors.InvalidParameter("; ".join(faults), path=f"{kind}_steps", reason=faults)
    return stored


def _reboot_request(known: Step | None) -> StoredStep:
    wanted = known is not None and known.extra.get("reboot_requested")
    return {"reboot_requested": True} if wanted else {}


def step_faults(asked: StoredStep, offered: Iterable[Step], kind: StepKind) -> list[str]:
    """Return a sentence for each fault of one listed step without a ramdisk."""
    title = f"{asked['interface']}.{asked['step']}"
    known = next((step for step in offered if step.title == title), None)
    return _step_faults(asked, known, kind, ramdisk=True)


def _step_faults(
    asked: StoredStep, known: Step | None, kind: StepKind, *, ramdisk: bool
) -> list[str]:
    if known is None:
        return [_unsupported_text(asked, kind)]
    found = argument_faults(asked, known, kind)
    if known.requires_ramdisk and not ramdisk:
        found.append(
            f"{kind} step {known.title} requires booting a ramdisk, which was disabled by request"
        )
    return found


def _unsupported_text(asked: StoredStep, kind: StepKind) -> str:
    # Without the arguments, which may be secret: this text becomes last_error and a log line.
    return f"node does not support this {kind} step: {asked['interface']}.{asked['step']}"


def reserved_faults(asked: StoredStep, kind: StepKind) -> list[str]:
    """Return a sentence for each invalid argument of a reserved step.

    Requirement S1.16.

    :param asked: a step of a request whose name is in ``RESERVED``.
    """
    known = Step(asked["interface"], asked["step"], argsinfo=_RESERVED_ARGS[asked["step"]])
    found = argument_faults(asked, known, kind)
    args = steps.arguments(asked)
    if asked["step"] == "wait" and "seconds" in args:
        seconds = args["seconds"]
        fits = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not fits or not 0 <= seconds < math.inf:
            shown = unicode_text.shown(seconds)
            found.append(
                f"{kind} step {known.title}: args/seconds: {shown} is not a number of seconds, "
                "0 or more"
            )
    return found


def argument_faults(asked: StoredStep, known: Step, kind: StepKind) -> list[str]:
    """Return sentences for unexpected and for missing arguments of a listed step.

    Requirement S1.16.
    """
    given = set(steps.arguments(asked))
    info = known.argsinfo or {}
    found = []
    unexpected = sorted(given - set(info))
    if unexpected:
        found.append(
            f"{kind} step {known.title} has these unexpected arguments: {', '.join(unexpected)}"
        )
    missing = [
        f"{name} ({arg.description})"
        for name, arg in info.items()
        if arg.required and name not in given
    ]
    if missing:
        found.append(
            f"{kind} step {known.title} is missing these required arguments: {', '.join(missing)}"
        )
    return found


def deploy(
    offered: Iterable[Step],
    user: Sequence[StoredStep] = (),
    templates: Sequence[StoredTemplate] = (),
    *,
    complete: bool,
) -> list[StoredStep]:
    """Return the stored deploy list: steps of driver, then templates, then user.

    A priority of 0 in a user's or template's step removes the driver's (C13: no option does).
    Drivers' own steps need a priority above 0 (S3.7).

    :param templates: each with ``name`` and ``steps``. All are checked, even if overridden by the
        user, so that conflicts between templates are always reported.
    :param complete: False while an agent may still add steps: unknown ones are left out silently.
    :raises errors.InvalidParameter: unexpected or missing arguments, a step given twice, an unknown
        step when ``complete``, or ``deploy.deploy`` with another priority than 0.
    """
    known = {step.title: step for step in offered}
    _refuse_faults("deploy_steps", _user_faults(user, known, complete=complete))
    _refuse_faults("instance_info/traits", _template_faults(templates, known, complete=complete))
    chosen: dict[str, StoredStep] = {
        title: steps.as_driver_dict(step, StepKind.DEPLOY) for title, step in known.items()
    }
    for asked in (*(step for one in templates for step in one["steps"]), *user):
        title = f"{asked['interface']}.{asked['step']}"
        if title in known or asked["step"] in RESERVED:
            chosen[title] = asked.copy()
    live = [entry for entry in chosen.values() if _read_priority(entry) > 0]
    ranks = RANKS[StepKind.DEPLOY]
    return sorted(
        live,
        key=lambda entry: (
            -_read_priority(entry),
            -ranks.get(entry["interface"], 0),
            entry["step"],
        ),
    )


def _read_priority(step: StoredStep) -> Priority:
    """Return a listed step's priority; requests may send text, agents a fraction."""
    given = step["priority"]
    return int(given) if isinstance(given, str) else given or 0


def _refuse_faults(path: str, faults: list[str]) -> None:
    if faults:
        raise errors.InvalidParameter("; ".join(faults), path=path, reason=faults)


def _user_faults(
    user: Sequence[StoredStep], known: Mapping[str, Step], *, complete: bool
) -> list[str]:
    faults: list[str] = []
    seen: set[str] = set()
    for asked in user:
        title = steps.title(asked)
        if title in seen:
            faults.append(f"deploy step {title} is given more than once")
        seen.add(title)
        faults += _deploy_faults(asked, known, complete=complete)
    return faults


def _template_faults(
    templates: Sequence[StoredTemplate], known: Mapping[str, Step], *, complete: bool
) -> list[str]:
    faults: list[str] = []
    owners: dict[str, str] = {}
    for template in templates:
        found: list[str] = []
        for asked in template["steps"]:
            title = steps.title(asked)
            owner = owners.setdefault(title, template["name"])
            if owner != template["name"]:
                found.append(f"deploy step {title} is in deploy template {owner} too")
            found += _deploy_faults(asked, known, complete=complete)
        faults += [f"deploy template {template['name']}: {fault}" for fault in found]
    return faults


def _deploy_faults(asked: StoredStep, known: Mapping[str, Step], *, complete: bool) -> list[str]:
    title = steps.title(asked)
    if title == "deploy.deploy" and _read_priority(asked) > 0:
        return ["deploy.deploy is a core step, which can only be disabled by priority 0"]
    if asked["step"] in RESERVED:
        return reserved_faults(asked, StepKind.DEPLOY)
    if title in known:
        return argument_faults(asked, known[title], StepKind.DEPLOY)
    return [_unsupported_text(asked, StepKind.DEPLOY)] if complete else []
