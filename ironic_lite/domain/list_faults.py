"""Faults of listed steps: each is a sentence and the JSON path of its place; no I/O."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.domain import steps
from ironic_lite.domain.steps import Step, StepKind
from ironic_lite.errors import unicode_text
from ironic_lite.records import StoredStep

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


class Fault(NamedTuple):
    """A fault in a request: the JSON path of its place, such as ``clean_steps/1/args``."""

    path: str
    text: str


def refuse(path: str, faults: Sequence[Fault]) -> None:
    """Refuse a request if faults were found in it.

    :param path: the path of the whole list.
    :raises errors.InvalidParameter: with every fault in its message; the facts ``reason`` and
        ``paths`` list the sentences and their paths.
    """
    if faults:
        texts = [fault.text for fault in faults]
        paths = [fault.path for fault in faults]
        raise errors.InvalidParameter("; ".join(texts), path=path, reason=texts, paths=paths)


def of_step(
    asked: StoredStep, offered: Mapping[str, Step], kind: StepKind, path: str, *, ramdisk: bool
) -> list[Fault]:
    """Return the faults of one listed step.

    :param offered: the steps of drivers and agent, by title.
    :param path: of the step in its list.
    :param ramdisk: False refuses a step that needs the agent.
    """
    known = offered.get(steps.title(asked))
    if known is None:
        return [unsupported(asked, kind, path, offered)]
    found = of_arguments(asked, known, kind, path)
    if known.requires_ramdisk and not ramdisk:
        text = (
            f"{kind} step {known.title} requires booting a ramdisk, which was disabled by request"
        )
        found.append(Fault(path, text))
    return found


def unsupported(asked: StoredStep, kind: StepKind, path: str, offered: Iterable[str]) -> Fault:
    """Return the fault of a step that nobody offers.

    :param offered: titles of steps, of which the text suggests one with a similar name.
    """
    # Without the arguments, which may be secret: this text becomes last_error and a log line.
    title = f"{asked['interface']}.{asked['step']}"
    close = difflib.get_close_matches(title, offered, n=1, cutoff=_SIMILAR)
    hint = f"; did you mean {close[0]}?" if close else ""
    return Fault(f"{path}/step", f"node does not support this {kind} step: {title}{hint}")


def of_reserved(asked: StoredStep, kind: StepKind, path: str) -> list[Fault]:
    """Return the faults of a step of the service itself.

    Requirement S1.16.

    :param asked: a step of a request whose name is in ``RESERVED``.
    """
    known = Step(asked["interface"], asked["step"], argsinfo=_RESERVED_ARGS[asked["step"]])
    found = of_arguments(asked, known, kind, path)
    args = steps.arguments(asked)
    if asked["step"] == "wait" and "seconds" in args:
        seconds = args["seconds"]
        fits = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not fits or not 0 <= seconds < math.inf:
            shown = unicode_text.shown(seconds)
            text = (
                f"{kind} step {known.title}: args/seconds: {shown} is not a number of seconds, "
                "0 or more"
            )
            found.append(Fault(f"{path}/args/seconds", text))
    return found


def of_arguments(asked: StoredStep, known: Step, kind: StepKind, path: str) -> list[Fault]:
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
        found.append(Fault(_path_of_arguments(path, unexpected), text))
    missing = [name for name, arg in info.items() if arg.required and name not in given]
    if missing:
        names = ", ".join(f"{name} ({info[name].description})" for name in missing)
        text = f"{kind} step {known.title} is missing these required arguments: {names}"
        found.append(Fault(_path_of_arguments(path, missing), text))
    return found


def _path_of_arguments(path: str, names: Sequence[str]) -> str:
    """Return the path of the only argument, or of all arguments."""
    return f"{path}/args/{names[0]}" if len(names) == 1 else f"{path}/args"
