"""Steps: marks on driver methods, and the form of steps in lists on the wire.

The decorators only mark (S2.4, S3.1): they attach a ``Mark`` and return the method unchanged.
``collect`` finds the marks of an interface; ``step_planning`` orders and checks them;
``conductor/steps/stepper`` runs them. Drivers import these names from ``ironic_lite.drivers.base``.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.errors import unicode_text
from ironic_lite.records import StepsByInterface, StoredStep

Method = TypeVar("Method", bound=Callable[..., Any])
Priority = int | float
_MARKS = "__ironic_lite_steps__"
_HIGHEST = sys.maxsize  # orjson writes no integer beyond 64 bits


class Outcome(enum.Enum):
    """Result of a step: finished, or continuing until a report."""

    DONE = "done"
    WAIT = "wait"


DONE = Outcome.DONE
WAIT = Outcome.WAIT


class StepKind(enum.StrEnum):
    """The four kinds of step lists."""

    CLEAN = "clean"
    DEPLOY = "deploy"
    SERVICE = "service"
    VERIFY = "verify"


@dataclasses.dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a step; ``description`` states the possible values.

    Source: S1.5, S3.3.
    """

    description: str
    required: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """The decorator's record about a method.

    ``rerunnable`` says that the step may be run again after a crash in mid-step. Clean steps always
    may (S2.24), other steps only if their author says so.
    """

    kind: StepKind
    priority: Priority = 0
    abortable: bool = False
    args: Mapping[str, Arg] | None = None
    requires_ramdisk: bool = True
    rerunnable: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step of a list: interface, rank, and the arguments of its call."""

    interface: str
    name: str
    priority: Priority = 0
    abortable: bool = False
    argsinfo: Mapping[str, Arg] | None = None
    requires_ramdisk: bool = True
    args: JsonView = dataclasses.field(default_factory=dict)
    rerunnable: bool = False
    extra: JsonView = dataclasses.field(default_factory=dict)

    @property
    def title(self) -> str:
        """``interface.step``, the name of steps in errors and options."""
        return f"{self.interface}.{self.name}"


# -- the decorators --------------------------------------------------------------------------


def clean_step(
    *,
    priority: Priority,
    abortable: bool = False,
    argsinfo: JsonView | None = None,
    args: Sequence[JsonView] | None = None,
    requires_ramdisk: bool = True,
) -> Callable[[Method], Method]:
    """Mark a method as a clean step.

    Requirements S1.5, S1.6, S2.4.

    :param priority: int or float >= 0; the highest runs first, 0 only on request (S1.7).
    :param abortable: whether an abort may interrupt it.
    :param argsinfo: ``{name: {"description": str, "required": bool}}`` or ``{name: Arg}``.
    :param args: the same as a list of ``{"name", "description", "required"}`` (S1.5); not with
        argsinfo.
    :param requires_ramdisk: False if the step works without the agent.
    :raises errors.InvalidParameter: at import, when any of these is not as described.
    """
    if args is not None and argsinfo is not None:
        raise errors.InvalidParameter(path="args", reason="give args or argsinfo, not both")
    known = _from_list(args) if args is not None else _checked_argsinfo(argsinfo)
    number = _checked_priority(priority, floats=True)
    flags = (
        _checked_flag("abortable", abortable),
        _checked_flag("requires_ramdisk", requires_ramdisk),
    )
    return _marking_decorator(
        Mark(StepKind.CLEAN, number, flags[0], known, flags[1], rerunnable=True)
    )


def deploy_step(
    *,
    priority: int,
    abortable: bool = True,
    argsinfo: JsonView | None = None,
    rerunnable: bool = False,
) -> Callable[[Method], Method]:
    """Mark a method as a deploy step; ``priority`` is an int >= 0.

    Requirements S3.1 to S3.3.

    :param rerunnable: True if running it again after a crash in mid-step is harmless.
    :raises errors.InvalidParameter: at import, when a parameter is not as described.
    """
    number = _checked_priority(priority, floats=False)
    flag = _checked_flag("abortable", abortable)
    again = _checked_flag("rerunnable", rerunnable)
    return _marking_decorator(
        Mark(StepKind.DEPLOY, number, flag, _checked_argsinfo(argsinfo), rerunnable=again)
    )


def service_step(
    *,
    priority: int | None = None,
    abortable: bool = False,
    argsinfo: JsonView | None = None,
    requires_ramdisk: bool = True,
    rerunnable: bool = False,
) -> Callable[[Method], Method]:
    """Mark a method as a service step; ``priority`` is kept for information only.

    :raises errors.InvalidParameter: at import, when a parameter is not as described.
    """
    number = _checked_priority(0 if priority is None else priority, floats=False)
    flags = (
        _checked_flag("abortable", abortable),
        _checked_flag("requires_ramdisk", requires_ramdisk),
    )
    again = _checked_flag("rerunnable", rerunnable)
    info = _checked_argsinfo(argsinfo)
    return _marking_decorator(Mark(StepKind.SERVICE, number, flags[0], info, flags[1], again))


def verify_step(*, priority: int) -> Callable[[Method], Method]:
    """Mark a method as a verify step: synchronous, without arguments.

    :param priority: an int >= 0.
    :raises errors.InvalidParameter: at import, when the priority is not as described.
    """
    return _marking_decorator(
        Mark(StepKind.VERIFY, _checked_priority(priority, floats=False), rerunnable=True)
    )


def _marking_decorator(mark: Mark) -> Callable[[Method], Method]:
    def record(method: Method) -> Method:
        marks = dict(getattr(method, _MARKS, {}))
        marks[mark.kind] = mark
        setattr(method, _MARKS, marks)
        return method

    return record


def _checked_priority(value: object, *, floats: bool) -> Priority:
    allowed = (int, float) if floats else (int,)
    fits = isinstance(value, allowed) and not isinstance(value, bool)
    if not fits or not 0 <= value <= _HIGHEST:  # type: ignore[operator]  # it is a number
        wanted = "a number" if floats else "an integer"
        reason = f"{value!r} is not {wanted} from 0 to {_HIGHEST}"
        raise errors.InvalidParameter(path="priority", reason=reason)
    return value  # type: ignore[return-value]  # narrowed by the isinstance above


def _checked_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise errors.InvalidParameter(path=name, reason=f"{value!r} is not True or False")
    return value


def _checked_argsinfo(info: object) -> dict[str, Arg] | None:
    if info is None:
        return None
    if not isinstance(info, Mapping):
        raise errors.InvalidParameter(path="argsinfo", reason=f"{info!r} is not a dictionary")
    return {
        _checked_name(name): _checked_argument(f"argsinfo/{name}", about)
        for name, about in info.items()
    }


def _from_list(args: object) -> dict[str, Arg]:
    if isinstance(args, str) or not isinstance(args, Sequence):
        raise errors.InvalidParameter(path="args", reason=f"{args!r} is not a list")
    found: dict[str, Arg] = {}
    for position, entry in enumerate(args):
        path = f"args/{position}"
        if not isinstance(entry, Mapping) or "name" not in entry:
            raise errors.InvalidParameter(path=path, reason="is not a dictionary with a name")
        name = _checked_name(entry["name"])
        if name in found:
            raise errors.InvalidParameter(path=path, reason=f"argument {name} is there twice")
        found[name] = _checked_argument(path, {key: entry[key] for key in entry if key != "name"})
    return found


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise errors.InvalidParameter(path="args", reason=f"{name!r} cannot name an argument")
    return name


def _checked_argument(path: str, about: object) -> Arg:
    if isinstance(about, Arg):
        about = dataclasses.asdict(about)
    if not isinstance(about, Mapping):
        raise errors.InvalidParameter(path=path, reason="is not a dictionary")
    unknown = sorted(str(key) for key in about if key not in {"description", "required"})
    if unknown:
        raise errors.InvalidParameter(path=path, reason=f"has unknown keys {', '.join(unknown)}")
    description = about.get("description")
    if not isinstance(description, str) or not description:
        raise errors.InvalidParameter(path=path, reason="needs a description")
    return Arg(description, _checked_flag(f"{path}/required", about.get("required", False)))


# -- finding them ----------------------------------------------------------------------------


def collect(interface: str, implementation: object, kind: StepKind) -> list[Step]:
    """Return the steps of ``kind`` marked on an implementation, by method name.

    Steps of all priorities are included.

    :param interface: the interface kind it serves, such as ``"raid"``.
    :param implementation: the interface instance (or its class).
    """
    # Looked up on the class, so that no property of the instance is run.
    owner = implementation if isinstance(implementation, type) else type(implementation)
    found = []
    for name in sorted(dir(owner)):
        mark = getattr(getattr(owner, name, None), _MARKS, {}).get(kind)
        if mark is not None:
            found.append(
                Step(
                    interface,
                    name,
                    mark.priority,
                    mark.abortable,
                    mark.args,
                    mark.requires_ramdisk,
                    rerunnable=mark.rerunnable,
                )
            )
    return found


# -- the wire --------------------------------------------------------------------------------

_DEPLOY_KEYS = ("step", "priority", "abortable", "argsinfo", "interface")
_WIRE_KEYS: Mapping[StepKind, tuple[str, ...]] = {
    StepKind.CLEAN: (*_DEPLOY_KEYS, "requires_ramdisk"),
    StepKind.DEPLOY: _DEPLOY_KEYS,
    StepKind.SERVICE: (*_DEPLOY_KEYS, "requires_ramdisk"),
    StepKind.VERIFY: ("step", "priority", "interface"),
}


def as_driver_dict(step: Step, kind: StepKind) -> StoredStep:
    """Return a driver's step as driver_internal_info shows it, ``argsinfo`` a dict.

    Conflict C6. An agent's step keeps its other keys, such as ``reboot_requested``.
    """
    info = None
    if step.argsinfo is not None:
        info = {name: dataclasses.asdict(arg) for name, arg in step.argsinfo.items()}
    full: Json = {
        "step": step.name,
        "priority": step.priority,
        "abortable": step.abortable,
        "argsinfo": info,
        "interface": step.interface,
        "requires_ramdisk": step.requires_ramdisk,
    }
    shown = {**{key: full[key] for key in _WIRE_KEYS[kind]}, **step.extra}
    return cast(StoredStep, shown)


def as_offer(step: Step) -> Json:
    """Return a step as GET .../cleaning/steps shows it.

    Source: S1.24.
    """
    return {
        "interface": step.interface,
        "step": step.name,
        "priority": step.priority,
        "abortable": step.abortable,
        "args": [
            {"name": name, "description": arg.description, "required": arg.required}
            for name, arg in (step.argsinfo or {}).items()
        ],
    }


def from_dict(data: StoredStep) -> Step:
    """Read a step from any of its wire forms; unknown keys are kept in ``extra``."""
    known = {"interface", "step", "priority", "abortable", "argsinfo", "requires_ramdisk", "args"}
    return Step(
        interface=str(data["interface"]),
        name=str(data["step"]),
        priority=cast(Priority, data.get("priority") or 0),  # text is in requests alone
        abortable=bool(data.get("abortable", False)),
        argsinfo=_checked_argsinfo(data.get("argsinfo")),
        requires_ramdisk=bool(data.get("requires_ramdisk", True)),
        args=arguments(data),
        extra={key: value for key, value in data.items() if key not in known},
    )


_NAME_LENGTH = 255  # of the column in which a run keeps it
_STEERING = frozenset(
    {"args", "abort_after", "execute_on_child_nodes", "limit_child_node_execution"}
)


def from_agent(listed: JsonView) -> StepsByInterface:
    """Return an agent's steps by interface, with all facts filled in.

    Other keys are kept, except those by which an operator's list controls the engine.

    :param listed: hardware manager -> list of steps with interface, step, priority, and perhaps
        abortable, argsinfo, reboot_requested.
    :raises errors.HardwareError: naming the manager, the key and its fault.
    """
    found: StepsByInterface = {}
    for manager, some in listed.items():
        try:
            read = [_agent_step(step) for step in _checked_list(some)]
        except errors.InvalidParameter as why:
            reason = f"the agent's hardware manager {manager} lists a step that cannot be used"
            raise errors.HardwareError(reason=f"{reason}: {why.message}") from why
        for step in read:
            found.setdefault(step["interface"], []).append(step)
    return found


def _checked_list(some: object) -> Sequence[object]:
    if not isinstance(some, list):
        raise errors.InvalidParameter(path="steps", reason="are not a list")
    return some


def _agent_step(step: object) -> StoredStep:
    if not isinstance(step, Mapping):
        raise errors.InvalidParameter(path="step", reason="is not a dictionary")
    for key in ("interface", "step"):
        name = step.get(key)
        if not isinstance(name, str) or not 0 < len(name) <= _NAME_LENGTH:
            reason = f"is not a name of 1 to {_NAME_LENGTH} characters"
            raise errors.InvalidParameter(path=key, reason=reason)
        if unicode_text.NO_TEXT.search(name):
            raise errors.InvalidParameter(path=key, reason="holds a character that is not text")
    info = _checked_argsinfo(step.get("argsinfo"))
    read: Json = {
        **{key: value for key, value in step.items() if key not in _STEERING},
        "priority": _checked_priority(step.get("priority"), floats=True),
        "abortable": _checked_flag("abortable", step.get("abortable", False)),
        "argsinfo": info and {name: dataclasses.asdict(arg) for name, arg in info.items()},
        "requires_ramdisk": True,
    }
    return cast(StoredStep, read)


def title(step: StoredStep) -> str:
    """Return ``interface.step`` of a step's dictionary, for a sentence."""
    return f"{step['interface']}.{step['step']}"


def arguments(step: StoredStep) -> Json:
    """Return the arguments of a listed step; empty if it has none."""
    return step.get("args") or {}
