"""Steps: marks on driver methods, and the form of steps in lists on the wire.

The decorators only mark (S2.4, S3.1): they attach a ``Mark`` and return the method unchanged.
``collect`` finds the marks of an interface; ``step_lists`` orders and checks them;
``conductor/engine/stepper`` runs them. Drivers import these names from
``ironic_lite.drivers.base``.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.records import StepsByInterface, StoredStep

# Parameters of the step decorators, and their checks at import.
#
# The same checks read the steps that an agent lists.

Priority = int | float
_HIGHEST = sys.maxsize  # orjson writes no integer beyond 64 bits


@dataclasses.dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a step; ``description`` states the possible values.

    Source: S1.5, S3.3.
    """

    description: str
    required: bool = False


def checked_priority(value: object, *, floats: bool) -> Priority:
    """Return a step's priority.

    :raises errors.InvalidParameter: it is no number from 0 to 64 bits.
    """
    allowed = (int, float) if floats else (int,)
    fits = isinstance(value, allowed) and not isinstance(value, bool)
    if not fits or not 0 <= value <= _HIGHEST:  # type: ignore[operator]  # it is a number
        wanted = "a number" if floats else "an integer"
        reason = f"{value!r} is not {wanted} from 0 to {_HIGHEST}"
        raise errors.InvalidParameter(path="priority", reason=reason)
    return value  # type: ignore[return-value]  # narrowed by the isinstance above


def checked_flag(name: str, value: object) -> bool:
    """Return a parameter that is True or False.

    :raises errors.InvalidParameter: it is neither.
    """
    if not isinstance(value, bool):
        raise errors.InvalidParameter(path=name, reason=f"{value!r} is not True or False")
    return value


def arguments_by_name(info: object) -> dict[str, Arg] | None:
    """Return ``argsinfo``: the arguments of a step by name.

    :raises errors.InvalidParameter: it is malformed; naming the path.
    """
    if info is None:
        return None
    if not isinstance(info, Mapping):
        raise errors.InvalidParameter(path="argsinfo", reason=f"{info!r} is not a dictionary")
    return {
        _checked_name(name): _checked_argument(f"argsinfo/{name}", about)
        for name, about in info.items()
    }


def arguments_from_list(args: object) -> dict[str, Arg]:
    """Return the arguments of a step that are given as a list.

    :raises errors.InvalidParameter: it is malformed; naming the path.

    Source: S1.5.
    """
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
    return Arg(description, checked_flag(f"{path}/required", about.get("required", False)))


# Declared effects of steps on a machine: what they destroy, its restarts, and their duration.
#
# Drivers declare them in the decorators of ``domain.steps``. A plan shows them before a run, and a
# retry keeps the steps whose effect lasts. None always means unknown, never "nothing".

DESTROYED = ("data", "volumes", "settings", "firmware", "keys")
"""Things that a step can destroy: data on disks, volumes of controllers, settings of BIOS or BMC,
installed firmware, and keys of secure boot."""


@dataclasses.dataclass(frozen=True, slots=True)
class Effects:
    """Effects of one step.

    ``destroys`` has words of ``DESTROYED``, in their order; None: not declared. ``restarts`` is
    the number of restarts of the machine; None: not declared, or it depends on the machine.
    ``lasting`` says that the effect outlives a restart of the machine.
    """

    destroys: tuple[str, ...] | None = None
    restarts: int | None = None
    lasting: bool = True


UNKNOWN_EFFECTS = Effects()
EFFECTS_OF_RESERVED: Mapping[str, Effects] = {
    "hold": Effects((), 0),
    "wait": Effects((), 0, lasting=False),
    "power_off": Effects((), 0, lasting=False),
    "power_on": Effects((), 1, lasting=False),
    "reboot": Effects((), 1, lasting=False),
}
"""Effects of the steps that the engine runs itself."""


def declared_effects(
    destroys: Collection[str] | None, restarts: int | None, *, lasting: bool
) -> Effects:
    """Return the effects that a decorator declares.

    :raises errors.InvalidParameter: at import, when one of them is not as described.
    """
    if destroys is not None and (
        isinstance(destroys, str) or not set(destroys).issubset(DESTROYED)
    ):
        reason = f"{destroys!r} is not a collection of words of {', '.join(DESTROYED)}"
        raise errors.InvalidParameter(path="destroys", reason=reason)
    number = isinstance(restarts, int) and not isinstance(restarts, bool) and restarts >= 0
    if restarts is not None and not number:
        reason = f"{restarts!r} is not an integer of 0 or more"
        raise errors.InvalidParameter(path="restarts", reason=reason)
    words = None if destroys is None else tuple(word for word in DESTROYED if word in destroys)
    return Effects(words, restarts, checked_flag("lasting", lasting))


Method = TypeVar("Method", bound=Callable[..., Any])
_MARKS = "__ironic_lite_steps__"


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
class Mark:
    """The decorator's record about a method.

    ``rerunnable`` says that the step may be run again after a crash in mid-step. Clean steps always
    may (S2.24), other steps only if their author says so. ``effects`` is for plans and retries.
    """

    kind: StepKind
    priority: Priority = 0
    abortable: bool = False
    args: Mapping[str, Arg] | None = None
    requires_ramdisk: bool = True
    rerunnable: bool = False
    effects: Effects = UNKNOWN_EFFECTS


_SHARED = ("priority", "abortable", "requires_ramdisk", "rerunnable", "effects")
"""Fields of a mark that its step has too."""


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
    effects: Effects = UNKNOWN_EFFECTS

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
    destroys: Collection[str] | None = None,
    restarts: int | None = None,
    lasting: bool = True,
) -> Callable[[Method], Method]:
    """Mark a method as a clean step.

    Requirements S1.5, S1.6, S2.4.

    :param priority: int or float >= 0; the highest runs first, 0 only on request (S1.7).
    :param abortable: whether an abort may interrupt it.
    :param argsinfo: ``{name: {"description": str, "required": bool}}`` or ``{name: Arg}``.
    :param args: the same as a list of ``{"name", "description", "required"}`` (S1.5); not with
        argsinfo.
    :param requires_ramdisk: False if the step works without the agent.
    :param destroys: words of ``DESTROYED``, () if it destroys nothing; None: unknown.
    :param restarts: how often it restarts the machine; None: unknown.
    :param lasting: False if its effect ends with a restart of the machine.
    :raises errors.InvalidParameter: at import, when any of these is not as described.
    """
    if args is not None and argsinfo is not None:
        raise errors.InvalidParameter(path="args", reason="give args or argsinfo, not both")
    known = arguments_from_list(args) if args is not None else arguments_by_name(argsinfo)
    number = checked_priority(priority, floats=True)
    effects = declared_effects(destroys, restarts, lasting=lasting)
    flags = _checked_flags(abortable=abortable, requires_ramdisk=requires_ramdisk, rerunnable=True)
    return _marking_decorator(Mark(StepKind.CLEAN, number, args=known, effects=effects, **flags))


def deploy_step(
    *,
    priority: int,
    abortable: bool = True,
    argsinfo: JsonView | None = None,
    rerunnable: bool = False,
    destroys: Collection[str] | None = None,
    restarts: int | None = None,
    lasting: bool = False,
) -> Callable[[Method], Method]:
    """Mark a method as a deploy step; ``priority`` is an int >= 0.

    Requirements S3.1 to S3.3.

    :param rerunnable: True if running it again after a crash in mid-step is harmless.
    :param destroys: and ``restarts``: as in `clean_step`.
    :param lasting: True if its effect outlives a restart of the machine.
    :raises errors.InvalidParameter: at import, when a parameter is not as described.
    """
    number = checked_priority(priority, floats=False)
    effects = declared_effects(destroys, restarts, lasting=lasting)
    flags = _checked_flags(abortable=abortable, rerunnable=rerunnable)
    info = arguments_by_name(argsinfo)
    return _marking_decorator(Mark(StepKind.DEPLOY, number, args=info, effects=effects, **flags))


def service_step(
    *,
    priority: int | None = None,
    abortable: bool = False,
    argsinfo: JsonView | None = None,
    requires_ramdisk: bool = True,
    rerunnable: bool = False,
    destroys: Collection[str] | None = None,
    restarts: int | None = None,
    lasting: bool = True,
) -> Callable[[Method], Method]:
    """Mark a method as a service step; ``priority`` is kept for information only.

    :param destroys: and ``restarts``, ``lasting``: as in `clean_step`.
    :raises errors.InvalidParameter: at import, when a parameter is not as described.
    """
    number = checked_priority(0 if priority is None else priority, floats=False)
    effects = declared_effects(destroys, restarts, lasting=lasting)
    flags = _checked_flags(
        abortable=abortable, requires_ramdisk=requires_ramdisk, rerunnable=rerunnable
    )
    info = arguments_by_name(argsinfo)
    return _marking_decorator(Mark(StepKind.SERVICE, number, args=info, effects=effects, **flags))


def verify_step(
    *, priority: int, destroys: Collection[str] | None = None, restarts: int | None = None
) -> Callable[[Method], Method]:
    """Mark a method as a verify step: synchronous, without arguments.

    :param priority: an int >= 0.
    :param destroys: and ``restarts``: as in `clean_step`.
    :raises errors.InvalidParameter: at import, when the priority is not as described.
    """
    number = checked_priority(priority, floats=False)
    effects = declared_effects(destroys, restarts, lasting=True)
    return _marking_decorator(Mark(StepKind.VERIFY, number, rerunnable=True, effects=effects))


def _checked_flags(**flags: object) -> dict[str, bool]:
    return {name: checked_flag(name, value) for name, value in flags.items()}


def _marking_decorator(mark: Mark) -> Callable[[Method], Method]:
    def record(method: Method) -> Method:
        marks = dict(getattr(method, _MARKS, {}))
        marks[mark.kind] = mark
        setattr(method, _MARKS, marks)
        return method

    return record


# -- finding them ----------------------------------------------------------------------------


def collect(interface: str, implementation: object, kind: StepKind) -> list[Step]:
    """Return the steps of ``kind`` marked on an implementation, by method name.

    Steps of all priorities are included.

    :param interface: the interface kind it serves, such as ``"raid"``.
    :param implementation: the interface instance (or its class).
    """
    owner = implementation if isinstance(implementation, type) else type(implementation)
    return [
        Step(interface, name, argsinfo=mark.args, **{key: getattr(mark, key) for key in _SHARED})
        for name, marks in _marked(owner)
        if (mark := marks.get(kind)) is not None
    ]


@functools.lru_cache(maxsize=1024)
def listed(interface: str, owner: type, kind: StepKind) -> tuple[Step, ...]:
    """Return the steps that a class lists if it only lists its marked methods.

    Highest priorities come first. The steps are as read from `as_driver_dict`.

    :param interface: and ``kind``: as for `collect`.
    """
    found = sorted(collect(interface, owner, kind), key=lambda step: -step.priority)
    return tuple(from_dict(as_driver_dict(step, kind)) for step in found)


@functools.lru_cache(maxsize=1024)
def _marked(owner: type) -> tuple[tuple[str, Mapping[StepKind, Mark]], ...]:
    """Return the marked methods of a class, by name.

    The class is examined, not an instance, so that no property of the instance is run.
    """
    methods = ((name, getattr(owner, name, None)) for name in sorted(dir(owner)))
    return tuple(
        (name, getattr(method, _MARKS)) for name, method in methods if hasattr(method, _MARKS)
    )


def forget_classes() -> None:
    """Examine classes anew: one has got another method since its steps were collected."""
    _marked.cache_clear()
    listed.cache_clear()


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
        argsinfo=arguments_by_name(data.get("argsinfo")),
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
        if errors.NO_TEXT.search(name):
            raise errors.InvalidParameter(path=key, reason="holds a character that is not text")
    info = arguments_by_name(step.get("argsinfo"))
    read: Json = {
        **{key: value for key, value in step.items() if key not in _STEERING},
        "priority": checked_priority(step.get("priority"), floats=True),
        "abortable": checked_flag("abortable", step.get("abortable", False)),
        "argsinfo": info and {name: dataclasses.asdict(arg) for name, arg in info.items()},
        "requires_ramdisk": True,
    }
    return cast(StoredStep, read)


def title(step: JsonView) -> str:
    """Return ``interface.step`` of a step's dictionary, for a sentence."""
    return f"{step['interface']}.{step['step']}"


def arguments(step: StoredStep) -> Json:
    """Return the arguments of a listed step; empty if it has none."""
    return step.get("args") or {}
