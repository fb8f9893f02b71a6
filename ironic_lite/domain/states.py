"""The provision states and every transition between them, as one table.

Only this module knows transitions (S5, ``docs/states.rst`` is generated from it) and uses
automaton. ``conductor/engine/task.py`` is the only writer of a node's state and calls ``follow``
first.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from automaton import exceptions, machines

from ironic_lite import errors


class Kind(enum.Enum):
    """Kinds of states."""

    STABLE = "stable"  # only a request leaves it (S5.21)
    BUSY = "busy"  # a conductor works and holds the lock (S5.17)
    WAIT = "wait"  # no worker; a ramdisk, a timer or a BMC will report
    HELD = "held"  # stopped on purpose until `unhold`
    FAIL = "fail"  # stopped by a fault; last_error says which


FAULTS = frozenset({"power failure", "clean failure", "rescue abort failure", "service failure"})
"""Values of ``node.fault``: reasons for maintenance set by the service."""


class State(enum.StrEnum):
    """A provision state; the value is the wire word, which must never change.

    Source: S2.32.
    """

    ENROLL = "enroll"
    VERIFYING = "verifying"
    MANAGEABLE = "manageable"
    AVAILABLE = "available"
    ACTIVE = "active"
    ERROR = "error"
    INSPECTING = "inspecting"
    INSPECTWAIT = "inspect wait"
    INSPECTFAIL = "inspect failed"
    CLEANING = "cleaning"
    CLEANWAIT = "clean wait"
    CLEANHOLD = "clean hold"
    CLEANFAIL = "clean failed"
    DEPLOYING = "deploying"
    DEPLOYWAIT = "wait call-back"
    DEPLOYHOLD = "deploy hold"
    DEPLOYFAIL = "deploy failed"
    DELETING = "deleting"
    ADOPTING = "adopting"
    ADOPTFAIL = "adopt failed"
    RESCUE = "rescue"
    RESCUING = "rescuing"
    RESCUEWAIT = "rescue wait"
    RESCUEFAIL = "rescue failed"
    UNRESCUING = "unrescuing"
    UNRESCUEFAIL = "unrescue failed"
    SERVICING = "servicing"
    SERVICEWAIT = "service wait"
    SERVICEHOLD = "service hold"
    SERVICEFAIL = "service failed"


S = State


class Momentary(enum.StrEnum):
    """States passed inside one transaction and never seen on the wire.

    S5.19, conflicts C1 and C3.
    """

    VERIFIED = "verified"
    VERIFYFAIL = "verify failed"
    INSPECTED = "inspected"
    CLEANED = "cleaned"
    DEPLOYED = "deployed"
    DELETED = "deleted"
    DELETEFAIL = "delete failed"
    RESCUED = "rescued"
    UNRESCUED = "unrescued"
    ADOPTED = "adopted"
    SERVICED = "serviced"


M = Momentary


class StateInfo(NamedTuple):
    """A state's kind and target (always a stable state, S5.20)."""

    kind: Kind
    target: State | None = None


STATES: dict[State, StateInfo] = {
    S.ENROLL: StateInfo(Kind.STABLE),
    S.MANAGEABLE: StateInfo(Kind.STABLE),
    S.AVAILABLE: StateInfo(Kind.STABLE),
    S.ACTIVE: StateInfo(Kind.STABLE),
    S.RESCUE: StateInfo(Kind.STABLE),
    S.ERROR: StateInfo(Kind.STABLE),
    S.VERIFYING: StateInfo(Kind.BUSY, S.MANAGEABLE),
    S.INSPECTING: StateInfo(Kind.BUSY, S.MANAGEABLE),
    S.INSPECTWAIT: StateInfo(Kind.WAIT, S.MANAGEABLE),
    S.INSPECTFAIL: StateInfo(Kind.FAIL, S.MANAGEABLE),
    S.CLEANING: StateInfo(Kind.BUSY, S.AVAILABLE),
    S.CLEANWAIT: StateInfo(Kind.WAIT, S.AVAILABLE),
    S.CLEANHOLD: StateInfo(Kind.HELD, S.AVAILABLE),
    S.CLEANFAIL: StateInfo(Kind.FAIL, S.AVAILABLE),
    S.DEPLOYING: StateInfo(Kind.BUSY, S.ACTIVE),
    S.DEPLOYWAIT: StateInfo(Kind.WAIT, S.ACTIVE),
    S.DEPLOYHOLD: StateInfo(Kind.HELD, S.ACTIVE),
    S.DEPLOYFAIL: StateInfo(Kind.FAIL, S.ACTIVE),
    S.DELETING: StateInfo(Kind.BUSY, S.AVAILABLE),
    S.ADOPTING: StateInfo(Kind.BUSY, S.ACTIVE),
    S.ADOPTFAIL: StateInfo(Kind.FAIL, S.ACTIVE),
    S.RESCUING: StateInfo(Kind.BUSY, S.RESCUE),
    S.RESCUEWAIT: StateInfo(Kind.WAIT, S.RESCUE),
    S.RESCUEFAIL: StateInfo(Kind.FAIL, S.RESCUE),
    S.UNRESCUING: StateInfo(Kind.BUSY, S.ACTIVE),
    S.UNRESCUEFAIL: StateInfo(Kind.FAIL, S.ACTIVE),
    S.SERVICING: StateInfo(Kind.BUSY, S.ACTIVE),
    S.SERVICEWAIT: StateInfo(Kind.WAIT, S.ACTIVE),
    S.SERVICEHOLD: StateInfo(Kind.HELD, S.ACTIVE),
    S.SERVICEFAIL: StateInfo(Kind.FAIL, S.ACTIVE),
}


class Row(NamedTuple):
    """One event: from each of ``sources`` to ``to``, passing the momentary state ``via`` if
    given."""

    event: str
    sources: tuple[State, ...]
    to: State
    via: Momentary | None = None


TABLE: tuple[Row, ...] = (
    # -- from a stable or failed state: asked for by a verb --
    Row("manage", (S.ENROLL,), S.VERIFYING),
    Row(
        "manage",
        (S.AVAILABLE, S.CLEANFAIL, S.INSPECTFAIL, S.ADOPTFAIL),
        S.MANAGEABLE,
    ),
    Row("inspect", (S.MANAGEABLE, S.INSPECTFAIL), S.INSPECTING),
    Row("provide", (S.MANAGEABLE, S.CLEANFAIL), S.CLEANING),  # S2.17, S2.18 (C2)
    Row("available", (S.CLEANFAIL,), S.AVAILABLE),  # skip cleaning, S2.18 (C2)
    Row("clean", (S.MANAGEABLE,), S.CLEANING),  # S1.12
    Row("adopt", (S.MANAGEABLE, S.ADOPTFAIL), S.ADOPTING),
    Row("deploy", (S.AVAILABLE, S.DEPLOYFAIL), S.DEPLOYING),
    Row("rebuild", (S.ACTIVE, S.DEPLOYFAIL, S.ERROR), S.DEPLOYING),
    Row(
        "delete",
        (
            S.ACTIVE,
            S.ERROR,
            S.DEPLOYFAIL,
            S.DEPLOYWAIT,
            S.RESCUE,
            S.RESCUEWAIT,
            S.RESCUEFAIL,
            S.UNRESCUEFAIL,
            S.SERVICEWAIT,
            S.SERVICEFAIL,
        ),
        S.DELETING,
    ),
    Row(
        "rescue",
        (S.ACTIVE, S.RESCUE, S.RESCUEFAIL, S.UNRESCUEFAIL, S.SERVICEFAIL),
        S.RESCUING,
    ),
    Row("unrescue", (S.RESCUE, S.RESCUEFAIL, S.UNRESCUEFAIL), S.UNRESCUING),
    Row("service", (S.ACTIVE, S.SERVICEHOLD, S.SERVICEFAIL), S.SERVICING),
    Row("retry", (S.CLEANFAIL,), S.CLEANING),
    Row("retry", (S.DEPLOYFAIL,), S.DEPLOYING),
    Row("retry", (S.SERVICEFAIL,), S.SERVICING),
    # -- success, through the momentary -ED states --
    Row("done", (S.VERIFYING,), S.MANAGEABLE, M.VERIFIED),
    Row("done", (S.INSPECTING, S.INSPECTWAIT), S.MANAGEABLE, M.INSPECTED),
    Row("done", (S.CLEANING,), S.AVAILABLE, M.CLEANED),
    Row("manage", (S.CLEANING,), S.MANAGEABLE, M.CLEANED),  # S1.13, and retired nodes (S4.5)
    Row("done", (S.DEPLOYING,), S.ACTIVE, M.DEPLOYED),
    Row("clean", (S.DELETING,), S.CLEANING, M.DELETED),
    Row("done", (S.RESCUING,), S.RESCUE, M.RESCUED),
    Row("done", (S.UNRESCUING,), S.ACTIVE, M.UNRESCUED),
    Row("done", (S.ADOPTING,), S.ACTIVE, M.ADOPTED),
    Row("done", (S.SERVICING,), S.ACTIVE, M.SERVICED),
    # -- failure --
    Row("fail", (S.VERIFYING,), S.ENROLL, M.VERIFYFAIL),
    Row("fail", (S.INSPECTING, S.INSPECTWAIT), S.INSPECTFAIL),
    Row("fail", (S.CLEANING, S.CLEANWAIT), S.CLEANFAIL),
    Row("fail", (S.DEPLOYING, S.DEPLOYWAIT), S.DEPLOYFAIL),
    Row("fail", (S.DELETING,), S.ERROR, M.DELETEFAIL),
    Row("fail", (S.ADOPTING,), S.ADOPTFAIL),
    Row("fail", (S.RESCUING, S.RESCUEWAIT), S.RESCUEFAIL),
    Row("fail", (S.UNRESCUING,), S.UNRESCUEFAIL),
    Row("fail", (S.SERVICING, S.SERVICEWAIT, S.SERVICEHOLD), S.SERVICEFAIL),
    # -- waiting and going on --
    Row("wait", (S.INSPECTING,), S.INSPECTWAIT),
    Row("wait", (S.CLEANING,), S.CLEANWAIT),
    Row("wait", (S.DEPLOYING,), S.DEPLOYWAIT),
    Row("wait", (S.RESCUING,), S.RESCUEWAIT),
    Row("wait", (S.SERVICING, S.SERVICEFAIL), S.SERVICEWAIT),
    Row("resume", (S.INSPECTWAIT,), S.INSPECTING),
    Row("resume", (S.CLEANWAIT,), S.CLEANING),
    Row("resume", (S.DEPLOYWAIT,), S.DEPLOYING),
    Row("resume", (S.RESCUEWAIT,), S.RESCUING),
    Row("resume", (S.SERVICEWAIT,), S.SERVICING),
    # -- holding --
    Row("hold", (S.CLEANING, S.CLEANWAIT), S.CLEANHOLD),
    Row("hold", (S.DEPLOYING, S.DEPLOYWAIT), S.DEPLOYHOLD),
    Row("hold", (S.SERVICING, S.SERVICEWAIT, S.SERVICEFAIL), S.SERVICEHOLD),
    Row("unhold", (S.CLEANHOLD,), S.CLEANWAIT),
    Row("unhold", (S.DEPLOYHOLD,), S.DEPLOYWAIT),
    Row("unhold", (S.SERVICEHOLD,), S.SERVICEWAIT),
    # -- giving up on request (S5.16) --
    Row("abort", (S.INSPECTWAIT,), S.INSPECTFAIL),
    Row("abort", (S.CLEANWAIT, S.CLEANHOLD), S.CLEANFAIL),
    Row("abort", (S.DEPLOYWAIT, S.DEPLOYHOLD), S.DEPLOYFAIL),
    Row("abort", (S.RESCUEWAIT,), S.RESCUEFAIL),
    Row("abort", (S.SERVICEWAIT, S.SERVICEHOLD), S.SERVICEFAIL),
    Row("abort", (S.SERVICEFAIL,), S.ACTIVE),
    # -- stopped between two steps; ``verbs.possible`` keeps clients from it --
    Row("abort", (S.CLEANING,), S.CLEANFAIL),
    Row("abort", (S.DEPLOYING,), S.DEPLOYFAIL),
    Row("abort", (S.SERVICING,), S.SERVICEFAIL),
)

_SETTLE = "settle"  # internal: from a momentary state to where it leads

CLEAN_STATES = frozenset({S.CLEANING, S.CLEANWAIT, S.CLEANHOLD, S.CLEANFAIL})
PATCHABLE_IN_TRANSITION = frozenset(
    {
        S.DEPLOYFAIL,
        S.INSPECTING,
        S.INSPECTFAIL,
        S.INSPECTWAIT,
        S.CLEANFAIL,
        S.ERROR,
        S.VERIFYING,
        S.ADOPTFAIL,
        S.RESCUEFAIL,
        S.UNRESCUEFAIL,
        S.SERVICEHOLD,
        S.SERVICEFAIL,
    }
)
INTERFACES_CHANGEABLE = frozenset(
    {S.ENROLL, S.INSPECTING, S.INSPECTWAIT, S.MANAGEABLE, S.AVAILABLE}
)
WITH_INSTANCE = frozenset(
    state for state, info in STATES.items() if {state, info.target} & {S.ACTIVE, S.RESCUE}
) | {S.DELETING, S.ERROR}
"""States of a node that has an instance, gets one, loses one, or may have one."""
DELETABLE = frozenset({S.MANAGEABLE, S.ENROLL, S.ADOPTFAIL, S.AVAILABLE})
VOLUMES_REMOVABLE = DELETABLE - {S.AVAILABLE}
"""States in which a machine's volumes can be removed while it is powered on."""
POSTPONED = tuple(
    one for one, about in STATES.items() if about.kind is Kind.WAIT and one is not S.INSPECTWAIT
)
"""The states whose time-out a heartbeat postpones.

An inspection waits for a report. An agent whose report was refused sends no second one, but sends
heartbeats as long as its machine is on.
"""
LOOKUP_ALLOWED = frozenset(
    {
        S.DEPLOYING,
        S.DEPLOYWAIT,
        S.CLEANING,
        S.CLEANWAIT,
        S.INSPECTING,
        S.INSPECTWAIT,
        S.RESCUING,
        S.RESCUEWAIT,
        S.SERVICEWAIT,
    }
)

FAST_TRACK_LOOKUP = LOOKUP_ALLOWED | {
    S.ENROLL,
    S.MANAGEABLE,
    S.AVAILABLE,
    S.SERVICING,
    S.SERVICEHOLD,
}


def of_kind(*kinds: Kind) -> frozenset[State]:
    """Return all states of these kinds."""
    return frozenset(state for state, trait in STATES.items() if trait.kind in kinds)


def _build_machine() -> machines.FiniteMachine:
    """Return one machine holding every row; it is never run, ``follow`` copies it."""
    machine = machines.FiniteMachine()
    for name in State:
        machine.add_state(str(name))
    seen: dict[tuple[str, str], str] = {}
    for row in TABLE:
        for source in row.sources:
            through = f"{row.via} to {row.to}" if row.via else str(row.to)
            if row.via and through not in machine:
                machine.add_state(through)
                machine.add_transition(through, str(row.to), _SETTLE)
            if seen.setdefault((source, row.event), through) != through:
                raise RuntimeError(f"{row.event} from {source} leads to two states")
            machine.add_transition(str(source), through, row.event)
    machine.freeze()
    return machine


MACHINE = _build_machine()
# Each transition is computed once at import. It then is a dictionary look-up, and no machine (which
# holds its current state) is shared between threads.
_NEXT: dict[tuple[State, str], State] = {}


def _walk_event(state: State, event: str) -> State:
    """Run the machine itself over one event and out of any momentary state."""
    walker = MACHINE.copy(shallow=True)
    walker.initialize(str(state))
    try:
        walker.process_event(event)
        if walker.current_state not in set(State):
            walker.process_event(_SETTLE)
    except exceptions.NotFound:
        raise errors.InvalidState(verb=event, node="", state=str(state)) from None
    return State(str(walker.current_state))


for _row in TABLE:
    for _source in _row.sources:
        _NEXT[_source, _row.event] = _walk_event(_source, _row.event)


def allows(state: State, event: str) -> bool:
    """Return whether ``event`` is possible in ``state``."""
    return (state, event) in _NEXT


def follow(state: State, event: str, *, node: str = "") -> State:
    """Return the state that ``event`` leads to.

    :param node: UUID for the error's sentence.
    :raises errors.InvalidState: the table has no such transition.
    """
    try:
        return _NEXT[state, event]
    except KeyError:
        raise errors.InvalidState(verb=event, node=node, state=str(state)) from None


def target(before: State, after: State, current: State | None, goal: State | None) -> State | None:
    """Return target_provision_state after a move.

    Requirement S5.20; S1.3 keeps a manual clean manual.

    :param current: the target before the move.
    :param goal: the caller's target, in place of the state's own.
    """
    trait = STATES[after]
    if trait.target is None:
        return None
    if goal is not None:
        return goal
    same_phase = before in CLEAN_STATES and after in CLEAN_STATES
    return current if same_phase and current else trait.target


def kind(state: State) -> Kind:
    """Return the kind of ``state``."""
    return STATES[state].kind


ENDS_CHOSEN_DEPLOY = frozenset({State.MANAGEABLE, State.AVAILABLE})
"""States without an instance for which a deploy interface was chosen."""
UNSYNCED = frozenset({State.ENROLL, State.ADOPTFAIL}) | of_kind(Kind.WAIT)
"""States in which the power of a machine is not read regularly."""
UNSTABLE = of_kind(Kind.BUSY, Kind.WAIT)
"""States that end without a request."""


def check_at_rest(state: State, what: str, *, node: str) -> None:
    """Refuse a change that would disturb the work on a node.

    :param what: for the sentence, such as ``its boot mode``.
    :raises errors.Conflict: the node is in one of ``UNSTABLE``.
    """
    if state in UNSTABLE:
        reason = f"{what} cannot be changed in state {state}; wait for its end, or abort it"
        raise errors.Conflict(node=node, reason=reason)
