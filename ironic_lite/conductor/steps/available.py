"""The steps that a node offers: those of its interfaces and of its agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from ironic_lite import errors
from ironic_lite.conductor.steps import agent_steps
from ironic_lite.conductor.work.task import Task
from ironic_lite.domain import step_planning, steps
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import Step, StepKind
from ironic_lite.drivers.base import Interface
from ironic_lite.records import StepsByInterface, StoredStep

_BOOTS = 60  # seconds after which a booting agent may have listed its steps
_BOOTING = (State.CLEANING, State.CLEANWAIT)


def offered(task: Task, kind: StepKind, *, ramdisk: bool = True) -> list[Step]:
    """Return all steps of a kind: those of the interfaces and of this run's agent.

    :param ramdisk: False if this run boots none: steps that only an agent lists are left out.
    :raises errors.StepsUnavailable: an interface can list its steps only after an agent has run
        (S1.26).
    """
    told = task.notes.agent_steps(kind) or {}
    found: list[Step] = []
    for name, interface in _interfaces(task, kind):
        own, missing = _own_steps(task, kind, interface)
        if missing is not None and name not in told and ramdisk:
            raise missing
        agents = told.get(name, ())
        joins = agents and (missing is not None or interface.uses_agent(task))
        found += _join_steps(own, agents if joins else ())
    return found


class Expected(NamedTuple):
    """The steps of a run that has not begun, as far as they are known.

    ``told_at`` maps the ramdisk's steps, by ``interface.step``, to the time at which an agent has
    listed them. ``open_interfaces`` are those to which the next ramdisk may add steps;
    ``undescribed`` those of them whose steps no agent has listed yet.
    """

    steps: list[Step]
    told_at: Mapping[str, str | None]
    open_interfaces: frozenset[str]
    undescribed: frozenset[str]


def expected(task: Task, kind: StepKind, *, ramdisk: bool) -> Expected:
    """Return the steps of a kind before a run: those of the interfaces and of the last agent.

    :param ramdisk: whether the run boots a ramdisk.
    """
    told, at = task.notes.agent_steps(kind), task.notes.agent_steps_at(kind)
    live = told is not None
    interfaces = dict(_interfaces(task, kind))
    owns = {name: _own_steps(task, kind, one) for name, one in interfaces.items()}
    agents = {
        name
        for name, (_steps, missing) in owns.items()
        if missing is not None or interfaces[name].uses_agent(task)
    }
    if told is None and ramdisk and agents and kind is StepKind.CLEAN:
        told, at = agent_steps.copied_at(task) or (None, None)
    found: list[Step] = []
    told_at: dict[str, str | None] = {}
    for name, (own, _missing) in owns.items():
        joined = _join_steps(own, (told or {}).get(name, ()) if name in agents else ())
        told_at |= {step.title: at for step in joined[len(own) :]}
        found += joined
    opened = frozenset(agents if ramdisk and not live else ())
    return Expected(found, told_at, opened, opened if told is None else frozenset())


def known(task: Task) -> list[Step]:
    """Return all clean steps that need no running agent; some are the last agent's.

    :raises errors.StepsUnavailable: no agent has listed its steps yet (S1.25, S1.26).
    """
    copy: StepsByInterface | None = None
    found: list[Step] = []
    for name, interface in _interfaces(task, StepKind.CLEAN):
        own, missing = _own_steps(task, StepKind.CLEAN, interface)
        if missing is not None or interface.uses_agent(task):
            copy = agent_steps.copied(task) if copy is None else copy
            if copy is None or (missing is not None and name not in copy):
                raise missing or _not_yet(task)
            own = _join_steps(own, copy.get(name, ()))
        found += own
    return found


def _interfaces(task: Task, kind: StepKind) -> Iterator[tuple[str, Interface]]:
    """Return the interfaces that have steps of a kind, by their kind, in the order of steps."""
    driver = task.driver
    return ((name, driver.interface(name)) for name in step_planning.RANKS[kind])


def _own_steps(
    task: Task, kind: StepKind, interface: Interface
) -> tuple[list[Step], errors.StepsUnavailable | None]:
    """Return the steps an interface lists itself, and its error if it cannot."""
    method, owner = f"get_{kind}_steps", cast(type, type(interface))
    if getattr(owner, method) is getattr(Interface, method):
        return list(steps.listed(interface.kind, owner, kind)), None
    try:
        listed = getattr(interface, method)(task)
    except errors.StepsUnavailable as missing:
        return [], missing
    return [steps.from_dict(one) for one in listed], None


def _join_steps(own: list[Step], agents: Sequence[StoredStep]) -> list[Step]:
    """Add an agent's steps; the interface's own wins, else the first."""
    found = {step.name: step for step in own}
    for step in map(steps.from_dict, agents):
        found.setdefault(step.name, step)
    return list(found.values())


def _not_yet(task: Task) -> errors.StepsUnavailable:
    seconds = _BOOTS if task.state in _BOOTING else -1
    return errors.StepsUnavailable(node=task.node.uuid, seconds=seconds)
