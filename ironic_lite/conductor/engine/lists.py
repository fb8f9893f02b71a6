"""Lists of steps: those that a node offers, that a runbook names, and that a request contains."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from ironic_lite import errors
from ironic_lite.conductor.engine import execution, notes
from ironic_lite.conductor.engine.task import Task
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds, nodes, reports, resources
from ironic_lite.domain import step_lists, steps
from ironic_lite.domain.states import State
from ironic_lite.domain.step_lists import StepFault
from ironic_lite.domain.steps import Step, StepKind, title
from ironic_lite.drivers.base import Interface
from ironic_lite.records import Node, StepsByInterface, StoredStep

LOG = logging.getLogger(__name__)

# The steps that a node offers: those of its interfaces and of its agent.

_BOOT_SECONDS = 60  # seconds after which a booting agent may have listed its steps
_BOOTING = (State.CLEANING, State.CLEANWAIT)


def offered_steps(task: Task, kind: StepKind, *, ramdisk: bool = True) -> list[Step]:
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


def expected_steps(task: Task, kind: StepKind, *, ramdisk: bool) -> Expected:
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
        told, at = copied_steps_dated(task) or (None, None)
    found: list[Step] = []
    told_at: dict[str, str | None] = {}
    for name, (own, _missing) in owns.items():
        joined = _join_steps(own, (told or {}).get(name, ()) if name in agents else ())
        told_at |= {step.title: at for step in joined[len(own) :]}
        found += joined
    opened = frozenset(agents if ramdisk and not live else ())
    return Expected(found, told_at, opened, opened if told is None else frozenset())


def known_clean_steps(task: Task) -> list[Step]:
    """Return all clean steps that need no running agent; some are the last agent's.

    :raises errors.StepsUnavailable: no agent has listed its steps yet (S1.25, S1.26).
    """
    copy: StepsByInterface | None = None
    found: list[Step] = []
    for name, interface in _interfaces(task, StepKind.CLEAN):
        own, missing = _own_steps(task, StepKind.CLEAN, interface)
        if missing is not None or interface.uses_agent(task):
            copy = copied_steps(task) if copy is None else copy
            if copy is None or (missing is not None and name not in copy):
                raise missing or _not_listed_yet(task)
            own = _join_steps(own, copy.get(name, ()))
        found += own
    return found


def _interfaces(task: Task, kind: StepKind) -> Iterator[tuple[str, Interface]]:
    """Return the interfaces that have steps of a kind, by their kind, in the order of steps."""
    driver = task.driver
    return ((name, driver.interface(name)) for name in step_lists.RANKS[kind])


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


def _not_listed_yet(task: Task) -> errors.StepsUnavailable:
    seconds = _BOOT_SECONDS if task.state in _BOOTING else -1
    return errors.StepsUnavailable(node=task.node.uuid, seconds=seconds)


# Steps and versions that a ramdisk's agent reports, and their storage.
#
# The deploy interface asks the agent. Flows call this module when an agent may have started, and
# ``stepper`` calls it when an agent other than before has refused a step.


def record_agent_steps(task: Task, kind: StepKind) -> None:
    """Store the steps and hardware manager versions of the agent, if one runs.

    The steps of this kind are kept until the ramdisk goes (S1.35, S2.29). Clean steps are also
    copied to a permanent place (S1.25, C29). The caller's next save writes them.

    :raises errors.HardwareError: the agent does not reply, or its reply is invalid.
    """
    report = task.driver.deploy.agent_steps(task, kind)
    if report is None:
        return
    found = {
        each: _runnable_steps(task, steps.from_agent(listed))
        for each, listed in report.steps.items()
    }
    notes.check_size(agent_steps=found, hardware_manager_version=report.version)
    now = clock.now()
    task.notes.take_agent_steps(kind, found.get(kind, {}), at=now.isoformat())
    task.notes.manager_version = dict(report.version)
    if StepKind.CLEAN in found:  # the permanent copy; requirement S1.25
        cleans = found[StepKind.CLEAN]
        task.add_write(lambda conn: reports.put_agent_steps(conn, task.node.uuid, cleans, at=now))


def copied_steps(task: Task) -> StepsByInterface | None:
    """Return the permanent copy of clean steps by interface; None without a copy."""
    return task.runtime.database.read(lambda conn: reports.get_agent_steps(conn, task.node.uuid))


def copied_steps_dated(task: Task) -> tuple[StepsByInterface, str] | None:
    """Return the permanent copy of clean steps, and its time in ISO 8601; None without a copy."""
    found = task.runtime.database.read(
        lambda conn: reports.get_dated_agent_steps(conn, task.node.uuid)
    )
    return None if found is None else (found[0], found[1].isoformat())


def _runnable_steps(task: Task, listed: StepsByInterface) -> StepsByInterface:
    """Leave out steps with the name of one of the service's own steps."""
    for one in (
        one for some in listed.values() for one in some if one["step"] in step_lists.RESERVED
    ):
        LOG.warning(
            "Node %s: %s of its agent is left out: the service has a step of this name",
            task.node.uuid,
            steps.title(one),
        )
    kept = {
        interface: [one for one in some if one["step"] not in step_lists.RESERVED]
        for interface, some in listed.items()
    }
    return {interface: some for interface, some in kept.items() if some}


# Source of automated cleaning's steps: drivers, or a runbook named by operators.
#
# ``[conductor]automated_cleaning_step_source`` decides; ``flows/clean`` asks.

_BY_DRIVERS, _BY_RUNBOOK = "autogenerated", "runbook"
_RUNBOOK_KEY = "cleaning_runbook"


class Runbook(NamedTuple):
    """A runbook's UUID, its steps in order, and whether they need a ramdisk."""

    uuid: str
    steps: list[StoredStep]
    ramdisk: bool


def automated_runbook(task: Task) -> Runbook | None:
    """Return the runbook for automated cleaning; None: the drivers list the steps.

    :raises errors.InvalidParameter: a runbook is required but none is named; the runbook does not
        exist, is not for this node, or has a step that is not allowed.
    """
    source = task.runtime.conf.conductor.automated_cleaning_step_source
    if source == _BY_DRIVERS:
        return None
    named = _runbook_name(task)
    if named is None:
        if source == _BY_RUNBOOK:
            reason = (
                "[conductor]automated_cleaning_step_source requires a runbook, but none is named"
            )
            raise errors.InvalidParameter(path="runbook", reason=f"{reason} for this node")
        return None
    return _read_runbook(task, *named)


def _runbook_name(task: Task) -> tuple[str, str] | None:
    """Return the runbook's name and its place; the most specific setting counts."""
    conf, node = task.runtime.conf.conductor, task.node
    if conf.automated_cleaning_runbook_from_node and node.driver_info.get(_RUNBOOK_KEY):
        return str(node.driver_info[_RUNBOOK_KEY]), f"driver_info/{_RUNBOOK_KEY}"
    by_class = conf.automated_cleaning_runbook_by_resource_class
    if node.resource_class in by_class:
        option = "[conductor]automated_cleaning_runbook_by_resource_class"
        return by_class[node.resource_class], option
    if conf.automated_cleaning_runbook:
        return conf.automated_cleaning_runbook, "[conductor]automated_cleaning_runbook"
    return None


def _read_runbook(task: Task, ident: str, where: str) -> Runbook:
    def read(conn: Connection) -> tuple[Json, list[str]]:
        return resources.RUNBOOKS.get(conn, ident), nodes.get_traits(conn, task.node.uuid)

    try:
        row, known = task.runtime.database.read(read)
    except errors.RunbookNotFound as why:
        raise errors.InvalidParameter(path=where, reason=why.message) from None
    _check_runbook_owner(task, row, where)
    if task.runtime.conf.conductor.automated_cleaning_runbook_validate_traits:
        step_lists.check_runbook(row, task.node.uuid, known, step_lists.TRAITS_SINCE)
    steps = step_lists.steps_of_runbook(row)
    disallowed = {title(step) for step in steps} & set(task.runtime.conf.api.disallow_clean_steps)
    if disallowed:
        names = ", ".join(sorted(disallowed))
        reason = f"has steps that [api]disallow_clean_steps forbids: {names}"
        raise errors.InvalidParameter(path=f"{where}: runbook {row['uuid']}", reason=reason)
    ramdisk = not row["disable_ramdisk"] and needs_ramdisk(task, StepKind.CLEAN, steps)
    return Runbook(row["uuid"], steps, ramdisk)


def _check_runbook_owner(task: Task, row: Json, where: str) -> None:
    """Refuse a private runbook of another owner, named by a writer of driver_info."""
    theirs = (None, task.node.owner, task.node.lessee)
    if where.startswith("driver_info") and row["owner"] not in theirs:
        reason = errors.RunbookNotFound(runbook=row["uuid"]).message
        raise errors.InvalidParameter(path=where, reason=reason)


# Checks of requested step lists that depend on the node and its children.
#
# ``domain.step_lists`` checks a list against the steps that drivers offer.

_STOPPING_STEPS = ("hold", "wait")  # reserved steps that stop a run; a child has no run

# -- at the request --------------------------------------------------------------------------


def child_refusals(
    task: Task, kind: StepKind, wanted: Sequence[StoredStep]
) -> Iterator[errors.Error]:
    """Yield the refusals of steps for child nodes, while the client waits.

    They name the place: a limit without the flag, a limit that is no child of this node, a step
    that only stops a run, or a child in maintenance. Then those by holds in force on children.
    """
    if not any(step_lists.for_children(step) or step.get(step_lists.LIMIT) for step in wanted):
        return
    known = execution.children_of(task)
    for place, step in enumerate(wanted):
        yield from _refusals_of_step(step, known, f"{kind}_steps/{place}")
    yield from _refusals_of_holds(task, kind, wanted, known)


def _refusals_of_holds(
    task: Task, kind: StepKind, wanted: Sequence[StoredStep], known: list[Node]
) -> Iterator[errors.NodeHeld]:
    uuids, project = [child.uuid for child in known], task.context.project
    found = task.runtime.database.read(lambda conn: holds.in_force_of(conn, uuids, project))
    for step in filter(step_lists.for_children, wanted):
        for child in execution.chosen_children(step, known):
            held = found.get(child.uuid, [])
            if why := execution.refusal_by_hold_of_child(held, child.uuid, kind, step):
                yield why


def _refusals_of_step(
    step: StoredStep, known: list[Node], path: str
) -> Iterator[errors.InvalidParameter]:
    limit = f"{path}/{step_lists.LIMIT}"
    if not step_lists.for_children(step):
        if step.get(step_lists.LIMIT):
            yield _wrong_step(limit, "needs execute_on_child_nodes to be true")
        return
    if step["step"] in _STOPPING_STEPS:
        reason = f"{step['step']} is for the node itself, not for its children"
        yield _wrong_step(f"{path}/step", reason)
    uuids = {child.uuid for child in known}
    for place, one in enumerate(step.get(step_lists.LIMIT) or ()):
        if str(one).lower() not in uuids:
            reason = f"{str(one)!r} is not the UUID of a child of this node"
            yield _wrong_step(f"{limit}/{place}", reason)
    for child in execution.chosen_children(step, known):
        if child.maintenance:
            reason = (
                f"child node {child.uuid} is in maintenance; end it, or name the other children"
            )
            yield _wrong_step(limit if step.get(step_lists.LIMIT) else path, reason)


def _wrong_step(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)


def needs_ramdisk(task: Task, kind: StepKind, wanted: Sequence[StoredStep]) -> bool:
    """Return whether a requested run must boot the ramdisk.

    It need not if each step is known without a ramdisk and is marked to need none. Steps of the
    service itself, and steps for children, need no ramdisk, except a step that waits for a
    heartbeat.
    """
    own = [step for step in wanted if not step_lists.for_children(step)]
    named = [step for step in own if step["step"] not in step_lists.RESERVED]
    waits = any(step["step"] == "wait" and "seconds" not in steps.arguments(step) for step in own)
    if waits or not named:
        return True
    try:
        offered = offered_steps(task, kind)
    except errors.Error:  # the error is reported when the list is made
        return True
    without = {step.title for step in offered if not step.requires_ramdisk}
    return any(steps.title(step) not in without for step in named)


# -- when the list is made -------------------------------------------------------------------


def complete_request(
    task: Task,
    kind: StepKind,
    wanted: Sequence[StoredStep],
    *,
    overrides: step_lists.Overrides | None = None,
    ramdisk: bool = True,
    skip: Collection[int] = (),
) -> list[StoredStep]:
    """Return a requested list as stored, after checking it as a whole.

    Requirement S1.16.

    :param wanted: the steps of the request.
    :param overrides: configured priorities, by ``interface.step``.
    :param ramdisk: as in ``step_lists.requested``.
    :param skip: ordinals of steps that are not checked, because they will not run.
    :raises errors.InvalidParameter: with every fault of the whole list.
    """
    offered = offered_steps(task, kind, ramdisk=ramdisk)
    known = step_lists.overridden(offered, overrides or {})
    faults = node_faults(task, kind, wanted, skip)
    return step_lists.requested(wanted, known, kind, ramdisk=ramdisk, skip=skip, besides=faults)


def node_faults(
    task: Task, kind: StepKind, wanted: Sequence[StoredStep], skip: Collection[int] = ()
) -> list[StepFault]:
    """Return the faults of a list that depend on the node or on its children.

    :param skip: ordinals of steps that are not checked, because they will not run.
    """
    of_children = _children_faults(task, kind, wanted, skip)
    return [*power_faults(task.node, kind, wanted, skip), *of_children]


def power_faults(
    node: Node, kind: StepKind, wanted: Iterable[StoredStep], skip: Collection[int] = ()
) -> list[StepFault]:
    """Return the fault of each step that would break the node's ``disable_power_off``.

    :param skip: ordinals of steps that are not checked, because they will not run.
    """
    return [
        StepFault(f"{kind}_steps/{place}/step", text)
        for place, step in enumerate(wanted)
        if place not in skip and not step_lists.for_children(step)
        for text in _power_texts(node, kind, step)
    ]


def power_texts(node: Node, kind: StepKind, wanted: Iterable[StoredStep]) -> list[str]:
    """Return the sentences of `power_faults` for steps that no request lists."""
    return [text for step in wanted for text in _power_texts(node, kind, step)]


def _power_texts(node: Node, kind: StepKind, step: StoredStep) -> list[str]:
    if not node.disable_power_off or step["step"] != "power_off":
        return []
    title = steps.title(step)
    return [f"{kind} step {title} is not possible while the node's disable_power_off is set"]


def _children_faults(
    task: Task, kind: StepKind, wanted: Sequence[StoredStep], skip: Collection[int]
) -> list[StepFault]:
    """Return the faults that the children's drivers find in the steps for children."""
    theirs = {
        place: step
        for place, step in enumerate(wanted)
        if place not in skip and step_lists.for_children(step)
    }
    known = execution.children_of(task) if theirs else []
    found = []
    for child in known:
        mine = {
            place: step
            for place, step in theirs.items()
            if child in execution.chosen_children(step, known)
        }
        for fault in _child_faults(task, child, kind, mine):
            found.append(StepFault(fault.path, f"on child node {child.uuid}: {fault.text}"))
    return found


def _child_faults(
    task: Task, child: Node, kind: StepKind, mine: Mapping[int, StoredStep]
) -> list[StepFault]:
    if not mine:
        return []
    path = f"{kind}_steps"
    try:
        offered = offered_steps(task.other_nodes.view(task.context, child), kind)
    except errors.Error as why:  # an interface that is not loaded, or cannot list its steps
        return [StepFault(f"{path}/{min(mine)}", why.message)]
    known = {step.title: step for step in offered}
    found = []
    for place, step in mine.items():
        for text in _power_texts(child, kind, step):
            found.append(StepFault(f"{path}/{place}/step", text))
    for place, step in mine.items():
        if step["step"] not in step_lists.RESERVED:  # their arguments are the same on every node
            found += step_lists.faults_of_step(step, known, kind, f"{path}/{place}", ramdisk=True)
    return found
