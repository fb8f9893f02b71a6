"""Lists of steps: selection, order, arguments, and the faults of listed steps. Pure.

``conductor/flows`` call this module and pass the result to ``conductor/engine/stepper``. Rules:
S1.9, S1.16, S2.5, S2.11, S2.12, S3.7, S3.8 and the conflicts C5 to C9 and C13.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import steps
from ironic_lite.domain.steps import Priority, Step, StepKind
from ironic_lite.records import StoredStep, StoredTemplate

# Faults of listed steps: each is a sentence and the JSON path of its place; no I/O.

MOST_FAULTS = 200
"""Largest number of faults in a plan."""
_SIMILAR = 0.8
"""Least likeness of a step that is suggested, from 0 to 1."""
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


class StepFault(NamedTuple):
    """A fault in a request: the JSON path of its place, such as ``clean_steps/1/args``."""

    path: str
    text: str


def refuse(path: str, faults: Sequence[StepFault]) -> None:
    """Refuse a request if faults were found in it.

    :param path: the path of the whole list.
    :raises errors.InvalidParameter: with every fault in its message; the facts ``reason`` and
        ``paths`` list the sentences and their paths.
    """
    if faults:
        texts = [fault.text for fault in faults]
        paths = [fault.path for fault in faults]
        raise errors.InvalidParameter("; ".join(texts), path=path, reason=texts, paths=paths)


def faults_of_step(
    asked: StoredStep, offered: Mapping[str, Step], kind: StepKind, path: str, *, ramdisk: bool
) -> list[StepFault]:
    """Return the faults of one listed step.

    :param offered: the steps of drivers and agent, by title.
    :param path: of the step in its list.
    :param ramdisk: False refuses a step that needs the agent.
    """
    known = offered.get(steps.title(asked))
    if known is None:
        return [unsupported(asked, kind, path, offered)]
    found = faults_of_arguments(asked, known, kind, path)
    if known.requires_ramdisk and not ramdisk:
        text = (
            f"{kind} step {known.title} requires booting a ramdisk, which was disabled by request"
        )
        found.append(StepFault(path, text))
    return found


def unsupported(asked: StoredStep, kind: StepKind, path: str, offered: Iterable[str]) -> StepFault:
    """Return the fault of a step that nobody offers.

    :param offered: titles of steps, of which the text suggests one with a similar name.
    """
    # Without the arguments, which may be secret: this text becomes last_error and a log line.
    title = f"{asked['interface']}.{asked['step']}"
    close = difflib.get_close_matches(title, offered, n=1, cutoff=_SIMILAR)
    hint = f"; did you mean {close[0]}?" if close else ""
    return StepFault(f"{path}/step", f"node does not support this {kind} step: {title}{hint}")


def faults_of_reserved(asked: StoredStep, kind: StepKind, path: str) -> list[StepFault]:
    """Return the faults of a step of the service itself.

    Requirement S1.16.

    :param asked: a step of a request whose name is in ``RESERVED``.
    """
    known = Step(asked["interface"], asked["step"], argsinfo=_RESERVED_ARGS[asked["step"]])
    found = faults_of_arguments(asked, known, kind, path)
    args = steps.arguments(asked)
    if asked["step"] == "wait" and "seconds" in args:
        seconds = args["seconds"]
        fits = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not fits or not 0 <= seconds < math.inf:
            shown = errors.shown(seconds)
            text = (
                f"{kind} step {known.title}: args/seconds: {shown} is not a number of seconds, "
                "0 or more"
            )
            found.append(StepFault(f"{path}/args/seconds", text))
    return found


def faults_of_arguments(
    asked: StoredStep, known: Step, kind: StepKind, path: str
) -> list[StepFault]:
    """Return the faults of unexpected and of missing arguments of a listed step.

    Requirement S1.16.
    """
    given = set(steps.arguments(asked))
    info = known.argsinfo or {}
    found = []
    unexpected = sorted(given - set(info))
    if unexpected:
        names = ", ".join(unexpected)
        text = f"{kind} step {known.title} has these unexpected arguments: {names}"
        found.append(StepFault(_path_of_arguments(path, unexpected), text))
    missing = [name for name, arg in info.items() if arg.required and name not in given]
    if missing:
        names = ", ".join(f"{name} ({info[name].description})" for name in missing)
        text = f"{kind} step {known.title} is missing these required arguments: {names}"
        found.append(StepFault(_path_of_arguments(path, missing), text))
    return found


def _path_of_arguments(path: str, names: Sequence[str]) -> str:
    """Return the path of the only argument, or of all arguments."""
    return f"{path}/args/{names[0]}" if len(names) == 1 else f"{path}/args"


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

"""Steps that the engine runs itself, for any interface in the list."""
LIMIT: Final = "limit_child_node_execution"
"""Key of a listed step: the UUIDs of the children that run it."""


def interruptible(step: StoredStep) -> bool:
    """Return whether an abort may end this step, or the time between two steps, at once."""
    return not step or bool(step.get("abortable", False)) or step["step"] in RESERVED


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
    skip: Collection[int] = (),
    besides: Sequence[StepFault] = (),
) -> list[StoredStep]:
    """Check a requested list of steps and return it in stored form; see `as_requested`.

    :param skip: ordinals of steps that are not checked, because they will not run.
    :param ramdisk: False refuses steps that need the agent (disable_ramdisk).
    :param besides: further faults of the list, found by the caller. Only the caller checks steps
        for children, which belong to their drivers.
    :raises errors.InvalidParameter: with every fault of the whole list in its reason (S1.16).
    """
    known = list(offered)
    faults = requested_faults(wanted, known, kind, ramdisk=ramdisk, skip=skip)
    refuse(f"{kind}_steps", [*besides, *faults])
    return as_requested(wanted, known)


def requested_faults(
    wanted: Sequence[StoredStep],
    offered: Iterable[Step],
    kind: StepKind,
    *,
    ramdisk: bool = True,
    skip: Collection[int] = (),
    open_interfaces: Collection[str] = (),
) -> list[StepFault]:
    """Return the faults of a requested list of steps; paths have the ordinals of the whole list.

    :param skip: ordinals of steps that are not checked, because they will not run.
    :param open_interfaces: interfaces to which a ramdisk may add steps: an unknown step of theirs
        is no fault yet.
    """
    known = {step.title: step for step in offered}
    found: list[StepFault] = []
    for place, asked in enumerate(wanted):
        if place in skip:
            continue
        path, driver_step = f"{kind}_steps/{place}", known.get(steps.title(asked))
        if asked["step"] in RESERVED:
            found += faults_of_reserved(asked, kind, path)
        elif not for_children(asked) and (driver_step or asked["interface"] not in open_interfaces):
            found += faults_of_step(asked, known, kind, path, ramdisk=ramdisk)
    return found


def as_requested(wanted: Sequence[StoredStep], offered: Iterable[Step]) -> list[StoredStep]:
    """Return a requested list in stored form, in the order of the request.

    Each stored step is the request's dictionary plus the driver's ``abortable`` and ``priority``,
    and ``reboot_requested`` if an agent requires a reboot after it.
    """
    known = {step.title: step for step in offered}
    stored: list[StoredStep] = []
    for asked in wanted:
        driver_step = known.get(steps.title(asked))
        stored.append(
            {
                **asked,
                "abortable": driver_step.abortable if driver_step else asked["step"] in RESERVED,
                "priority": driver_step.priority if driver_step else 0,
                **_reboot_request(driver_step),
            }
        )
    return stored


def _reboot_request(known: Step | None) -> StoredStep:
    wanted = known is not None and known.extra.get("reboot_requested")
    return {"reboot_requested": True} if wanted else {}


def deploy(
    offered: Iterable[Step],
    user: Sequence[StoredStep] = (),
    templates: Sequence[StoredTemplate] = (),
    *,
    complete: bool,
) -> list[StoredStep]:
    """Check a deploy list and return it in stored form; see `deploy_list`.

    :param templates: each with ``name`` and ``steps``. All are checked, even if overridden by the
        user, so that conflicts between templates are always reported.
    :param complete: False while an agent may still add steps: unknown ones are left out silently.
    :raises errors.InvalidParameter: unexpected or missing arguments, a step given twice, an unknown
        step when ``complete``, or ``deploy.deploy`` with another priority than 0.
    """
    driver_steps = list(offered)
    known = {step.title: step for step in driver_steps}
    wrong = _user_faults(user, known, complete=complete)
    in_templates = _template_faults(templates, known, complete=complete)
    refuse("deploy_steps" if wrong else _OF_TEMPLATES, [*wrong, *in_templates])
    return deploy_list(driver_steps, user, templates)


def deploy_list(
    offered: Iterable[Step],
    user: Sequence[StoredStep] = (),
    templates: Sequence[StoredTemplate] = (),
) -> list[StoredStep]:
    """Return the stored deploy list: steps of driver, then templates, then user.

    A priority of 0 in a user's or template's step removes the driver's (C13: no option does).
    Drivers' own steps need a priority above 0 (S3.7). Steps that nobody offers are left out.
    """
    chosen: dict[str, StoredStep] = {
        step.title: steps.as_driver_dict(step, StepKind.DEPLOY) for step in offered
    }
    known = frozenset(chosen)
    for asked in (*(step for one in templates for step in one["steps"]), *user):
        title = steps.title(asked)
        if title in known or asked["step"] in RESERVED:
            chosen[title] = asked.copy()
    live = [entry for entry in chosen.values() if read_priority(entry) > 0]
    ranks = RANKS[StepKind.DEPLOY]
    return sorted(
        live,
        key=lambda entry: (
            -read_priority(entry),
            -ranks.get(entry["interface"], 0),
            entry["step"],
        ),
    )


def read_priority(step: StoredStep) -> Priority:
    """Return a listed step's priority; requests may send text, agents a fraction."""
    given = step["priority"]
    return int(given) if isinstance(given, str) else given or 0


_OF_TEMPLATES = "instance_info/traits"


def _user_faults(
    user: Sequence[StoredStep], known: Mapping[str, Step], *, complete: bool
) -> list[StepFault]:
    faults: list[StepFault] = []
    seen: set[str] = set()
    for place, asked in enumerate(user):
        title, path = steps.title(asked), f"{StepKind.DEPLOY}_steps/{place}"
        if title in seen:
            faults.append(StepFault(path, f"deploy step {title} is given more than once"))
        seen.add(title)
        faults += _deploy_faults(asked, known, path, complete=complete)
    return faults


def _template_faults(
    templates: Sequence[StoredTemplate], known: Mapping[str, Step], *, complete: bool
) -> list[StepFault]:
    texts: list[str] = []
    owners: dict[str, str] = {}
    for template in templates:
        found: list[str] = []
        for asked in template["steps"]:
            title = steps.title(asked)
            owner = owners.setdefault(title, template["name"])
            if owner != template["name"]:
                found.append(f"deploy step {title} is in deploy template {owner} too")
            faults = _deploy_faults(asked, known, _OF_TEMPLATES, complete=complete)
            found += [fault.text for fault in faults]
        texts += [f"deploy template {template['name']}: {text}" for text in found]
    return [StepFault(_OF_TEMPLATES, text) for text in texts]


def _deploy_faults(
    asked: StoredStep, known: Mapping[str, Step], path: str, *, complete: bool
) -> list[StepFault]:
    title, kind = steps.title(asked), StepKind.DEPLOY
    if title == "deploy.deploy" and read_priority(asked) > 0:
        text = "deploy.deploy is a core step, which can only be disabled by priority 0"
        return [StepFault(f"{path}/priority", text)]
    if asked["step"] in RESERVED:
        return faults_of_reserved(asked, kind, path)
    if title in known:
        return faults_of_arguments(asked, known[title], kind, path)
    return [unsupported(asked, kind, path, known)] if complete else []


# Approval of runbooks for nodes by traits, and the steps of a runbook; no I/O.

TRAITS_SINCE = 112
"""The version before which a runbook's name was its only trait."""


def check_runbook(
    book: JsonView, node_uuid: str, node_traits: Collection[str], version: int
) -> None:
    """Refuse a runbook on a node that it is not approved for.

    :param book: uuid, name and traits of the runbook.
    :param version: the request's minor API version.
    :raises errors.InvalidParameter: node and runbook have no trait in common.
    """
    wanted = set(book["traits"] or ()) if version >= TRAITS_SINCE else {book["name"]}
    if wanted & set(node_traits):
        return
    if not wanted:
        reason = (
            f"runbook {book['uuid']} has no traits, so it fits no node; set some with PUT "
            f"/v1/runbooks/{book['uuid']}/traits"
        )
    else:
        reason = (
            f"runbook {book['uuid']} is not approved for node {node_uuid}: the node has none of "
            f"the traits {', '.join(sorted(wanted))}"
        )
    raise errors.InvalidParameter(path="runbook", reason=reason)


def steps_of_runbook(book: JsonView) -> list[StoredStep]:
    """Return the steps of a runbook as a request would list them, by their ``order``.

    Steps of the same order stay as they are listed.
    """
    return sorted(book["steps"], key=lambda step: int(step["order"]))
